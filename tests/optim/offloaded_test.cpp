// Optimizers whose states wait on the host: the bits of the plain ones, states under the same
// names, and no more on the device than two chunks. On a CPU the copies go from memory to memory.
#include "sftbench/optim/offloaded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "sftbench/base/torch.h"
#include "test_device.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::Tensor;

// Three chunks of what decays, the second of one tensor alone, and one of what does not.
const std::vector<std::pair<const char*, std::vector<int64_t>>> kShapes = {
    {"model.layers.0.self_attn.q_proj.weight", {70, 100}},
    {"model.layers.0.mlp.up_proj.weight", {100, 1024}},
    {"model.embed_tokens.weight", {4100, 1024}},
    {"model.layers.1.mlp.up_proj.weight", {256, 64}},
    {"model.norm.weight", {64}},
    {"model.layers.1.mlp.down_proj.bias", {7}}};
constexpr int64_t kLargest = 4100 * 1024;
constexpr double kDecay = 0.1;

std::vector<TrainableTensor> parameters(torch::Device device) {
  std::vector<TrainableTensor> tensors;
  for (const auto& [name, sizes] : kShapes) {
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    const Tensor values = torch::sin(torch::arange(elements, torch::kFloat32) * 0.37);
    tensors.push_back({name, values.view(sizes).to(device).clone().set_requires_grad(true)});
  }
  return tensors;
}

void train(Optimizer& optimizer, const std::vector<TrainableTensor>& tensors, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    for (const TrainableTensor& trainable : tensors) {
      const torch::NoGradGuard no_grad;
      // A tensor without a gradient in a step.
      const bool without = step == 1 && trainable.name == "model.norm.weight";
      trainable.tensor.mutable_grad() =
          without ? Tensor() : torch::cos(trainable.tensor * (step + 3));
    }
    optimizer.step(0.01, 0.5);
  }
}

// Keeps what it is shown, or puts it where it is shown the same names.
class Memory : public OptimizerStateVisitor {
 public:
  void parameter(const std::string& name) override { parameter_ = name; }
  void number(const char* name, int64_t& value) override { meet(name, value); }
  void number(const char* name, double& value) override { meet(name, value); }
  void values(const char* name, const Tensor& values) override { meet(name, values); }
  void quantized(const char* name, const ops::QuantizedTensor& values) override {
    meet(std::string(name) + ".codes", values.codes);
    meet(std::string(name) + ".scales", values.scales);
  }
  void shaped(const char* name, const Tensor& values) override { meet(name, values); }

  void restore() {
    restoring_ = true;
    parameter_.clear();
  }

  std::map<std::string, std::variant<int64_t, double>> numbers;
  std::map<std::string, Tensor> tensors;

 private:
  template <typename Number>
  void meet(const std::string& name, Number& value) {
    const std::string key = parameter_ + "/" + name;
    if (restoring_) {
      value = std::get<Number>(numbers.at(key));
    } else {
      EXPECT_TRUE(numbers.emplace(key, value).second) << key << " twice";
    }
  }
  void meet(const std::string& name, const Tensor& tensor) {
    const std::string key = parameter_ + "/" + name;
    if (restoring_) {
      Tensor(tensor).copy_(tensors.at(key));
    } else {
      EXPECT_TRUE(tensors.emplace(key, tensor.cpu().clone()).second) << key << " twice";
    }
  }

  std::string parameter_;
  bool restoring_ = false;
};

class EveryOffloadable : public ::testing::TestWithParam<OptimizerKind> {};

std::vector<OptimizerKind> offloadable() {
  std::vector<OptimizerKind> kinds;
  for (const OptimizerRow& row : kOptimizers) {
    if (row.can_offload() && !row.has_obstacle()) kinds.push_back(row.kind);
  }
  return kinds;
}

std::unique_ptr<Optimizer> plain_of(OptimizerKind kind,
                                    const std::vector<TrainableTensor>& tensors) {
  return make_optimizer(kind, group_by_decay(tensors, kDecay), {});
}
std::unique_ptr<OffloadedOptimizer> offloaded_of(OptimizerKind kind,
                                                 const std::vector<TrainableTensor>& tensors) {
  return make_offloaded(kind, group_by_decay(tensors, kDecay), {}, Offloaded::kStates,
                        test_device());
}

void expect_same(const std::vector<TrainableTensor>& found,
                 const std::vector<TrainableTensor>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(found[i].tensor, expected[i].tensor)) << expected[i].name;
  }
}

// A run that begins without offload goes on with it, and the other way round.
TEST_P(EveryOffloadable, UpdatesInTheBitsOfThePlainOneAndKeepsItsStates) {
  const auto plain_tensors = parameters(test_device());
  const auto tensors = parameters(test_device());
  const auto plain = plain_of(GetParam(), plain_tensors);
  const auto offloaded = offloaded_of(GetParam(), tensors);
  EXPECT_EQ(offloaded->state_bytes(), plain->state_bytes());
  train(*plain, plain_tensors, 0, 3);
  train(*offloaded, tensors, 0, 3);
  expect_same(tensors, plain_tensors);

  Memory of_plain, of_offloaded;
  plain->visit_state(of_plain);
  offloaded->visit_state(of_offloaded);
  EXPECT_EQ(of_offloaded.numbers, of_plain.numbers);
  ASSERT_EQ(of_offloaded.tensors.size(), of_plain.tensors.size());
  for (const auto& [name, values] : of_plain.tensors) {
    EXPECT_TRUE(torch::equal(of_offloaded.tensors.at(name), values)) << name;
  }
  const auto next_plain = plain_of(GetParam(), plain_tensors);
  const auto next_offloaded = offloaded_of(GetParam(), tensors);
  of_offloaded.restore();
  next_plain->visit_state(of_offloaded);
  of_plain.restore();
  next_offloaded->visit_state(of_plain);
  train(*next_plain, plain_tensors, 3, 5);
  train(*next_offloaded, tensors, 3, 5);
  expect_same(tensors, plain_tensors);
}

// Parameters and gradients are on the host before and after, and visit with the states.
TEST_P(EveryOffloadable, UpdatesParametersOnTheHostInTheSameBits) {
  const auto plain_tensors = parameters(test_device());
  const auto tensors = parameters(torch::kCPU);
  const auto plain = plain_of(GetParam(), plain_tensors);
  const auto offloaded = make_offloaded(GetParam(), group_by_decay(tensors, kDecay), {},
                                        Offloaded::kStatesAndParameters, test_device());
  for (int step = 0; step < 3; ++step) {
    train(*plain, plain_tensors, step, step + 1);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& gradient = plain_tensors[i].tensor.grad();
      tensors[i].tensor.mutable_grad() = gradient.defined() ? gradient.cpu() : Tensor();
    }
    const void* const home = tensors[0].tensor.data_ptr();
    offloaded->step(0.01, 0.5);
    torch::zeros({1}).to(test_device()).cpu();  // the host is behind the device
    EXPECT_EQ(tensors[0].tensor.data_ptr(), home);
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(tensors[i].tensor.is_cpu());
      EXPECT_TRUE(torch::equal(tensors[i].tensor, plain_tensors[i].tensor.cpu()))
          << tensors[i].name << " in step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOffloadable, ::testing::ValuesIn(offloadable()),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(Offloaded, TwoOfTheLargestChunkAreOnTheDevice) {
  const auto tensors = parameters(test_device());
  const auto adamw = offloaded_of(OptimizerKind::kAdamwTorch, tensors);
  EXPECT_EQ(adamw->buffer_bytes(), 0);
  train(*adamw, tensors, 0, 1);
  ASSERT_GT(kLargest, kOffloadedChunkElements);
  EXPECT_EQ(adamw->buffer_bytes(), 2 * 2 * 4 * kLargest) << "two buffers of two states";
  const auto on_host = parameters(torch::kCPU);
  const auto with_parameters =
      make_offloaded(OptimizerKind::kAdamwTorch, group_by_decay(on_host, kDecay), {},
                     Offloaded::kStatesAndParameters, test_device());
  train(*with_parameters, on_host, 0, 1);
  EXPECT_EQ(with_parameters->buffer_bytes(), 2 * 4 * 4 * kLargest) << "and of two more";
}

TEST(Offloaded, StatesThatAreNotOfOneTensorCannotWait) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdafactor, OptimizerKind::kLomo, OptimizerKind::kGaloreAdamw,
        OptimizerKind::kGrokadamw, OptimizerKind::kPagedAdamw32bit}) {
    EXPECT_FALSE(row_of(kind).can_offload()) << name_of(kind);
  }
  EXPECT_TRUE(row_of(OptimizerKind::kAdamwTorch).can_offload());
  EXPECT_TRUE(row_of(OptimizerKind::kAdamwBnb8bit).can_offload());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
