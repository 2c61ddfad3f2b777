// Optimizers with 8-bit, 4-bit and paged states against ten steps of bitsandbytes and torchao
// (tests/reference/quantized.py, optim/quantized.json).
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "optim/quantized_golden.h"
#include "optim/quantized_kinds.h"
#include "optim/state_pager.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "test_device.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::Tensor;

const std::vector<std::vector<int64_t>> kShapes = {{1}, {7}, {63, 65}, {64, 64}, {17, 241}};
constexpr int kSparse = 4, kZeroStep = 3;  // as in quantized.py
constexpr double kWeightDecay = 0.05;

Tensor gradient(int index, int step) {
  const Tensor slopes = golden_gradient(index, kShapes[index], step);
  if (step == kZeroStep) return torch::zeros_like(slopes);
  if (index != kSparse) return slopes;
  const Tensor present = hashed_numbers(100 * index + step, kShapes[index]).sixteenth;
  return torch::where(present, slopes, torch::zeros_like(slopes));
}

std::vector<TrainableTensor> parameters() {
  std::vector<TrainableTensor> tensors;
  for (size_t i = 0; i < kShapes.size(); ++i) {
    tensors.push_back({"layer." + std::to_string(i) + ".weight",
                       golden_parameter(static_cast<int>(i), kShapes[i]).requires_grad_(true)});
  }
  return tensors;
}

// The parameters after ten steps.
std::vector<Tensor> run(const std::string& name, std::vector<TrainableTensor> tensors,
                        double gradient_scale = 1.0) {
  const auto optimizer = make_optimizer(named<OptimizerKind>(name), {{tensors, kWeightDecay}}, {});
  std::vector<Tensor> result;
  for (int step = 0; step < 10; ++step) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor g = gradient(static_cast<int>(i), step) / gradient_scale;
      tensors[i].tensor.mutable_grad() = g.to(tensors[i].tensor.scalar_type());
    }
    optimizer->step(0.01 * (1 - 0.05 * step), gradient_scale);
  }
  for (const TrainableTensor& tensor : tensors) result.push_back(tensor.tensor.detach());
  return result;
}

// What a code that falls on the other side of a boundary may do to a parameter in these ten steps.
// A step of the signed map is at most 0.9/64 of a block's scale, which is at most 1, the largest
// gradient; the rates add up to 0.0775.
//   AdamW: the sum over the steps of rate * 0.9/64 * 0.9^k / (1 - 0.9^k), 0.0034, over the least
//     root of the second moment, 0.125 * sqrt(0.1) for an element whose only gradient came first.
//   AdEMAMix: the same for the fast mean, and 5 steps of the slow one, whose scale is 1e-4 of it.
//   Lion: a sign that turns moves the parameter by two rates, in two steps that it decides.
//   RMSprop: the least mean of squares stands at 1/64 of the scale, where a step is 18 %; half of
//     that of the largest possible sum of updates, 0.0775 / sqrt(1 - 0.99).
struct Case {
  const char* name;
  const char* golden;
  double flipped;  // the bound for such an element; 0: the kind has none
};
constexpr double kAdamW = 0.0034 / (0.125 * 0.316), kLion = 4 * 0.01, kRmsprop = 0.09 * 0.775;

class Quantized : public ::testing::TestWithParam<Case> {};

TEST_P(Quantized, TenStepsAsTheLibrary) {
  const auto& [name, golden_name, flipped] = GetParam();
  const Json golden = golden_of("quantized.json", golden_name);
  // Gradients are handed over doubled and read by half: the scale is part of every rule.
  const std::vector<Tensor> actual = run(name, parameters(), 0.5);
  for (size_t i = 0; i < kShapes.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    const Tensor expected = floats_of(golden[i]);
    const Tensor error = (every(4, actual[i]) - expected).abs() / expected.abs().max();
    if (actual[i].numel() < 4096 || flipped == 0) {
      EXPECT_LE(error.max().item<double>(), 1e-5);
      continue;
    }
    // Arithmetic differs in last bits, so only values next to a boundary get another code.
    const Tensor far = error > 1e-5;
    EXPECT_LE(far.sum().item<int64_t>(), error.numel() / 200);
    EXPECT_LE(error.max().item<double>(), flipped);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Names, Quantized,
    ::testing::Values(Case{"adamw_bnb_8bit", "adamw_8bit", kAdamW},
                      Case{"adamw_8bit", "adamw_8bit", kAdamW},
                      Case{"paged_adamw_8bit", "adamw_8bit", kAdamW},
                      Case{"ademamix_8bit", "ademamix_8bit", kAdamW},
                      Case{"paged_ademamix_8bit", "ademamix_8bit", kAdamW},
                      Case{"lion_8bit", "lion_8bit", kLion},
                      Case{"paged_lion_8bit", "lion_8bit", kLion},
                      Case{"rmsprop_bnb_8bit", "rmsprop_bnb_8bit", kRmsprop},
                      Case{"paged_adamw_32bit", "paged_adamw_32bit", 0},
                      Case{"paged_ademamix_32bit", "paged_ademamix_32bit", 0},
                      Case{"paged_lion_32bit", "paged_lion_32bit", 0},
                      // 4 bits: blocks are whole or not quantized, and no code flips in these steps
                      Case{"adamw_torch_4bit", "adamw_torch_4bit", 0}),
    [](const auto& instance) { return std::string(instance.param.name); });

double bytes_per_parameter(const std::string& optim, const std::string& name,
                           std::vector<int64_t> shape, torch::Dtype dtype) {
  const Tensor parameter = torch::zeros(shape, dtype);
  const auto optimizer =
      make_optimizer(named<OptimizerKind>(optim), {{{{name, parameter}}, 0.0}}, {});
  return static_cast<double>(optimizer->state_bytes()) / static_cast<double>(parameter.numel());
}

TEST(QuantizedStates, TakeTheBytesOfTheirFormat) {
  const std::map<std::string, double> large = {
      {"adamw_bnb_8bit", 2.03125},       {"adamw_8bit", 2.03125},
      {"paged_adamw_8bit", 2.03125},     {"ademamix_8bit", 3.046875},
      {"paged_ademamix_8bit", 3.046875}, {"lion_8bit", 1.015625},
      {"paged_lion_8bit", 1.015625},     {"rmsprop_bnb_8bit", 1.015625},
      {"paged_adamw_32bit", 8},          {"paged_ademamix_32bit", 12},
      {"paged_lion_32bit", 4},           {"adamw_torch_4bit", 1.03125},
  };
  for (const auto& [optim, bytes] : large) {
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      EXPECT_EQ(bytes_per_parameter(optim, "x.weight", {256, 512}, dtype), bytes) << optim;
    }
  }
}

TEST(QuantizedStates, SmallTensorsAndEmbeddingsStayWide) {
  const auto bytes = [](const char* optim, const char* name, std::vector<int64_t> shape) {
    return bytes_per_parameter(optim, name, std::move(shape), torch::kBFloat16);
  };
  EXPECT_EQ(bytes("adamw_8bit", "x.weight", {63, 65}), 8);
  EXPECT_EQ(bytes("adamw_8bit", "x.weight", {64, 64}), 2.03125);
  EXPECT_EQ(bytes("adamw_8bit", "model.embed_tokens.weight", {64, 64}), 8);
  EXPECT_EQ(bytes("lion_8bit", "model.embed_tokens.weight", {64, 64}), 4);
  // torchao: as the parameter, whose dtype has two bytes, and where a block would be broken too
  EXPECT_EQ(bytes("adamw_torch_4bit", "x.weight", {63, 65}), 4);
  EXPECT_EQ(bytes("adamw_torch_4bit", "x.weight", {17, 241}), 4);
  EXPECT_EQ(bytes("adamw_torch_4bit", "model.embed_tokens.weight", {64, 64}), 1.03125);
}

TEST(QuantizedStates, ADtypeThatTheyCannotServeIsRefused) {
  for (const std::string optim : {"adamw_bnb_8bit", "paged_lion_32bit", "adamw_torch_4bit"}) {
    try {
      bytes_per_parameter(optim, "x.weight", {64, 64}, torch::kFloat64);
      ADD_FAILURE() << optim << ": no exception";
    } catch (const RunError& error) {
      EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
      EXPECT_EQ(error.what(), "optim " + optim +
                                  ": x.weight is Double, and its states are defined for float32, "
                                  "bfloat16 and float16 parameters; torch_dtype bfloat16 works");
    }
  }
}

TEST(QuantizedStates, SixteenBitParametersMoveAsWideOnes) {
  for (const std::string optim : {"adamw_8bit", "lion_8bit", "adamw_torch_4bit"}) {
    for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
      std::vector<TrainableTensor> narrow;
      for (const TrainableTensor& tensor : parameters()) {
        narrow.push_back({tensor.name, tensor.tensor.detach().to(dtype).requires_grad_(true)});
      }
      const std::vector<Tensor> wide = run(optim, parameters()), found = run(optim, narrow);
      // Ten roundings of parameters below 1, by half an ulp each, and gradients that are rounded.
      const double tolerance = dtype == torch::kBFloat16 ? 10.0 / 256 : 10.0 / 2048;
      for (size_t i = 0; i < wide.size(); ++i) {
        const Tensor error = (found[i].to(torch::kFloat32) - wide[i]).abs();
        EXPECT_LE(error.mean().item<double>(), tolerance / 10) << optim << " " << i;
      }
    }
  }
}

TEST(QuantizedStates, ParametersWithoutGradientStay) {
  const Tensor used = torch::ones({64, 64}).requires_grad_(true);
  const Tensor unused = torch::ones({64, 64}).requires_grad_(true);
  const auto optimizer =
      make_optimizer(OptimizerKind::kAdamw8bit, {{{{"a", used}, {"b", unused}}, 0.5}}, {});
  used.mutable_grad() = torch::ones({64, 64});
  optimizer->step(0.1, 1.0);
  EXPECT_TRUE(unused.equal(torch::ones({64, 64})));
  EXPECT_LT(used.max().item<float>(), 0.95f);
}

TEST(QuantizedStates, NotesSayWhatIsNotAsItsNameSuggests) {
  using ::testing::HasSubstr;
  EXPECT_THAT(std::string(row_of(OptimizerKind::kAdamw8bit).note),
              HasSubstr("below 4096 elements keep float32 states"));
  EXPECT_THAT(std::string(row_of(OptimizerKind::kPagedLion8bit).note),
              HasSubstr("on CPUs this is the kind without"));
  EXPECT_THAT(std::string(row_of(OptimizerKind::kRmspropBnb8bit).note),
              HasSubstr("refuses bfloat16 gradients"));
}

// A tensor of several pieces, the last of them short, and one of the embeddings, whose states
// stay wide.
TEST(StatePager, PagedStatesAreUpdatedAsResidentOnes) {
  const torch::Device device = test_device();
  if (!device.is_cuda()) GTEST_SKIP() << "states are paged on GPUs only";
  const int64_t numel = kLeastPagedElements + 3, at_once = numel / 3 / 256 * 256;
  const auto stepped = [&](OptimizerKind kind) {
    torch::manual_seed(3);
    std::vector<TrainableTensor> tensors;
    for (const char* name : {"x.weight", "model.embed_tokens.weight"}) {
      tensors.push_back({name, torch::randn({numel}).to(device).requires_grad_(true)});
    }
    const auto optimizer = make_quantized(kind, {{tensors, 0.1}}, {}, at_once);
    for (int step = 0; step < 2; ++step) {
      for (const TrainableTensor& tensor : tensors) {
        const Tensor parameter = tensor.tensor;
        parameter.mutable_grad() = torch::randn({numel}).to(device);
      }
      optimizer->step(0.01, 1.0);
    }
    return std::vector<Tensor>{tensors[0].tensor.detach().cpu(), tensors[1].tensor.detach().cpu()};
  };
  const std::vector<Tensor> resident = stepped(OptimizerKind::kAdamw8bit);
  const std::vector<Tensor> paged = stepped(OptimizerKind::kPagedAdamw8bit);
  EXPECT_TRUE(paged[0].equal(resident[0]));
  EXPECT_TRUE(paged[1].equal(resident[1]));
}

// As the codes of some parameters are followed by the float32 states of others.
TEST(StatePager, ToursOfOtherDtypesKeepTheirNumbers) {
  StatePager pager(test_device());
  const auto expect_tour = [&](torch::Dtype dtype, int64_t numel, double value) {
    const torch::Tensor state =
        pager.to_host(torch::full({numel}, value, torch::dtype(dtype)).to(test_device()));
    pager.visit({{{state}}}, [&](size_t, const std::vector<torch::Tensor>& there) {
      EXPECT_EQ(there[0].scalar_type(), dtype);
      EXPECT_EQ(there[0].sizes(), state.sizes());
      there[0].add_(1);
    });
    torch::zeros({1}).to(test_device()).cpu();  // the host is behind the device
    EXPECT_TRUE((state == value + 1).all().item<bool>()) << dtype;
  };
  expect_tour(torch::kUInt8, 5000, 7);
  expect_tour(torch::kFloat32, 1000, 0.125);
  expect_tour(torch::kUInt8, 4000, 8);
  expect_tour(torch::kFloat32, 3000, 0.375);
}

TEST(StatePager, BringsEachVisitorsStatesAndTakesThemBackChanged) {
  const torch::Device device = test_device();
  StatePager pager(device);
  for (int round = 0; round < 2; ++round) {
    std::vector<StatePager::Visitor> visitors;
    for (int64_t i = 0; i < 5; ++i) {
      const Tensor state = torch::full({3, 5 - i + 2 * round}, static_cast<double>(i));
      visitors.push_back({{pager.to_host(state.to(device)), pager.to_host(state.to(device) + 10)},
                          {pager.to_host(state.to(device) + 20)}});
      if (i == 3) visitors.back().states.pop_back();  // visitors differ
    }
    std::vector<size_t> order;
    pager.visit(visitors, [&](size_t i, const std::vector<Tensor>& states) {
      order.push_back(i);
      ASSERT_EQ(states.size(), i == 3 ? 2u : 3u);
      EXPECT_TRUE(states[0].eq(static_cast<double>(i)).all().item<bool>());
      EXPECT_TRUE(states.back().eq(static_cast<double>(i) + 20).all().item<bool>());
      EXPECT_EQ(states[0].sizes(), visitors[i].states[0].sizes());
      states[0].add_(100);
      if (i != 3) states[1].add_(200);
      states.back().add_(300);
    });
    EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
    torch::zeros({1}).to(device).cpu();  // the host is behind the device
    for (size_t i = 0; i < visitors.size(); ++i) {
      const auto value = static_cast<double>(i);
      EXPECT_TRUE(visitors[i].states[0].eq(value + 100).all().item<bool>());
      if (i != 3) {
        EXPECT_TRUE(visitors[i].states[1].eq(value + 210).all().item<bool>());
      }
      EXPECT_TRUE(visitors[i].read[0].eq(value + 20).all().item<bool>()) << "is not taken back";
    }
  }
  pager.visit({}, [](size_t, const std::vector<Tensor>&) { ADD_FAILURE() << "nobody came"; });
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
