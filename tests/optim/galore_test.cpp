// GaLore against ten steps of galore-torch (tests/reference/quantized.py, optim/galore.json).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "optim/quantized_golden.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::Tensor;

const std::vector<std::vector<int64_t>> kShapes = {
    {160, 136}, {132, 150}, {129, 129}, {160, 40}, {97}};

// Orthogonal columns of the discrete cosine transform.
Tensor cosines(int64_t size, int64_t count) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  const Tensor rows = torch::arange(size, options) + 0.5, columns = torch::arange(count, options);
  const auto length = static_cast<double>(size);
  return torch::cos(torch::outer(rows, columns) * (M_PI / length)) * std::sqrt(2 / length);
}

// The first one, which is decomposed, has singular values that are far apart.
Tensor gradient(int index, int step) {
  const std::vector<int64_t>& shape = kShapes[index];
  const Tensor noise = golden_gradient(50 + index, shape, 10 + step);
  if (step > 0 || shape.size() == 1) return noise;
  const int64_t count = std::min(shape[0], shape[1]);
  const Tensor singular = torch::arange(1, count + 1, torch::kFloat64) / 64;
  const Tensor smooth =
      torch::matmul(cosines(shape[0], count) * singular, cosines(shape[1], count).t());
  return (smooth + noise.to(torch::kFloat64) / 8192).to(torch::kFloat32);
}

std::vector<TrainableTensor> parameters() {
  const char* names[] = {"layers.0.self_attn.q_proj.weight", "layers.0.mlp.up_proj.weight",
                         "layers.0.self_attn.o_proj.weight", "layers.0.self_attn.v_proj.weight",
                         "layers.0.input_layernorm.weight"};
  std::vector<TrainableTensor> tensors;
  for (size_t i = 0; i < kShapes.size(); ++i) {
    tensors.push_back(
        {names[i], golden_parameter(50 + static_cast<int>(i), kShapes[i]).requires_grad_(true)});
  }
  return tensors;
}

void set_gradients(const std::vector<TrainableTensor>& tensors, int step) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].tensor.mutable_grad() = gradient(static_cast<int>(i), step);
  }
}

// From 0: in its first step AdamW turns every gradient into a sign, that of a rounding error too.
double rate(int step) {
  return 0.001 * step;
}

struct Case {
  const char* name;
  double largest, mean;  // errors, relative to the largest parameter
};

// The singular vectors come from another LAPACK, and differ by float32's last bits times the ratio
// of the largest singular value to a gap. With 8 bits such a difference turns a code here and
// there, which may matter wherever a second moment is small beside its block's: at most a whole
// update in one direction, (1 - 0.9) / sqrt(1 - 0.999), times the rate, the scale of 0.25 and the
// largest element of a basis, sqrt(2 / 129). On the whole there must be next to none of it.
const double kWholeUpdate = 3.163 * 0.009 * 0.25 * std::sqrt(2.0 / 129);

class Galore : public testing::TestWithParam<Case> {};

TEST_P(Galore, TenStepsAsTheLibrary) {
  const Json golden = golden_of("galore.json", GetParam().name);
  const std::vector<TrainableTensor> tensors = parameters();
  const auto optimizer =
      make_optimizer(named<OptimizerKind>(GetParam().name), {{tensors, 0.0}}, {});
  for (int step = 0; step < 10; ++step) {
    set_gradients(tensors, step);
    optimizer->step(rate(step), 1.0);
  }
  for (size_t i = 0; i < kShapes.size(); ++i) {
    const Tensor expected = floats_of(golden[i]);
    const Tensor error = (every(16, tensors[i].tensor) - expected).abs() / expected.abs().max();
    EXPECT_LE(error.max().item<double>(), GetParam().largest) << "tensor " << i;
    EXPECT_LE(error.mean().item<double>(), GetParam().mean) << "tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Names, Galore,
                         testing::Values(Case{"galore_adamw", 1e-5, 1e-6},
                                         Case{"galore_adafactor", 1e-5, 1e-6},
                                         Case{"galore_adamw_8bit", kWholeUpdate, 1e-5}),
                         [](const auto& instance) { return std::string(instance.param.name); });

class GaloreLayerwise : public testing::TestWithParam<const char*> {};

TEST_P(GaloreLayerwise, UpdatesInTheBackwardWhatTheOtherFormUpdatesAfterIt) {
  const std::vector<TrainableTensor> plain = parameters(), layerwise = parameters();
  const auto after = make_optimizer(named<OptimizerKind>(GetParam()), {{plain, 0.0}}, {});
  const auto inside = make_optimizer(named<OptimizerKind>(std::string(GetParam()) + "_layerwise"),
                                     {{layerwise, 0.0}}, {});
  EXPECT_FALSE(after->updates_in_backward());
  ASSERT_TRUE(inside->updates_in_backward());
  for (int step = 0; step < 3; ++step) {
    set_gradients(plain, step);
    after->step(rate(step), 0.5);
    Tensor loss = torch::zeros({});
    for (size_t i = 0; i < layerwise.size(); ++i) {
      loss = loss + (layerwise[i].tensor * gradient(static_cast<int>(i), step)).sum();
    }
    inside->begin_backward(rate(step), 0.5);
    loss.backward();
    inside->end_backward();
    inside->step(rate(step), 0.5);
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].tensor.equal(layerwise[i].tensor)) << "tensor " << i;
    EXPECT_FALSE(layerwise[i].tensor.grad().defined());
  }
  EXPECT_EQ(after->state_bytes(), inside->state_bytes());
}

INSTANTIATE_TEST_SUITE_P(Names, GaloreLayerwise,
                         testing::Values("galore_adamw", "galore_adafactor", "galore_adamw_8bit"));

int64_t state_bytes_after_a_step(const std::string& optim, const Tensor& weight) {
  weight.mutable_grad() = torch::randn(weight.sizes()).to(weight.scalar_type());
  const auto optimizer = make_optimizer(named<OptimizerKind>(optim),
                                        {{{{"layers.0.mlp.up_proj.weight", weight}}, 0}}, {});
  optimizer->step(0.01, 1.0);
  return optimizer->state_bytes();
}

TEST(GaloreStates, AreLowRankMomentsAndABasis) {
  constexpr int64_t kBasis = 128 * 160, kMoment = 128 * 300;
  const Tensor wide = torch::zeros({160, 300}), narrow = torch::zeros({300, 160}, torch::kBFloat16);
  EXPECT_EQ(state_bytes_after_a_step("galore_adamw", wide), 4 * (kBasis + 2 * kMoment));
  EXPECT_EQ(state_bytes_after_a_step("galore_adamw", narrow), 2 * (kBasis + 2 * kMoment));
  EXPECT_EQ(state_bytes_after_a_step("galore_adamw_8bit", narrow),
            2 * kBasis + 2 * kMoment * 260 / 256);
  EXPECT_EQ(state_bytes_after_a_step("galore_adafactor", wide), 4 * (kBasis + 128 + 300));
  // Rank 128 is above the smaller dimension.
  EXPECT_EQ(state_bytes_after_a_step("galore_adamw", torch::zeros({96, 200})),
            4 * (96 * 96 + 2 * 96 * 200));
}

// Gradients of rank one: the direction is another one from the 200th step on, and the basis follows
// there, not before and not after.
TEST(GaloreBasis, IsTakenFromTheGradientOfEvery200thStep) {
  const auto unit = [](int64_t at) {
    const Tensor v = torch::zeros({140});
    v[at] = 0.6;
    v[at + 1] = 0.8;
    return v;
  };
  const Tensor weight = torch::zeros({140, 140});
  const auto optimizer = make_optimizer(
      OptimizerKind::kGaloreAdamw, {{{{"layers.0.self_attn.q_proj.weight", weight}}, 0.0}}, {});
  const Tensor first = torch::outer(torch::full({140}, 0.01), unit(10));
  const Tensor second = torch::outer(torch::full({140}, 0.01), unit(50));
  for (int step = 0; step < 200; ++step) {
    weight.mutable_grad() = first;
    optimizer->step(0.01, 1.0);
  }
  const Tensor before = weight.clone();
  weight.mutable_grad() = second;
  optimizer->step(0.01, 1.0);
  const Tensor change = weight - before;
  const Tensor along = torch::outer(torch::mv(change, unit(50)), unit(50));
  // Other directions hold rounding errors of the projection, which epsilon 1e-6 keeps small.
  EXPECT_LT((change - along).norm().item<double>(), 0.02 * along.norm().item<double>());
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const RunError& error) {
    return error.what();
  }
  return "no exception";
}

TEST(GaloreRefusals, SayWhatIsMissing) {
  const Tensor vector = torch::zeros({8}).requires_grad_(true), weight = torch::zeros({8, 8});
  EXPECT_EQ(refusal([&] {
              make_optimizer(OptimizerKind::kGaloreAdafactor, {{{{"prompt", vector}}, 0.0}}, {});
            }),
            "optim galore_adafactor: it projects the gradients of the linear weights of attention "
            "and MLP, and none of these is trained; adamw_torch works");
  EXPECT_EQ(refusal([&] {
              make_optimizer(OptimizerKind::kGaloreAdamw8bit,
                             {{{{"layers.0.mlp.up_proj.weight", weight.to(torch::kFloat64)}}, 0.0}},
                             {});
            }),
            "optim galore_adamw_8bit: layers.0.mlp.up_proj.weight is Double, and its states are "
            "defined for float32, bfloat16 and float16 parameters; torch_dtype bfloat16 works");
  EXPECT_EQ(refusal([&] {
              const auto optimizer =
                  make_optimizer(OptimizerKind::kGaloreAdamw,
                                 {{{{"layers.0.mlp.up_proj.weight", weight}}, 0.0}}, {});
              weight.mutable_grad() = torch::full({8, 8}, NAN);
              optimizer->step(0.01, 1.0);
            }),
            "the gradient of layers.0.mlp.up_proj.weight is not finite, and GaLore takes its basis "
            "from it");
}

TEST(GaloreNotes, SayWhatTransformersAsksFor) {
  EXPECT_THAT(std::string(row_of(OptimizerKind::kGaloreAdamw).note),
              testing::HasSubstr("optim_target_modules"));
  EXPECT_THAT(std::string(row_of(OptimizerKind::kGaloreAdafactorLayerwise).note),
              testing::HasSubstr("transformers raises an error"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
