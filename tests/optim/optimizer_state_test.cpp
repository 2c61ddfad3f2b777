// What visit_state() names is all that an optimizer's next step depends on: one that is made anew
// and given these states goes on in the same bits.
#include "sftbench/optim/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/optim/gradient_scaling.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::Tensor;

// Keeps what it is shown; then puts it where it is shown the same names.
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
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.insert(name.substr(name.rfind('/') + 1));
    return names;
  }
  // Of the last use: what was kept and has not been put anywhere.
  int64_t kept() const { return static_cast<int64_t>(tensors_.size() + numbers_.size()); }
  int64_t restored() const { return restored_; }

 private:
  template <typename Number>
  void meet(const std::string& name, Number& value) {
    const std::string key = parameter_ + "/" + name;
    if (!restoring_) {
      EXPECT_TRUE(numbers_.emplace(key, value).second) << key << " twice";
    } else {
      value = std::get<Number>(numbers_.at(key));
      ++restored_;
    }
  }
  void meet(const std::string& name, const Tensor& tensor) {
    const std::string key = parameter_ + "/" + name;
    if (!restoring_) {
      EXPECT_TRUE(tensors_.emplace(key, tensor.clone()).second) << key << " twice";
    } else {
      Tensor(tensor).copy_(tensors_.at(key));
      ++restored_;
    }
  }

  std::map<std::string, std::variant<int64_t, double>> numbers_;
  std::map<std::string, Tensor> tensors_;
  std::string parameter_;
  bool restoring_ = false;
  int64_t restored_ = 0;
};

// One of each role, and of each form that quantized states take; wide and narrow ones for GaLore.
struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
};
const std::vector<Shape> kShapes = {{"model.embed_tokens.weight", {80, 64}},
                                    {"model.layers.0.self_attn.q_proj.weight", {96, 64}},
                                    {"model.layers.0.mlp.up_proj.weight", {64, 144}},
                                    {"model.norm.weight", {64}}};
constexpr int kSteps = 6, kSavedAfter = 3;

class Training {
 public:
  Training(const std::string& optim, torch::Dtype dtype, const std::vector<Tensor>& start)
      : dtype_(dtype) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      parameters_.push_back({kShapes[i].name, start[i].clone().set_requires_grad(true)});
    }
    optimizer_ = make_optimizer(named<OptimizerKind>(optim), group_by_decay(parameters_, 0.1), {});
  }

  // The rate rises and falls: who forgets the largest one shows it.
  void step(int number) {
    const double rate = 1e-2 / (1 + std::abs(number - 1));
    Tensor loss = torch::zeros({}, dtype_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      torch::manual_seed(100 * number + static_cast<int>(i));
      const Tensor gradient = torch::randn(kShapes[i].sizes).to(dtype_);
      loss = loss + (parameters_[i].tensor * gradient).sum();
    }
    optimizer_->begin_backward(rate, 1.0);
    loss.backward();
    optimizer_->end_backward();
    optimizer_->step(rate, 0.9);
    for (TrainableTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  }

  std::vector<Tensor> values() const {
    std::vector<Tensor> values;
    for (const TrainableTensor& parameter : parameters_) {
      values.push_back(parameter.tensor.detach().clone());
    }
    return values;
  }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  torch::Dtype dtype_;
  std::vector<TrainableTensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

std::vector<Tensor> start_values(torch::Dtype dtype) {
  torch::manual_seed(7);
  std::vector<Tensor> values;
  for (const Shape& shape : kShapes) values.push_back(torch::randn(shape.sizes).to(dtype));
  return values;
}

void expect_goes_on_in_the_same_bits(const std::string& optim, torch::Dtype dtype) {
  Training straight(optim, dtype, start_values(dtype));
  Training first(optim, dtype, start_values(dtype));
  for (int step = 0; step < kSteps; ++step) straight.step(step);
  for (int step = 0; step < kSavedAfter; ++step) first.step(step);

  const torch::NoGradGuard no_grad;
  Memory memory;
  first.optimizer().visit_state(memory);
  Training second(optim, dtype, first.values());
  memory.restore();
  second.optimizer().visit_state(memory);
  EXPECT_EQ(memory.restored(), memory.kept());
  {
    const torch::AutoGradMode grad(true);
    for (int step = kSavedAfter; step < kSteps; ++step) second.step(step);
  }
  const std::vector<Tensor> expected = straight.values(), resumed = second.values();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(resumed[i], expected[i])) << kShapes[i].name;
    EXPECT_FALSE(torch::equal(resumed[i], first.values()[i])) << "nothing moved";
  }
}

class EveryOptimizer : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryOptimizer, GoesOnInTheSameBitsFromTheStatesThatItNames) {
  torch::set_num_threads(1);
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(dtype));
    expect_goes_on_in_the_same_bits(GetParam(), dtype);
  }
}

// What is predicted of a state is what the optimizer has: for matrices, vectors, embeddings,
// tensors of broken blocks, and those that are too small for codes.
TEST_P(EveryOptimizer, KeepsTheBytesThatItsRowSays) {
  const std::vector<Shape> shapes = {{"model.embed_tokens.weight", {80, 64}},
                                     {"transformer.wte.weight", {100, 50}},
                                     {"word_embeddings_layernorm.weight", {4096}},
                                     {"model.layers.0.self_attn.q_proj.weight", {96, 64}},
                                     {"model.layers.0.self_attn.k_proj.bias", {5000}},
                                     {"model.layers.0.mlp.up_proj.weight", {300, 144}},
                                     {"model.layers.0.mlp.down_proj.weight", {144, 301}},
                                     {"model.layers.0.mlp.experts.gate_up_proj", {3, 40, 50}},
                                     {"model.norm.weight", {64}},
                                     {"lm_head.weight", {64, 80}}};
  const OptimizerKind kind = named<OptimizerKind>(GetParam());
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    std::vector<TrainableTensor> tensors;
    int64_t expected = 0;
    for (const Shape& shape : shapes) {
      tensors.push_back({shape.name, torch::ones(shape.sizes, dtype).set_requires_grad(true)});
      const auto element_bytes = static_cast<int64_t>(torch::elementSize(dtype));
      expected += state_bytes(kind, {shape.name, shape.sizes}, element_bytes, false).total();
    }
    const auto optimizer = make_optimizer(kind, group_by_decay(tensors, 0.1), {});
    EXPECT_EQ(optimizer->state_bytes(), expected) << c10::toString(dtype);
    EXPECT_EQ(optimizer->updates_in_backward(), row_of(kind).updates_in_backward());
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, ::testing::ValuesIn(optimizer_names()),
                         [](const auto& name) { return name.param; });

std::set<std::string> state_names_of(const std::string& optim) {
  Training training(optim, torch::kFloat32, start_values(torch::kFloat32));
  Memory memory;
  training.optimizer().visit_state(memory);
  return memory.names();
}

TEST(OptimizerState, HasTorchsNames) {
  using ::testing::ElementsAre;
  EXPECT_THAT(state_names_of("adamw_torch"), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(state_names_of("adafactor"),
              ElementsAre("exp_avg_sq", "exp_avg_sq_col", "exp_avg_sq_row"));
  EXPECT_THAT(state_names_of("schedule_free_adamw"), ElementsAre("exp_avg_sq", "z"));
  EXPECT_THAT(state_names_of("lomo"), ElementsAre());
}

TEST(LossScalerState, GoesOnWithItsScaleAndItsCount) {
  const std::unique_ptr<LossScaler> before = make_dynamic_loss_scaler();
  before->accept(false);
  before->accept(false);
  for (int i = 0; i < 1500; ++i) before->accept(true);
  Memory memory;
  before->visit_state(memory);
  const std::unique_ptr<LossScaler> after = make_dynamic_loss_scaler();
  memory.restore();
  after->visit_state(memory);
  EXPECT_EQ(after->scale(), 16384.0);
  for (int i = 0; i < 499; ++i) after->accept(true);
  EXPECT_EQ(after->scale(), 16384.0);
  after->accept(true);  // the 2000th in a row
  EXPECT_EQ(after->scale(), 32768.0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
