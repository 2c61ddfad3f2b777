#include "sftbench/families/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/safetensors_builder.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// The least that a config.json has to say; `fields` replaces and adds, null included.
Json config_with(const Json& fields) {
  Json config = {{"model_type", "llama"},    {"vocab_size", 100},      {"hidden_size", 64},
                 {"intermediate_size", 128}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
  for (const auto& [key, value] : fields.items()) config[key] = value;
  return config;
}

ModelConfig parse(const Json& fields) {
  return parse_model_config(config_with(fields));
}

std::string error_of(const Json& fields) {
  return message_of<InputError>([&] { parse(fields); });
}

TEST(ModelConfig, FillsInTheDefaultsOfTheFamily) {
  const ModelConfig llama = parse(Json::object());
  EXPECT_EQ(llama.family, find_family("llama"));
  EXPECT_EQ(llama.attention.key_value_heads, 4);
  EXPECT_EQ(llama.attention.head_dim, 16);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_DOUBLE_EQ(llama.norm_eps, 1e-6);
  EXPECT_DOUBLE_EQ(llama.rope.theta, 10000.0);
  EXPECT_EQ(llama.rope.type, RopeType::kDefault);
  EXPECT_FALSE(llama.tie_word_embeddings);

  const ModelConfig mistral = parse({{"model_type", "mistral"}, {"num_attention_heads", 16}});
  EXPECT_EQ(mistral.attention.key_value_heads, 8);
  EXPECT_EQ(mistral.attention.window, 4096);
  EXPECT_EQ(mistral.max_position_embeddings, 131072);

  const ModelConfig granite = parse({{"model_type", "granite"}});
  EXPECT_DOUBLE_EQ(granite.attention.scale, 1.0);
}

// As the hub's pages of HuggingFaceTB/SmolLM2-135M and meta-llama/Llama-3.1-8B say: 134,515,008 and
// 8,030,261,248.
TEST(ModelShape, HasThePublishedParameters) {
  const auto parameters = [](const Json& fields) { return shape_of(parse(fields)).parameters(); };
  EXPECT_EQ(parameters({{"vocab_size", 49152},
                        {"hidden_size", 576},
                        {"intermediate_size", 1536},
                        {"num_hidden_layers", 30},
                        {"num_attention_heads", 9},
                        {"num_key_value_heads", 3},
                        {"tie_word_embeddings", true}}),
            134515008);
  EXPECT_EQ(parameters({{"vocab_size", 128256},
                        {"hidden_size", 4096},
                        {"intermediate_size", 14336},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32},
                        {"num_key_value_heads", 8}}),
            8030261248);
}

TEST(ModelConfig, NullMeansNotSet) {
  const ModelConfig config = parse({{"model_type", "mistral"},
                                    {"num_key_value_heads", nullptr},
                                    {"sliding_window", nullptr},
                                    {"head_dim", nullptr},
                                    {"pad_token_id", nullptr},
                                    {"rope_scaling", nullptr}});
  EXPECT_EQ(config.attention.key_value_heads, 4);
  EXPECT_EQ(config.attention.window, 0);
  EXPECT_EQ(config.attention.head_dim, 16);
  EXPECT_FALSE(config.pad_token_id.has_value());
}

TEST(ModelConfig, OldAndNewSpellingOfRopeAgree) {
  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json old_scaling = scaling, new_scaling = scaling;
  old_scaling["type"] = "llama3";
  new_scaling["rope_type"] = "llama3";
  new_scaling["rope_theta"] = 500000.0;
  for (const ModelConfig& config :
       {parse({{"rope_theta", 500000.0}, {"rope_scaling", old_scaling}}),
        parse({{"rope_parameters", new_scaling}})}) {
    EXPECT_EQ(config.rope.type, RopeType::kLlama3);
    EXPECT_DOUBLE_EQ(config.rope.theta, 500000.0);
    EXPECT_DOUBLE_EQ(config.rope.factor, 8.0);
    EXPECT_EQ(config.rope.original_max_position_embeddings, 8192);
  }
}

TEST(ModelConfig, YarnWithoutFactorTakesTheRatioOfLengths) {
  const ModelConfig config =
      parse({{"max_position_embeddings", 4096},
             {"rope_scaling", {{"type", "yarn"}, {"original_max_position_embeddings", 1024}}}});
  EXPECT_DOUBLE_EQ(config.rope.factor, 4.0);
}

TEST(ModelConfig, ReportsWhatItDoesNotBuildAsData) {
  const ModelConfig config =
      parse({{"attention_dropout", 0.1}, {"torch_dtype", "bfloat16"}, {"pretraining_tp", 2}});
  EXPECT_DOUBLE_EQ(config.attention.dropout, 0.1);
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(parse({{"dtype", "float32"}, {"torch_dtype", "float16"}}).dtype, "float32");
}

TEST(ModelConfig, ArchitectureAloneIsEnough) {
  EXPECT_EQ(parse({{"model_type", nullptr}, {"architectures", {"GraniteForCausalLM"}}}).family,
            find_family("granite"));
}

TEST(ModelConfig, UnknownModelTypeListsTheKnownOnes) {
  EXPECT_EQ(error_of({{"model_type", "lama"}}),
            "config.json: model_type: unknown model type \"lama\"; expected one of " +
                join(known_model_types()) + "; did you mean 'llama'?");
  EXPECT_EQ(error_of({{"model_type", nullptr}}),
            "config.json: model_type: missing; expected one of " + join(known_model_types()));
}

TEST(ModelConfig, UnknownArchitectureListsTheKnownOnes) {
  std::vector<std::string> known;
  for (const Family& family : families()) known.emplace_back(family.architecture);
  EXPECT_THAT(known, IsSupersetOf({"BloomForCausalLM", "GraniteForCausalLM", "Qwen3ForCausalLM"}));
  EXPECT_EQ(
      error_of({{"architectures", {"LlamaForCausalML"}}}),
      "config.json: architectures: unknown architecture \"LlamaForCausalML\"; expected one of " +
          join(known) + "; did you mean 'LlamaForCausalLM'?");
  EXPECT_EQ(error_of({{"architectures", {"MistralForCausalLM"}}}),
            "config.json: architectures: found MistralForCausalLM; expected LlamaForCausalLM for "
            "model_type llama");
  EXPECT_EQ(
      error_of({{"architectures", "LlamaForCausalLM"}}),
      "config.json: architectures: found \"LlamaForCausalLM\"; expected a list of class names");
}

TEST(ModelConfig, AllFindingsAtOnce) {
  EXPECT_EQ(error_of({{"hidden_size", 65},
                      {"vocab_size", "many"},
                      {"num_hidden_layers", -1},
                      {"intermediate_size", nullptr},
                      {"rms_norm_eps", 0},
                      {"hidden_act", "gelu"},
                      {"mlp_bias", 1},
                      {"attention_dropout", 1.0},
                      {"quantization_config", {{"quant_method", "gptq"}}}}),
            "config.json: intermediate_size: missing; expected a positive integer\n"
            "config.json: num_hidden_layers: found -1; expected a positive integer below 2^31\n"
            "config.json: vocab_size: found \"many\"; expected a positive integer below 2^31\n"
            "config.json: rms_norm_eps: found 0; expected a number above 0\n"
            "config.json: attention_dropout: found 1.0; expected a number from 0 to below 1\n"
            "config.json: hidden_size: found 65; expected a multiple of num_attention_heads (4)\n"
            "config.json: mlp_bias: found 1; expected true or false\n"
            "config.json: hidden_act: found \"gelu\"; expected \"silu\"\n"
            "config.json: quantization_config.bits: missing; expected 2, 3, 4 or 8");
}

TEST(ModelConfig, TheAttentionFactorOfYarnIsItsOwnWhereItIsGiven) {
  const auto rope = [](Json fields) {
    fields.update({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}});
    return parse({{"rope_scaling", fields}}).rope;
  };
  EXPECT_EQ(rope(Json::object()).attention_factor, std::nullopt);
  EXPECT_EQ(rope({{"attention_factor", 1.5}}).attention_factor, 1.5);
  EXPECT_EQ(rope({{"mscale", 0.5}, {"mscale_all_dim", 0.25}}).mscale, 0.5);
  EXPECT_EQ(rope({{"mscale", 0.5}, {"mscale_all_dim", 0.25}}).mscale_all_dim, 0.25);
}

TEST(ModelConfig, NothingIsDividedByASizeThatIsMissing) {
  EXPECT_EQ(error_of({{"num_attention_heads", nullptr}}),
            "config.json: num_attention_heads: missing; expected a positive integer");
  EXPECT_EQ(error_of({{"hidden_size", nullptr}}),
            "config.json: hidden_size: missing; expected a positive integer");
  const auto bigcode = [](const Json& sizes) {
    Json config = {
        {"model_type", "gpt_bigcode"},    {"n_embd", 64},          {"n_layer", 2}, {"n_head", 4},
        {"num_attention_heads", nullptr}, {"hidden_size", nullptr}};
    config.update(sizes);
    return error_of(config);
  };
  EXPECT_THAT(bigcode({{"n_head", nullptr}}), HasSubstr("missing; expected a positive integer"));
  EXPECT_EQ(bigcode({{"n_embd", nullptr}}),
            "config.json: n_embd: missing; expected a positive integer");
  EXPECT_EQ(bigcode({{"n_embd", 66}}),
            "config.json: n_embd: found 66; expected a multiple of n_head (4)");
}

TEST(ModelConfig, ImpossibleHeads) {
  EXPECT_EQ(
      error_of({{"num_key_value_heads", 3}}),
      "config.json: num_key_value_heads: found 3; expected a divisor of num_attention_heads (4)");
  EXPECT_EQ(
      error_of({{"head_dim", 15}}),
      "config.json: head_dim: found 15; expected an even number: rotary embeddings turn pairs");
}

TEST(ModelConfig, MoreExpertsForATokenThanThereAre) {
  for (const char* family : {"mixtral", "granitemoe", "granitemoeshared", "gpt_oss"}) {
    EXPECT_EQ(error_of({{"model_type", family},
                        {"num_key_value_heads", 2},
                        {"num_local_experts", 4},
                        {"num_experts_per_tok", 5}}),
              "config.json: num_experts_per_tok: found 5; expected at most num_local_experts (4)")
        << family;
  }
  EXPECT_THAT(error_of({{"model_type", "mixtral"}, {"num_experts_per_tok", 0}}),
              HasSubstr("num_experts_per_tok: found 0; expected a positive integer"));
}

TEST(ModelConfig, VariantsOfFamiliesThatAreNotBuilt) {
  EXPECT_EQ(
      error_of(
          {{"model_type", "mixtral"}, {"num_key_value_heads", 2}, {"router_jitter_noise", 0.1}}),
      "config.json: router_jitter_noise: found 0.1; expected 0: inputs of the router are not "
      "changed at random");
  EXPECT_THAT(error_of({{"model_type", "gpt_oss"}, {"attention_dropout", 0.1}}),
              HasSubstr("expected 0: attention with sinks has no dropout"));
  const Json bigcode = {
      {"model_type", "gpt_bigcode"}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}};
  Json encoded = bigcode;
  encoded["add_cross_attention"] = true;
  EXPECT_EQ(error_of(encoded),
            "config.json: add_cross_attention: found true; expected false: there is no encoder");
  Json activated = bigcode;
  activated["activation_function"] = "relu";
  EXPECT_EQ(error_of(activated),
            "config.json: activation_function: found \"relu\"; expected \"silu\", \"gelu\", "
            "\"gelu_new\" or \"gelu_pytorch_tanh\"");
  EXPECT_EQ(error_of({{"model_type", "granitemoehybrid"},
                      {"layer_types", {"mamba", "rwkv"}},
                      {"mamba_n_heads", 4},
                      {"num_local_experts", 4},
                      {"num_experts_per_tok", 2}}),
            "config.json: layer_types: found \"rwkv\"; expected \"attention\" or \"mamba\"");
}

// A config.json of a family with what classes of transformers 5 have: heads, and no padding row.
Json of_family(const std::string& model_type, Json fields) {
  fields.update(
      {{"model_type", model_type}, {"num_key_value_heads", 2}, {"pad_token_id", nullptr}});
  return fields;
}

TEST(ModelConfig, WhatNewerFamiliesAskForAndIsNotBuilt) {
  EXPECT_EQ(error_of(of_family("stablelm", {{"qk_layernorm", true}, {"hidden_dropout", 0.1}})),
            "config.json: qk_layernorm: found true; expected false: norms of each head apart are "
            "not built\n"
            "config.json: hidden_dropout: found 0.1; expected 0: dropout of the MLP alone is not "
            "built");
  EXPECT_THAT(error_of(of_family("gemma2", {{"use_bidirectional_attention", true}})),
              HasSubstr("use_bidirectional_attention: found true; expected false"));
  EXPECT_THAT(error_of(of_family("gemma3_text", {{"attn_logit_softcapping", 50.0}})),
              HasSubstr("attn_logit_softcapping: found 50.0; expected null"));
  EXPECT_THAT(
      error_of(of_family("gemma3_text", {{"rope_parameters",
                                          {{"rope_type", "default"}, {"rope_theta", 10000.0}}}})),
      HasSubstr("expected an object for full_attention and one for sliding_attention"));
  EXPECT_THAT(error_of(of_family(
                  "phi3", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}}})),
              HasSubstr("rope_type: found a type that the class refuses; expected default or"));
  EXPECT_THAT(error_of(of_family("smollm3", {{"no_rope_layers", {1}}})),
              HasSubstr("no_rope_layers: found [1]; expected a list of at least 2 numbers"));
  EXPECT_THAT(error_of(of_family("stablelm", {{"partial_rotary_factor", 0.2}})),
              HasSubstr("partial_rotary_factor: found 0.2; expected a share of 16 (head_dim) that "
                        "is even"));
}

// As `or 0.02` in Hugging Face.
TEST(ModelConfig, ARangeOfInitializationOfNothingIsTheDefault) {
  const auto range = [](const Json& given) {
    return parse({{"initializer_range", given}}).initializer_range;
  };
  EXPECT_EQ(range(nullptr), 0.02);
  EXPECT_EQ(range(0), 0.02);
  EXPECT_EQ(range(0.05), 0.05);
  EXPECT_THAT(error_of({{"initializer_range", -0.02}}),
              HasSubstr("expected a number of at least 0"));
}

// Twice the hidden width of 64 is divided among 4 heads.
TEST(ModelConfig, HeadsOfMambaAreWhatDividesTheInnerWidth) {
  const Json hybrid = {
      {"model_type", "granitemoehybrid"}, {"num_key_value_heads", 2}, {"num_local_experts", 0},
      {"shared_intermediate_size", 128},  {"mamba_n_heads", 4},       {"mamba_d_state", 8}};
  const auto with = [&hybrid](const Json& fields) {
    Json config = hybrid;
    config.update(fields);
    return config;
  };
  for (const Json& head : {Json(), Json("auto"), Json(32)})
    EXPECT_EQ(parse(with({{"mamba_d_head", head}})).mamba->head_dim, 32) << head;
  EXPECT_TRUE(parse(hybrid).mamba->convolution_bias);
  EXPECT_FALSE(parse(hybrid).mamba->projection_bias);
  EXPECT_EQ(parse(with({{"mamba_n_groups", 2}})).mamba->groups, 2);
  for (const auto& [fields, found] : std::vector<std::pair<Json, const char*>>{
           {{{"mamba_d_head", 16}},
            "mamba_n_heads: found 4; expected mamba_n_heads * mamba_d_head"},
           {{{"mamba_n_heads", 3}}, "= mamba_expand * hidden_size (128)"},
           {{{"mamba_n_groups", 3}},
            "mamba_n_groups: found 3; expected a divisor of mamba_n_heads"}})
    EXPECT_THAT(error_of(with(fields)), HasSubstr(found)) << fields;
}

// In transformers GptOssRMSNorm, Olmo2RMSNorm and Gemma's multiply in float32 and cast the product,
// LlamaRMSNorm and its copies cast first. GptOssConfig alone has attention_bias True.
TEST(ModelConfig, NormsAndBiasesAreThoseOfTheClass) {
  for (const char* model_type : {"gpt_oss", "olmo2", "olmo3", "gemma", "gemma2", "gemma3_text"})
    EXPECT_TRUE(parse(of_family(model_type, {})).norm_rounds_last) << model_type;
  for (const char* model_type :
       {"llama", "mistral", "mixtral", "granite", "qwen2", "qwen3", "phi3", "smollm3", "exaone4"})
    EXPECT_FALSE(parse(of_family(model_type, {})).norm_rounds_last) << model_type;
  for (const char* model_type : {"llama", "gpt_oss", "granite", "olmo2"}) {
    const AttentionConfig attention = parse(of_family(model_type, {})).attention;
    EXPECT_EQ(attention.input_bias, model_type == std::string("gpt_oss")) << model_type;
    EXPECT_EQ(attention.output_bias, attention.input_bias) << model_type;
    EXPECT_TRUE(parse(of_family(model_type, {{"attention_bias", true}})).attention.output_bias);
  }
}

TEST(ModelConfig, LayersWithoutEndAreRefused) {
  EXPECT_EQ(error_of({{"num_hidden_layers", 100'000}}), "");
  EXPECT_THAT(error_of({{"num_hidden_layers", 100'001}}), HasSubstr("expected at most 100000"));
}

// 100 tokens and 32 positions of 64 values: GPT-2 has a table of each.
TEST(ModelShape, RowsOfTokensAndOfPositionsAreLookedUp) {
  EXPECT_EQ(shape_of(parse({{"num_key_value_heads", 2}})).lookup_parameters, 100 * 64);
  const Json gpt = {{"model_type", "gpt2"},
                    {"n_embd", 64},
                    {"n_layer", 2},
                    {"n_head", 4},
                    {"n_positions", 32},
                    {"vocab_size", 100},
                    {"tie_word_embeddings", false}};
  EXPECT_EQ(shape_of(parse_model_config(gpt)).lookup_parameters, (100 + 32) * 64);
}

TEST(ModelConfig, LongRopeNeedsAFactorForEachPair) {
  const Json long_rope = {
      {"rope_type", "longrope"}, {"short_factor", {1.0, 1.0}}, {"long_factor", {1.0, 2.0, 0.0}}};
  EXPECT_EQ(error_of(of_family("phi3", {{"rope_scaling", long_rope}})),
            "config.json: rope_scaling.short_factor: found [1.0,1.0]; expected a list of 8 numbers "
            "above 0, one for each pair\n"
            "config.json: rope_scaling.long_factor: found [1.0,2.0,0.0]; expected a list of 8 "
            "numbers above 0, one for each pair");
}

// As allenai/Olmo-3-1025-7B has it: a scaling beside the theta of all layers.
TEST(ModelConfig, ScalesTheLayersOfOlmo3ThatSeeEverything) {
  const ModelConfig config =
      parse(of_family("olmo3", {{"pad_token_id", nullptr},
                                {"rope_theta", 500.0},
                                {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8.0}}}}));
  EXPECT_EQ(config.rope.type, RopeType::kYarn);
  EXPECT_EQ(config.local_rope->type, RopeType::kDefault);
  EXPECT_EQ(config.rope.theta, 500.0);
  EXPECT_EQ(config.local_rope->theta, 500.0);
  EXPECT_EQ(config.attention.window, 4096);
}

TEST(ModelConfig, AListOfLayersGoesBeforeTheirPattern) {
  for (const char* family : {"cohere2", "gemma3_text"}) {
    const Json fields = {{"num_key_value_heads", 2},
                         {"pad_token_id", nullptr},
                         {"sliding_window_pattern", 0},
                         {"layer_types", {"full_attention", "sliding_attention"}}};
    EXPECT_EQ(parse(of_family(family, fields)).attention.windowed, (std::vector<bool>{false, true}))
        << family;
  }
}

// Beside a list of layers, files have a pattern as text, or 0, which transformers writes where
// there is no window.
TEST(ModelConfig, OnlyLayersWithAWindowHavePositionsInExaone4) {
  const auto of = [](Json fields) {
    fields["num_hidden_layers"] = 4;
    return of_family("exaone4", fields);
  };
  const char *window = "sliding_attention", *all = "full_attention";
  const ModelConfig large = parse(
      of({{"sliding_window_pattern", "LLLG"}, {"layer_types", {window, window, window, all}}}));
  EXPECT_EQ(large.attention.windowed, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(large.attention.unrotated, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(large.attention.window, 4096);
  const ModelConfig small = parse(of({{"sliding_window", nullptr},
                                      {"sliding_window_pattern", 0},
                                      {"layer_types", {all, all, all, all}}}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(small.attention.window_of(i), 0);
    EXPECT_TRUE(small.attention.rotates(i));
  }
  const ModelConfig alternating = parse(of({{"sliding_window_pattern", 2}}));
  EXPECT_EQ(alternating.attention.unrotated, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(parse(of({})).attention.unrotated, large.attention.unrotated);
  // transformers fails, too.
  EXPECT_THAT(error_of(of({{"sliding_window_pattern", "LLLG"}})),
              HasSubstr("sliding_window_pattern: found \"LLLG\"; expected a positive integer"));
}

TEST(ModelConfig, QueriesOfMinistral3Grow) {
  const auto grown = [](const char* type, double growth) {
    const Json rope = {{"rope_type", type}, {"factor", 4.0}, {"llama_4_scaling_beta", growth}};
    return of_family("ministral3", {{"head_dim", 16}, {"rope_parameters", rope}});
  };
  EXPECT_EQ(parse(grown("yarn", 0.1)).rope.query_growth, 0.1);
  EXPECT_EQ(parse(grown("yarn", 0.0)).rope.query_growth, 0.0);
  EXPECT_EQ(parse(of_family("ministral3", {{"head_dim", 16}})).rope.query_growth, 0.0);
  EXPECT_THAT(error_of(grown("yarn", -1.0)), HasSubstr("llama_4_scaling_beta: found -1"));
  EXPECT_THAT(error_of(grown("linear", 0.1)),
              HasSubstr("found another type beside llama_4_scaling_beta; expected \"yarn\""));
}

// Gemma2Config, Phi3Config, Olmo2Config and SmolLM3Config have one that config.json may leave out.
TEST(ModelConfig, AClassMayHaveAPaddingRowOfItsOwn) {
  EXPECT_EQ(parse({{"model_type", "gemma2"}, {"num_key_value_heads", 2}}).pad_token_id, 0);
  EXPECT_EQ(parse({{"model_type", "olmo2"}}).pad_token_id, 1);
  EXPECT_EQ(parse({{"model_type", "olmo2"}, {"pad_token_id", nullptr}}).pad_token_id, std::nullopt);
  EXPECT_THAT(error_of({{"model_type", "phi3"}}), HasSubstr("found 32000; expected a row of the"));
}

TEST(ModelConfig, PaddingRowCountsFromTheEndWhenNegative) {
  EXPECT_EQ(parse({{"pad_token_id", -1}}).pad_token_id, 99);
  EXPECT_EQ(
      error_of({{"pad_token_id", 100}}),
      "config.json: pad_token_id: found 100; expected a row of the embedding (vocab_size is 100)");
}

TEST(ModelConfig, RopeThatIsNotBuilt) {
  EXPECT_EQ(error_of({{"rope_scaling", {{"type", "mrope"}}}}),
            "config.json: rope_scaling.rope_type: unknown type \"mrope\"; expected one of "
            "default, linear, dynamic, llama3, yarn, longrope");
  EXPECT_THAT(error_of({{"rope_parameters", {{"rope_type", "yran"}}}}),
              HasSubstr("did you mean 'yarn'?"));
  EXPECT_EQ(error_of({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
            "config.json: rope_parameters.full_attention: different rotary embeddings by layer "
            "type; expected one rotary "
            "embedding for all layers");
  EXPECT_EQ(error_of({{"partial_rotary_factor", 0.5}}),
            "config.json: rope_parameters.partial_rotary_factor: found 0.5; expected 1: heads are "
            "rotated whole");
  EXPECT_EQ(error_of({{"rope_scaling", 7}}),
            "config.json: rope_scaling: found 7; expected an object");
}

TEST(ModelConfig, RopeWithImpossibleFields) {
  EXPECT_EQ(error_of({{"rope_scaling", {{"type", "linear"}}}}),
            "config.json: rope_scaling.factor: missing; expected a number above 0");
  EXPECT_EQ(error_of({{"rope_theta", 1.0}}),
            "config.json: rope_parameters.rope_theta: found 1.0; expected more than 1");
  EXPECT_EQ(
      error_of(
          {{"rope_scaling",
            {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}}),
      "config.json: rope_scaling.high_freq_factor: found 4; expected more than low_freq_factor "
      "(4)");
  EXPECT_EQ(error_of({{"head_dim", 2}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
            "config.json: head_dim: found 2; expected more than 2 for dynamic RoPE: its exponent "
            "divides by head_dim - 2");
}

// Sizes of the tensors in a file of Hugging Face's, sorted. No module below this one reads the
// format.
std::vector<std::vector<int64_t>> stored_sizes(const std::filesystem::path& folder) {
  std::vector<std::vector<int64_t>> sizes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof length);
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    const Json json = Json::parse(header);
    for (const auto& [key, tensor] : json.items()) {
      if (key != "__metadata__") sizes.push_back(tensor.at("shape").get<std::vector<int64_t>>());
    }
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// tests/reference/models.py saved them with transformers, others with a golden run alone. Of MXFP4
// blocks and scales are stored.
TEST(ModelShape, HasTheTensorsThatTransformersSaves) {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SFTBENCH_TEST_DATA "/models")) {
    const Json json = read_json_file(entry.path() / "config.json");
    const auto stored = stored_sizes(entry.path());
    if (stored.empty() || json.contains("quantization_config")) continue;
    const ModelShape shape = shape_of(parse_model_config(json));
    std::vector<std::vector<int64_t>> sizes;
    const auto add = [&](const std::vector<TensorShape>& tensors) {
      for (const TensorShape& tensor : tensors) sizes.push_back(tensor.sizes);
    };
    add(shape.before);
    add(shape.after);
    for (const LayerShape& layer : shape.layers) add(layer.tensors);
    std::sort(sizes.begin(), sizes.end());
    EXPECT_EQ(sizes, stored) << entry.path();
    ++compared;
  }
  EXPECT_EQ(compared, 46);
}

// Hidden size 64, an MLP of 128: attention keeps 2 * 64 of norm and products, 2 * 64 of queries and
// what they mix, and keys and values; the MLP 64 + 3 * 128, and the second norm 64.
TEST(ModelShape, ALayerKeepsWhatItsBackwardPassNeeds) {
  const auto layer = [](const Json& fields) { return shape_of(parse(fields)).layers[0]; };
  EXPECT_EQ(layer({{"num_key_value_heads", 2}}).kept_values, 320 + 448 + 64);
  EXPECT_EQ(layer({{"num_key_value_heads", 4}}).kept_values, 384 + 448 + 64);
  // Queries and keys before their norms.
  EXPECT_EQ(layer({{"model_type", "olmo2"}, {"pad_token_id", nullptr}}).kept_values,
            384 + 128 + 448 + 64);
  EXPECT_EQ(
      layer({{"model_type", "mixtral"}, {"num_key_value_heads", 2}, {"num_experts_per_tok", 2}})
          .kept_values,
      320 + 2 * 64 + 2 * (2 * 64) + 3 * (2 * 128));
  const LayerShape plain = layer({{"model_type", "starcoder2"}, {"num_key_value_heads", 2}});
  EXPECT_EQ(plain.kept_values, 320 + 64 + 2 * 128 + 64) << "no gate";
  EXPECT_EQ(plain.last_product, 64 * 128);
  EXPECT_EQ(plain.mlp.first_products, 64 * 128);
  const ExpertsShape experts =
      layer({{"model_type", "mixtral"}, {"num_key_value_heads", 2}}).experts;
  EXPECT_EQ(experts.routed, 8 * 64);
  EXPECT_EQ(experts.all, 8 * 3 * 64 * 128);
  EXPECT_EQ(experts.active, 2 * 3 * 64 * 128);
  EXPECT_EQ(experts.row_values, 2 * 64);
  EXPECT_EQ(experts.inner_values, 2 * 128);
}

// Of Qwen2Config, Qwen3Config, Olmo2Config, StableLmConfig, SmolLM3Config and so on in
// transformers.
TEST(ModelConfig, EmbeddingsAreTiedWhereTheClassSaysSo) {
  const Json gpt = {{"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}};
  const std::map<std::string, bool> tied = {
      {"bloom", true},       {"cohere2", true},     {"gemma", true},       {"gemma2", true},
      {"gemma3_text", true}, {"gpt2", true},        {"gpt_bigcode", true}, {"gpt_neox", false},
      {"granite", false},    {"granitemoe", false}, {"llama", false},      {"mistral", false},
      {"mixtral", false},    {"ministral3", false}, {"olmo2", false},      {"olmo3", false},
      {"phi3", false},       {"qwen2", false},      {"qwen2_moe", false},  {"qwen3", false},
      {"qwen3_moe", false},  {"smollm3", true},     {"stablelm", false},   {"starcoder2", true},
      {"exaone4", false}};
  for (const auto& [type, expected] : tied) {
    Json fields = gpt;
    fields.update({{"model_type", type}, {"num_key_value_heads", 2}, {"pad_token_id", nullptr}});
    EXPECT_EQ(parse(fields).tie_word_embeddings, expected) << type;
  }
  Json fields = gpt;
  fields["model_type"] = "gpt_bigcode";
  EXPECT_EQ(parse(fields).attention.key_value_heads, 1) << "multi_query by default";
}

// apply_rotary_pos_emb of modeling_cohere2.py turns neighbors, that of modeling_llama.py halves.
TEST(ModelConfig, NeighborsAreRotatedWhereTheClassSaysSo) {
  const auto neighbors = [](const char* type) {
    return parse({{"model_type", type}, {"num_key_value_heads", 2}, {"pad_token_id", nullptr}})
        .attention.rotates_neighbors;
  };
  EXPECT_TRUE(neighbors("cohere2"));
  EXPECT_FALSE(neighbors("llama"));
  EXPECT_FALSE(neighbors("gemma2"));
}

TEST(ModelConfig, LayersHaveTheirWindowsAndExperts) {
  const ModelConfig listed = parse({{"model_type", "qwen2"},
                                    {"num_key_value_heads", 2},
                                    {"use_sliding_window", true},
                                    {"sliding_window", 32},
                                    {"layer_types", {"full_attention", "sliding_attention"}}});
  EXPECT_EQ(listed.attention.window_of(0), 0);
  EXPECT_EQ(listed.attention.window_of(1), 32);
  const Json too_few = {
      {"model_type", "qwen2"}, {"num_key_value_heads", 2}, {"layer_types", {"full_attention"}}};
  EXPECT_EQ(error_of(too_few),
            "config.json: layer_types: found [\"full_attention\"]; expected a list of 2 types");
  const ModelConfig unused = parse({{"model_type", "smollm3"},
                                    {"num_key_value_heads", 2},
                                    {"pad_token_id", nullptr},
                                    {"num_hidden_layers", 4},
                                    {"sliding_window", 32}});
  EXPECT_EQ(unused.attention.window_of(3), 0) << "use_sliding_window is false by default";
  EXPECT_EQ(unused.attention.unrotated, (std::vector<bool>{false, false, false, true}));
  // Every third layer has experts, but for the last.
  const ModelConfig experts = parse({{"model_type", "qwen3_moe"},
                                     {"num_key_value_heads", 2},
                                     {"num_hidden_layers", 6},
                                     {"decoder_sparse_step", 3},
                                     {"mlp_only_layers", {5, 6}}});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(experts.has_experts(i), i == 2) << i;
}

// A Mamba-2 layer: 32 inner values, 32 + 2 * 8 of a convolution, 32 + 48 + 4 of a projection, and 2
// * 32 * 8 / 128 of states. Behind both mixers 4 experts of 16 of which 2 are chosen, and an MLP
// of 12.
TEST(ModelShape, MambaLayersKeepTheirStates) {
  const ModelShape shape = shape_of(parse_model_config(
      read_json_file(SFTBENCH_TEST_DATA "/models/granitemoehybrid_plain/config.json")));
  const int64_t mlp = 2 * 16 + 2 * (2 * 16) + 3 * (2 * 16) + 16 + 3 * 12;
  EXPECT_EQ(shape.layers[0].kept_values, 2 * 16 + 84 + 48 + 2 * 32 + 4 + mlp);
  EXPECT_EQ(shape.layers[1].kept_values, 2 * 16 + 2 * 16 + 2 * 8 + mlp);
}

// 4 heads of 8 with 8 values of state each.
TEST(ModelShape, MambaLayersScanTheirState) {
  const Json config = read_json_file(std::string(SFTBENCH_SOURCE_DIR) +
                                     "/tests/reference/models/granitemoehybrid_plain/config.json");
  const ModelShape shape = shape_of(parse_model_config(config));
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const bool mamba = config.at("layer_types").at(i) == "mamba";
    EXPECT_EQ(shape.layers[i].scanned_values, mamba ? 4 * 8 * 8 : 0) << i;
    EXPECT_EQ(shape.layers[i].query_width > 0, !mamba) << i;
  }
}

TEST(ModelConfig, NumberTooLargeForAnyType) {
  EXPECT_EQ(message_of<InputError>([] { parse_json("{\"rope_theta\": 1e999}", "m/config.json"); }),
            "m/config.json: not usable JSON: number overflow parsing "
            "'1e999'");
}

TEST(ModelConfig, NotAnObject) {
  EXPECT_EQ(message_of<InputError>([] { parse_model_config(Json::array(), "m/config.json"); }),
            "m/config.json: not a JSON object");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
