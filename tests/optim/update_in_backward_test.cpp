// Optimizers that update inside the backward pass: when each parameter is updated, that gradients
// are gone at once, and how many of them exist at a time.
#include "optim/update_in_backward.h"

#include <gtest/gtest.h>

#include <functional>

#include "sftbench/base/torch.h"
#include "sftbench/ops/linear.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using torch::Tensor;

// Subtracts the gradient and tells what it saw.
class Recorded : public ParameterUpdate {
 public:
  Recorded(Tensor parameter, std::function<void()> on_update)
      : parameter_(std::move(parameter)), on_update_(std::move(on_update)) {}

  void update(const Tensor& gradient, double learning_rate, double gradient_scale) override {
    parameter_.sub_(gradient * (learning_rate * gradient_scale));
    on_update_();
  }
  int64_t state_bytes() const override { return 7; }
  void visit_state(OptimizerStateVisitor&) override {}

 private:
  Tensor parameter_;
  std::function<void()> on_update_;
};

// A chain of linears x -> W0 x -> W1 W0 x ..., whose operators add into parameter.grad()
// themselves.
struct Chain {
  std::vector<Tensor> weights;
  std::vector<size_t> updated;            // in order
  std::vector<size_t> gradients_at_once;  // how many there were at each update
  std::unique_ptr<Optimizer> optimizer;

  explicit Chain(const std::vector<std::string>& names) {
    torch::manual_seed(1);
    for (size_t i = 0; i < names.size(); ++i) {
      weights.push_back(torch::randn({4, 4}).requires_grad_(true));
    }
    std::vector<UpdatedParameter> parameters;
    for (size_t i = 0; i < names.size(); ++i) {
      auto update = std::make_unique<Recorded>(weights[i], [this, i] {
        updated.push_back(i);
        gradients_at_once.push_back(count_gradients());
      });
      parameters.push_back({{names[i], weights[i]}, std::move(update)});
    }
    optimizer = update_in_backward(std::move(parameters));
  }

  size_t count_gradients() const {
    size_t count = 0;
    for (const Tensor& weight : weights) count += weight.grad().defined() ? 1 : 0;
    return count;
  }

  void backward(const Tensor& loss, double learning_rate = 1.0, double gradient_scale = 1.0) {
    optimizer->begin_backward(learning_rate, gradient_scale);
    loss.backward();
    optimizer->end_backward();
  }

  Tensor loss(const Tensor& x) const {
    Tensor y = x;
    for (const Tensor& weight : weights) y = ops::linear(y, weight, {});
    return y.square().sum();
  }
};

TEST(UpdateInBackward, OneGradientExistsAtATime) {
  Chain chain({"a.weight", "b.weight", "c.weight"});
  chain.backward(chain.loss(torch::ones({2, 4})));
  EXPECT_EQ(chain.updated, (std::vector<size_t>{2, 1, 0})) << "in the order of the backward";
  EXPECT_EQ(chain.gradients_at_once, (std::vector<size_t>{1, 1, 1}));
  EXPECT_EQ(chain.count_gradients(), 0u);
}

TEST(UpdateInBackward, GivesTheGradientsOfAPlainBackward) {
  Chain chain({"a.weight", "b.weight"});
  const Tensor x = torch::full({3, 4}, 0.1);
  std::vector<Tensor> plain;
  for (const Tensor& weight : chain.weights) {
    plain.push_back(weight.detach().clone().set_requires_grad(true));
  }
  x.matmul(plain[0].t()).matmul(plain[1].t()).square().sum().backward();
  double squares = 0;
  std::vector<Tensor> expected;
  for (const Tensor& weight : plain) {
    squares += weight.grad().square().sum().item<double>();
    expected.push_back(weight.detach() - 0.5 * 0.25 * weight.grad());
  }
  chain.backward(chain.loss(x), 0.5, 0.25);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::allclose(chain.weights[i].detach(), expected[i], 1e-5, 1e-6)) << i;
  }
  EXPECT_NEAR(chain.optimizer->gradient_norm({}), std::sqrt(squares), 1e-5 * std::sqrt(squares));
  EXPECT_EQ(chain.optimizer->gradient_norm({}), 0.0) << "asked again, nothing was consumed since";
}

TEST(UpdateInBackward, AnEmbeddingWaitsForTheEnd) {
  Chain chain({"model.embed_tokens.weight", "b.weight"});
  const Tensor x = torch::ones({2, 4});
  // Tied: used first and last, as two graphs, which is what checkpointing does.
  const Tensor middle =
      ops::linear(ops::linear(x, chain.weights[0], {}), chain.weights[1], {}).detach();
  chain.optimizer->begin_backward(1.0, 1.0);
  ops::linear(middle, chain.weights[0], {}).sum().backward();
  EXPECT_TRUE(chain.updated.empty()) << "half of the gradient is missing";
  chain.loss(x).backward();
  EXPECT_EQ(chain.updated, (std::vector<size_t>{1}));
  chain.optimizer->end_backward();
  EXPECT_EQ(chain.updated, (std::vector<size_t>{1, 0}));
}

TEST(UpdateInBackward, AWeightThatIsUsedTwiceIsUpdatedOnce) {
  Chain chain({"a.weight"});
  const Tensor x = torch::ones({2, 4});
  chain.backward(
      ops::linear(ops::linear(x, chain.weights[0], {}), chain.weights[0], {}).square().sum());
  EXPECT_EQ(chain.updated.size(), 1u);
}

TEST(UpdateInBackward, EveryMicroBatchUpdates) {
  Chain chain({"a.weight", "b.weight"});
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    chain.backward(chain.loss(torch::ones({1, 4})), 1e-3);
  }
  EXPECT_EQ(chain.updated.size(), 6u);
}

TEST(UpdateInBackward, ParametersOutliveTheirOptimizer) {
  Chain chain({"a.weight", "b.weight"});
  chain.optimizer.reset();
  chain.loss(torch::ones({1, 4})).backward();
  EXPECT_TRUE(chain.updated.empty());
  EXPECT_EQ(chain.count_gradients(), 2u);
}

TEST(UpdateInBackward, StateIsTheSumOfItsParts) {
  EXPECT_EQ(Chain({"a.weight", "b.weight"}).optimizer->state_bytes(), 14);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
