#include "optim/update_in_backward.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <functional>
#include <utility>

#include "sftbench/base/torch.h"
#include "sftbench/ops/global_norm.h"
#include "sftbench/ops/row_tiles.h"

namespace sftbench {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

class PostHook : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> run) : run_(std::move(run)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    run_();
    return outputs;
  }

 private:
  std::function<void()> run_;
};

class UpdateInBackward : public Optimizer {
 public:
  explicit UpdateInBackward(std::vector<UpdatedParameter> parameters)
      : parameters_(std::move(parameters)) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (is_embedding(parameters_[i].parameter.name)) continue;
      // The node lives as long as somebody holds it: graphs to come find this one, with its hook.
      std::shared_ptr<Node> node =
          torch::autograd::impl::grad_accumulator(parameters_[i].parameter.tensor);
      node->add_post_hook(std::make_unique<PostHook>([this, i] {
        if (!ops::more_row_tiles_follow()) update(parameters_[i]);
      }));
      nodes_.push_back(std::move(node));
    }
  }

  // The parameters outlive this object, and may take their nodes along.
  ~UpdateInBackward() override {
    for (const std::shared_ptr<Node>& node : nodes_) node->post_hooks().clear();
  }

  void begin_backward(double learning_rate, double gradient_scale) override {
    learning_rate_ = learning_rate;
    gradient_scale_ = gradient_scale;
  }

  void end_backward() override {
    for (UpdatedParameter& parameter : parameters_) update(parameter);
  }

  void step(double, double) override {}
  bool updates_in_backward() const override { return true; }

  double gradient_norm(const std::vector<torch::Tensor>&) override {
    return std::sqrt(std::exchange(sum_of_squares_, 0.0));
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const UpdatedParameter& parameter : parameters_) bytes += parameter.update->state_bytes();
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    for (UpdatedParameter& updated : parameters_) {
      visitor.parameter(updated.parameter.name);
      updated.update->visit_state(visitor);
    }
  }

 private:
  void update(UpdatedParameter& updated) {
    torch::Tensor& gradient = updated.parameter.tensor.mutable_grad();
    if (!gradient.defined()) return;
    const torch::NoGradGuard no_grad;
    const double norm = ops::global_norm({gradient});
    sum_of_squares_ += norm * norm;
    updated.update->update(gradient, learning_rate_, gradient_scale_);
    gradient.reset();
  }

  std::vector<UpdatedParameter> parameters_;
  std::vector<std::shared_ptr<Node>> nodes_;
  double learning_rate_ = 0, gradient_scale_ = 1, sum_of_squares_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> update_in_backward(std::vector<UpdatedParameter> parameters) {
  return std::make_unique<UpdateInBackward>(std::move(parameters));
}

}  // namespace sftbench
