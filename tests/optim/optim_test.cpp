// Optimizer, clipping, loss scaling and decay groups against what torch and transformers
// do (tests/reference/training.py, parts.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/global_norm.h"
#include "sftbench/optim/gradient_scaling.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const Json& parts() {
  static const Json kParts =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/training/parts.json");
  return kParts;
}

torch::Tensor tensor_of(const Json& json) {
  if (!json.front().is_array()) return torch::tensor(json.get<std::vector<float>>());
  std::vector<torch::Tensor> rows;
  for (const Json& row : json) rows.push_back(tensor_of(row));
  return torch::stack(rows);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.detach() - b).abs().max().item<double>();
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    return error.what();
  }
  return "no error";
}

class AdamWNames : public testing::TestWithParam<const char*> {};

TEST_P(AdamWNames, UpdatesAsTorchFusedAdamWUnderClipping) {
  const Json& golden = parts()["adamw"];
  const torch::Tensor weight = tensor_of(golden["weight"]).requires_grad_(true);
  const torch::Tensor bias = tensor_of(golden["bias"]).requires_grad_(true);
  const auto optimizer = make_optimizer(named<OptimizerKind>(GetParam()),
                                        group_by_decay({{"x.weight", weight}, {"x.bias", bias}},
                                                       golden["weight_decay"].get<double>()),
                                        {});
  for (const Json& step : golden["steps"]) {
    weight.mutable_grad() = tensor_of(step["weight_grad"]);
    bias.mutable_grad() = tensor_of(step["bias_grad"]);
    const double norm = ops::global_norm({weight.grad(), bias.grad()});
    EXPECT_NEAR(norm, step["norm"].get<double>(), 1e-5);
    optimizer->step(step["learning_rate"], clip_factor(norm, golden["max_norm"]));
    EXPECT_LT(difference(weight, tensor_of(step["weight"])), 5e-7);
    EXPECT_LT(difference(bias, tensor_of(step["bias"])), 5e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(Spellings, AdamWNames,
                         testing::Values("adamw_torch", "adamw_torch_fused"));

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
  const torch::Tensor used = torch::ones({2}).requires_grad_(true);
  const torch::Tensor unused = torch::ones({2}).requires_grad_(true);
  const auto optimizer =
      make_optimizer(OptimizerKind::kAdamwTorch, {{{{"used", used}, {"unused", unused}}, 0.5}}, {});
  used.mutable_grad() = torch::ones({2});
  optimizer->step(0.1, 1.0);
  EXPECT_EQ(difference(unused, torch::ones({2})), 0.0);
  EXPECT_GT(difference(used, torch::ones({2})), 0.05);
}

TEST(Optimizer, UnknownNameOffersTheNearest) {
  const std::string message = message_of([] { named<OptimizerKind>("adamw_torh"); });
  EXPECT_THAT(message,
              testing::StartsWith("optimizer 'adamw_torh' is not implemented; there are "));
  EXPECT_THAT(message, testing::HasSubstr("adamw_torch_xla, ademamix"));
  EXPECT_THAT(message, testing::EndsWith("; did you mean 'adamw_torch'?"));
}

TEST(Optimizer, OfAnotherKindOfDeviceIsRefusedWithWhatWorks) {
  EXPECT_EQ(message_of([] { make_optimizer(OptimizerKind::kAdamwTorchNpuFused, {}, {}); }),
            "optim adamw_torch_npu_fused needs an Ascend NPU (torch_npu), and this program trains "
            "on CPUs and on NVIDIA GPUs; adamw_torch_fused is the same update and works");
}

TEST(OptimizerStateSize, EmbeddingsAndGaloresTargetsFollowFromNameAndShape) {
  for (const char* name :
       {"model.embed_tokens.weight", "prompt_encoder.default.embedding.weight",
        "transformer.wte.weight", "transformer.wpe.weight", "transformer.word_embeddings.weight"}) {
    EXPECT_TRUE(is_embedding(name)) << name;
  }
  for (const char* name : {"lm_head.weight", "transformer.word_embeddings_layernorm.weight",
                           "vision_tower.vision_model.embeddings.patch_embedding.weight",
                           "vision_tower.vision_model.embeddings.class_embedding"}) {
    EXPECT_FALSE(is_embedding(name)) << name;
  }
  EXPECT_TRUE(is_galore_target({"model.layers.0.self_attn.q_proj.weight", {8, 8}}));
  EXPECT_FALSE(is_galore_target({"model.layers.0.self_attn.q_proj.bias", {8}}));
  EXPECT_FALSE(is_galore_target({"lm_head.weight", {8, 8}}));
  EXPECT_FALSE(is_galore_target({"model.norm.weight", {8}}));
}

// Bytes per parameter of a 64 x 32 matrix, from the packages' documentation of their states.
TEST(Optimizer, StatesTakeWhatTheirDtypesSay) {
  struct Row {
    const char* name;
    double float32, bfloat16;
  };
  constexpr double kFactored = 4.0 * (64 + 32) / (64 * 32);
  const Row rows[] = {{"adamw_torch", 8, 4},
                      {"adamw_hf", 8, 4},
                      {"adamw_apex_fused", 8, 8},
                      {"adamw_anyprecision", 8, 8},
                      {"adafactor", kFactored, kFactored},
                      {"adalomo", kFactored, kFactored},
                      {"ademamix", 12, 12},
                      {"sgd", 0, 0},
                      {"lomo", 0, 0},
                      {"adagrad", 4, 2},
                      {"lion_32bit", 4, 4},
                      {"rmsprop", 4, 2},
                      {"rmsprop_bnb", 4, 4},
                      {"rmsprop_bnb_32bit", 4, 4},
                      {"grokadamw", 12, 6},
                      {"schedule_free_adamw", 8, 4},
                      {"schedule_free_sgd", 4, 2}};
  for (const Row& row : rows) {
    for (const auto& [dtype, bytes] :
         {std::pair{torch::kFloat32, row.float32}, {torch::kBFloat16, row.bfloat16}}) {
      const torch::Tensor weight = torch::ones({64, 32}, dtype).requires_grad_(true);
      const auto optimizer =
          make_optimizer(named<OptimizerKind>(row.name), {{{{"x.weight", weight}}, 0.0}}, {});
      EXPECT_EQ(static_cast<double>(optimizer->state_bytes()) / 2048, bytes) << row.name;
    }
  }
}

TEST(ParameterGroups, DecayWhatTransformersDecays) {
  for (const auto& [name, decays] : parts()["decays"].items()) {
    const auto groups = group_by_decay({{name, torch::zeros({1})}}, 0.25);
    const auto& group = groups[groups[0].parameters.empty() ? 1 : 0];
    EXPECT_EQ(group.parameters.size(), 1u);
    EXPECT_EQ(group.weight_decay, decays.get<bool>() ? 0.25 : 0.0) << name;
  }
}

TEST(ClipFactor, IsTorchsClipCoefficient) {
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1e9, 0.0), 1.0) << "no clipping was asked for";
}

TEST(LossScaler, GrowsAndBacksOffAsTorchsGradScaler) {
  const Json& golden = parts()["loss_scaling"];
  const auto overflows = golden["overflows"].get<std::vector<int64_t>>();
  const auto scaler = make_dynamic_loss_scaler();
  Json changes = Json::array();
  for (int64_t update = 0; update < golden["updates"].get<int64_t>(); ++update) {
    if (changes.empty() || changes.back()["scale"] != scaler->scale()) {
      changes.push_back({{"update", update}, {"scale", scaler->scale()}});
    }
    const bool overflow = std::find(overflows.begin(), overflows.end(), update) != overflows.end();
    EXPECT_EQ(scaler->accept(!overflow), !overflow);
  }
  EXPECT_EQ(changes, golden["changes"]);
}

TEST(LossScaler, StaysFiniteAndGivesUpWhereNoScaleHelps) {
  const auto growing = make_dynamic_loss_scaler();
  for (int64_t update = 0; update < 200 * 2000; ++update) growing->accept(true);
  EXPECT_EQ(growing->scale(), std::ldexp(1.0, 127));

  const auto shrinking = make_dynamic_loss_scaler();
  for (int update = 0; update < 16 + 126; ++update) EXPECT_FALSE(shrinking->accept(false));
  EXPECT_EQ(shrinking->scale(), std::ldexp(1.0, -126));
  try {
    shrinking->accept(false);
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_STREQ(
        error.what(),
        "loss scaling: the gradients are not finite under any scale from 65536 down to the "
        "smallest, so no update was made for that many steps");
  }
}

TEST(LossScaler, UnitScaleAcceptsEverything) {
  const auto scaler = make_unit_loss_scaler();
  EXPECT_TRUE(scaler->accept(false));
  EXPECT_EQ(scaler->scale(), 1.0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
