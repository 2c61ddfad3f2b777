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

TEST(DecoderLikeTest, OfModelsThatSeeItIsTheText) {
  const Json text = {{"model_type", "gemma3_text"}, {"hidden_size", 2560}};
  const std::optional<Json> known = decoder_like(
      {{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", Json::object()}});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->at("model_type"), "gemma3_text");
  EXPECT_EQ(known->at("hidden_size"), 2560);
  EXPECT_EQ(stands_for(*known), "gemma3");
  EXPECT_EQ(stands_for(text), "");
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
