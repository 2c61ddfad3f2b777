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
  ASSERT_EQ(linears.size(), 14);
  EXPECT_EQ(linears[7].name.rfind("model.layers.1.", 0), 0);
  for (const AdaptedLinear& linear : linears) {
    if (linear.name != "model.layers.1.self_attn.k_proj") continue;
    EXPECT_EQ(linear.in, 32);
    EXPECT_EQ(linear.out, 16);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
