#include "sftbench/families/lora_fit.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

const std::vector<AdaptedLinear> kLinears = {{"model.layers.0.self_attn.q_proj", 32, 64},
                                             {"model.layers.0.mlp.down_proj", 128, 16}};

TEST(LoraFit, EveryTargetNamesALinear) {
  EXPECT_EQ(lora_refusal(kLinears, {"q_proj"}, 8), "");
  EXPECT_EQ(lora_refusal(kLinears, {"self_attn.q_proj", "mlp.down_proj"}, 8), "");
  EXPECT_EQ(lora_refusal(kLinears, {"all-linear"}, 8), "");
  EXPECT_EQ(lora_refusal(kLinears, {"q_proj", "q_pro"}, 8),
            "target_modules 'q_pro' matches no linear of the model; it has down_proj, q_proj, or "
            "all-linear for all of them; did you mean 'q_proj'?");
  EXPECT_EQ(lora_refusal(kLinears, {}, 8),
            "target_modules is empty; the model has down_proj, q_proj, or all-linear for all of "
            "them");
}

TEST(LoraFit, ARankFitsEveryLinearThatIsAdapted) {
  EXPECT_EQ(lora_refusal(kLinears, {"q_proj"}, 32), "");
  EXPECT_EQ(lora_refusal(kLinears, {"q_proj"}, 33),
            "r 33 does not fit model.layers.0.self_attn.q_proj, which maps 32 to 64 features: a "
            "rank is between 1 and the smaller of the two");
  EXPECT_NE(lora_refusal(kLinears, {"all-linear"}, 17), "") << "down_proj has 16 outputs";
  EXPECT_NE(lora_refusal(kLinears, {"q_proj"}, 0), "");
}

TEST(LoraFit, LinearsOfAModelHaveTheirWholeNames) {
  const ModelConfig config = parse_model_config({{"model_type", "llama"},
                                                 {"vocab_size", 100},
                                                 {"hidden_size", 32},
                                                 {"intermediate_size", 48},
                                                 {"num_hidden_layers", 2},
                                                 {"num_attention_heads", 4},
                                                 {"num_key_value_heads", 2}});
  const std::vector<AdaptedLinear> linears = linears_of(config, shape_of(config));
  ASSERT_EQ(linears.size(), 14 + 2) << "embedding and output projection are the last";
  EXPECT_EQ(linears[7].name.rfind("model.layers.1.", 0), 0);
  for (const AdaptedLinear& linear : linears) {
    if (linear.name != "model.layers.1.self_attn.k_proj") continue;
    EXPECT_EQ(linear.in, 32);
    EXPECT_EQ(linear.out, 16);
  }
}

TEST(LoraFit, EmbeddingAndOutputProjectionAreAdaptedByTheirNames) {
  std::vector<AdaptedLinear> linears = kLinears;
  linears.push_back({.name = "lm_head", .in = 32, .out = 100, .of_tokens = true});
  EXPECT_FALSE(is_adapted(linears.back(), {"all-linear"}));
  EXPECT_TRUE(is_adapted(linears.back(), {"all-linear", "lm_head"}));
  EXPECT_EQ(lora_refusal(linears, {"lm_head"}, 32), "");
  EXPECT_NE(lora_refusal(linears, {"lm_head"}, 33), "");
  EXPECT_EQ(lora_refusal(linears, {"lm_hea"}, 8),
            "target_modules 'lm_hea' matches no linear of the model; it has down_proj, q_proj, or "
            "all-linear for all of them; did you mean 'lm_head'?");
  EXPECT_EQ(token_adapters_refusal(linears, {"lm_head"}, true), "");
  EXPECT_EQ(token_adapters_refusal(linears, {"all-linear"}, false), "");
  EXPECT_EQ(token_adapters_refusal(linears, {"lm_head"}, false),
            "target_modules name lm_head: DoRA and activated LoRA adapt linears of the layers; "
            "plain LoRA adapts it");
}

TEST(LoraFit, ModulesAreSavedByTheEndsOfTheirNamesAndOfThoseAroundThem) {
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  EXPECT_TRUE(is_saved_whole(up, {"lm_head", "up_proj"}));
  EXPECT_TRUE(is_saved_whole(up, {"mlp"}));
  EXPECT_TRUE(is_saved_whole("model.layers.0.input_layernorm.weight", {"norm"})) << "as in peft";
  EXPECT_FALSE(is_saved_whole(up, {"weight"}));
  EXPECT_FALSE(is_saved_whole(up, {}));
}

TEST(LoraFit, SavedModulesAreNamedAndNotQuantized) {
  const std::vector<std::string> parameters = {"model.embed_tokens.weight", "lm_head.weight",
                                               "model.layers.0.mlp.up_proj.qweight"};
  const auto refusal = [&](const std::vector<std::string>& modules) {
    return saved_modules_refusal(
        parameters, modules, [](const std::string& name) { return name.ends_with(".qweight"); });
  };
  EXPECT_EQ(refusal({"embed_tokens", "lm_head"}), "");
  EXPECT_EQ(refusal({"embed_token"}),
            "modules_to_save 'embed_token' names no module of the model; it has embed_tokens, "
            "lm_head, up_proj; did you mean 'embed_tokens'?");
  EXPECT_EQ(refusal({"up_proj"}),
            "modules_to_save 'up_proj' names model.layers.0.mlp.up_proj.qweight, which is "
            "quantized and does not train; tuning lora trains it");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
