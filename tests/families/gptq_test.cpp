#include "sftbench/families/gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;

Json config_with(const Json& quantization) {
  return {{"model_type", "llama"},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"quantization_config", quantization}};
}

GptqConfig parse(const Json& quantization) {
  return parse_model_config(config_with(quantization)).gptq.value();
}

std::string error_of(const Json& config) {
  return message_of<InputError>([&] { parse_model_config(config); });
}

TEST(GptqConfig, SaysWhatTheFileSays) {
  const GptqConfig config = parse({{"quant_method", "gptq"},
                                   {"bits", 3},
                                   {"group_size", -1},
                                   {"desc_act", true},
                                   {"sym", false},
                                   {"checkpoint_format", "gptq_v2"},
                                   {"damp_percent", 0.1},
                                   {"dynamic", nullptr},
                                   {"lm_head", false}});
  EXPECT_EQ(config.bits, 3);
  EXPECT_EQ(config.group_size, -1);
  EXPECT_TRUE(config.desc_act);
  EXPECT_FALSE(config.sym);
  EXPECT_FALSE(config.zeros_less_one);
}

// Files of the first AutoGPTQ say bits and method alone.
TEST(GptqConfig, FillsInTheDefaultsOfAutoGptq) {
  const GptqConfig config = parse({{"quant_method", "gptq"}, {"bits", 4}});
  EXPECT_EQ(config.group_size, 128);
  EXPECT_FALSE(config.desc_act);
  EXPECT_TRUE(config.sym);
  EXPECT_TRUE(config.zeros_less_one);
}

TEST(GptqConfig, AGroupIsAnyNumberOfFeaturesOrAll) {
  const auto with = [](const Json& size) {
    return config_with({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", size}});
  };
  for (const Json& size : {Json(-1), Json(1), Json(2147483647)})
    EXPECT_EQ(error_of(with(size)), "");
  for (const Json& size : {Json(-2), Json(0), Json(2147483648), Json(1.5), Json("32")})
    EXPECT_THAT(error_of(with(size)), testing::HasSubstr("group_size: found")) << size;
}

TEST(GptqConfig, IsAbsentWhereNothingIsQuantized) {
  EXPECT_FALSE(parse_model_config(config_with(nullptr)).gptq.has_value());
}

TEST(GptqConfig, ReadsBackWhatItWrites) {
  const Json written = {{"quant_method", "gptq"}, {"bits", 8},   {"group_size", 32},
                        {"desc_act", true},       {"sym", true}, {"checkpoint_format", "gptq_v2"}};
  EXPECT_EQ(to_json(parse(written)), written);
}

TEST(GptqConfig, ShapesFollowFromBitsAndGroups) {
  GptqConfig config;
  config.bits = 3;
  EXPECT_THAT(config.qweight_shape(576, 192), ElementsAre(54, 192));
  EXPECT_THAT(config.qzeros_shape(576, 192), ElementsAre(5, 18));  // 4.5 groups of 128
  EXPECT_THAT(config.scales_shape(576, 192), ElementsAre(5, 192));
  config.group_size = -1;
  EXPECT_THAT(config.scales_shape(576, 192), ElementsAre(1, 192));
}

TEST(GptqConfig, TellsAllThatIsWrong) {
  const std::string key = "config.json: quantization_config.";
  EXPECT_EQ(error_of(config_with({{"quant_method", "gptq"},
                                  {"bits", 5},
                                  {"group_size", 0},
                                  {"checkpoint_format", "gptq_v3"},
                                  {"pack_dtype", "int64"},
                                  {"lm_head", true},
                                  {"dynamic", {{"-:.*down", Json::object()}}}})),
            key + "bits: found 5; expected 2, 3, 4 or 8\n" + key +
                "group_size: found 0; expected a number of features, or -1 for all of them\n" +
                key +
                "checkpoint_format: found \"gptq_v3\"; expected \"gptq\" or \"gptq_v2\"; did you "
                "mean 'gptq_v2'?\n" +
                key + "pack_dtype: found \"int64\"; expected \"int32\"\n" + key +
                "lm_head: found true; expected false\n" + key +
                "dynamic: found {\"-:.*down\":{}}; expected all linears of the layers quantized "
                "alike");
  EXPECT_EQ(error_of(config_with({{"quant_method", "awq"}, {"bits", 4}})),
            key +
                "quant_method: found \"awq\"; expected \"gptq\", or weights in float32, float16 "
                "or bfloat16");
  EXPECT_EQ(error_of(config_with("gptq")),
            "config.json: quantization_config: found \"gptq\"; expected an object");
}

// Files of Mixtral list what is quantized: everything but the router.
TEST(GptqConfig, AListOfModulesHasToBeThatOfAllLinears) {
  Json config = config_with({{"quant_method", "gptq"}, {"bits", 4}});
  config["model_type"] = "mixtral";
  config["num_attention_heads"] = config["num_key_value_heads"] = 2;
  config["num_local_experts"] = 2;
  Json& modules = config["quantization_config"]["modules_in_block_to_quantize"];
  modules = {{"self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj"},
             {"self_attn.o_proj"},
             {"block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.0.w3"},
             {"block_sparse_moe.experts.1.w1", "block_sparse_moe.experts.1.w3"},
             {"block_sparse_moe.experts.0.w2", "block_sparse_moe.experts.1.w2"}};
  EXPECT_EQ(error_of(config), "");
  modules.erase(4);
  EXPECT_THAT(error_of(config),
              testing::AllOf(testing::HasSubstr("quantization_config.modules_in_block_to_quantize: "
                                                "found [["),
                             testing::HasSubstr("block_sparse_moe.experts.1.w2")));
}

TEST(GptqConfig, ExpertsThatAreOneTensorAreRefused) {
  Json config = config_with({{"quant_method", "gptq"}, {"bits", 4}});
  config["model_type"] = "granitemoe";
  EXPECT_THAT(error_of(config), testing::HasSubstr("a mixture of experts quantized in GPTQ"));
}

TEST(GptqConfig, SizesThatCodesCannotBePackedAlongAreRefused) {
  Json config = config_with({{"quant_method", "gptq"}, {"bits", 4}});
  config["intermediate_size"] = 56;
  EXPECT_EQ(error_of(config),
            "config.json: quantization_config: intermediate_size is 56; expected a multiple of 32");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
