// Sizes of families that are not trained, as their config.json on the hub and their papers give
// them.
#include "sftbench/families/decoder_like.h"

#include <gtest/gtest.h>

#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace SFTBENCH_FILE {

double billions(const char* config) {
  const std::optional<Json> decoder = decoder_like(Json::parse(config));
  if (!decoder) return 0;
  return static_cast<double>(parameter_count(*decoder)) / 1e9;
}

TEST(DecoderLikeTest, NamesOfOlderClassesAreRead) {
  // THUDM/glm-4-9b-chat: 9.40 billion.
  EXPECT_NEAR(
      billions(
          R"({"model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32,
      "multi_query_group_num": 2, "kv_channels": 128, "ffn_hidden_size": 13696, "padded_vocab_size": 151552,
      "seq_length": 131072, "add_qkv_bias": true})"),
      9.40, 0.01);
  // Qwen/Qwen-7B: 7.72 billion. Its inner width is of gate and up together.
  EXPECT_NEAR(billions(R"({"model_type": "qwen", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "intermediate_size": 22016, "vocab_size": 151936, "seq_length": 8192})"),
              7.72, 0.01);
}

TEST(DecoderLikeTest, AModelWithoutAnInnerWidthHasTwoLinearsOfFourTimesTheHidden) {
  // tiiuae/falcon-7b: 7.22 billion with its output projection, which is the embedding.
  EXPECT_NEAR(billions(R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
      "num_attention_heads": 71, "multi_query": true, "vocab_size": 65024, "tie_word_embeddings": true})"),
              6.92, 0.01);
  // facebook/opt-1.3b: 1.32 billion.
  EXPECT_NEAR(
      billions(
          R"({"model_type": "opt", "hidden_size": 2048, "num_hidden_layers": 24, "ffn_dim": 8192,
      "num_attention_heads": 32, "activation_function": "relu", "vocab_size": 50272,
      "max_position_embeddings": 2048, "tie_word_embeddings": true})"),
      1.31, 0.01);
}

TEST(DecoderLikeTest, ExpertsAreThoseOfQwen2Moe) {
  // deepseek-ai/deepseek-moe-16b-base: 16.4 billion.
  EXPECT_NEAR(billions(R"({"model_type": "deepseek", "hidden_size": 2048, "num_hidden_layers": 28,
      "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944, "n_routed_experts": 64,
      "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
      "vocab_size": 102400, "hidden_act": "silu", "max_position_embeddings": 4096})"),
              16.38, 0.02);
}

TEST(DecoderLikeTest, WhatAConfigDoesNotSayFollowsFromWhatItSays) {
  const auto like = [](Json fields) {
    Json config = {{"model_type", "other"},
                   {"hidden_size", 64},
                   {"num_hidden_layers", 2},
                   {"num_attention_heads", 4},
                   {"vocab_size", 100}};
    config.update(fields);
    return *decoder_like(config);
  };
  const Json least = like(Json::object());
  EXPECT_EQ(least["model_type"], "starcoder2") << "two linears";
  EXPECT_EQ(least["intermediate_size"], 256);
  EXPECT_EQ(least["num_key_value_heads"], 4);
  EXPECT_EQ(least["tie_word_embeddings"], false);
  EXPECT_GE(least["max_position_embeddings"], 1'000'000) << "nothing bounds a row";
  EXPECT_FALSE(least.contains("torch_dtype"));
  EXPECT_EQ(like({{"torch_dtype", "float16"}})["torch_dtype"], "float16");
  EXPECT_EQ(like({{"dtype", "bfloat16"}})["torch_dtype"], "bfloat16");
  EXPECT_EQ(like({{"multi_query", true}})["num_key_value_heads"], 1);
  EXPECT_EQ(like({{"multi_query", true}, {"num_kv_heads", 2}})["num_key_value_heads"], 2);
  EXPECT_EQ(like({{"num_kv_heads", 0}})["num_key_value_heads"], 4) << "a size is at least 1";
  EXPECT_EQ(like({{"num_kv_heads", 1}})["num_key_value_heads"], 1);
  const Json inner = {{"intermediate_size", 96}};
  for (const auto& [activation, type] :
       std::vector<std::pair<Json, const char*>>{{nullptr, "llama"},
                                                 {"silu", "llama"},
                                                 {"gelu_new", "starcoder2"},
                                                 {"relu2", "starcoder2"}}) {
    Json fields = inner;
    fields["activation_function"] = activation;
    EXPECT_EQ(like(fields)["model_type"], type) << activation;
  }
  EXPECT_EQ(like({{"hidden_act", "silu"}})["model_type"], "llama");
}

TEST(DecoderLikeTest, ExpertsHaveTheWidthOfTheMlpUnlessTheySayTheirOwn) {
  const auto like = [](Json fields) {
    Json config = {{"model_type", "other"},    {"hidden_size", 64}, {"num_hidden_layers", 3},
                   {"num_attention_heads", 4}, {"vocab_size", 100}, {"intermediate_size", 96},
                   {"n_routed_experts", 8}};
    config.update(fields);
    return *decoder_like(config);
  };
  EXPECT_EQ(like(Json::object())["model_type"], "llama") << "nobody says how many a token has";
  const Json least = like({{"moe_topk", 2}});
  EXPECT_EQ(least["model_type"], "qwen2_moe");
  EXPECT_EQ(least["moe_intermediate_size"], 96);
  EXPECT_EQ(least["shared_expert_intermediate_size"], 1) << "none";
  EXPECT_EQ(least["mlp_only_layers"], Json::array());
  EXPECT_EQ(least["qkv_bias"], false);
  const Json shared = like({{"moe_topk", 2},
                            {"moe_intermediate_size", 16},
                            {"n_shared_experts", 2},
                            {"first_k_dense_replace", 2}});
  EXPECT_EQ(shared["moe_intermediate_size"], 16);
  EXPECT_EQ(shared["shared_expert_intermediate_size"], 2 * 16);
  EXPECT_EQ(shared["mlp_only_layers"], Json({0, 1}));
  EXPECT_EQ(like({{"moe_topk", 2},
                  {"shared_expert_intermediate_size", 7}})["shared_expert_intermediate_size"],
            7);
}

TEST(DecoderLikeTest, OfModelsThatSeeItIsTheText) {
  const Json text = {{"model_type", "gemma3_text"}, {"hidden_size", 2560}};
  const std::optional<Json> known = decoder_like(
      {{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", Json::object()}});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->at("model_type"), "gemma3_text");
  EXPECT_EQ(known->at("hidden_size"), 2560);
  EXPECT_EQ(stands_for(*known), "gemma3");
  EXPECT_EQ(stands_for(text), "");
  const Json speaks = {{"model_type", "omni"}, {"thinker_config", {{"text_config", text}}}};
  EXPECT_EQ(decoder_like(speaks)->at("model_type"), "gemma3_text");
  EXPECT_EQ(stands_for(Json()), "");
}

TEST(DecoderLikeTest, WithoutASizeThereIsNone) {
  EXPECT_FALSE(decoder_like({{"model_type", "bert"}, {"hidden_size", 768}}));
  EXPECT_FALSE(decoder_like({{"model_type", "bart"},
                             {"is_encoder_decoder", true},
                             {"d_model", 1024},
                             {"num_hidden_layers", 12},
                             {"num_attention_heads", 16},
                             {"vocab_size", 50265}}));
  EXPECT_FALSE(decoder_like({{"model_type", "t5"}, {"hidden_size", "768"}, {"num_layers", -1}}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
