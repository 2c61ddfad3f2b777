#include "optim/elementwise.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "optim/state_tensors.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

class Elementwise : public Optimizer, public RecordedUpdate {
 public:
  Elementwise(std::vector<ParameterGroup> groups, ElementwiseKind kind) : kind_(std::move(kind)) {
    const torch::NoGradGuard no_grad;
    for (const ParameterGroup& group : groups) {
      Group& own = groups_.emplace_back(Group{{}, {}, group.weight_decay, {}, {}});
      for (const TrainableTensor& trainable : group.parameters) {
        own.names.push_back(trainable.name);
        own.tensors.push_back({trainable.tensor, {}, states_of(trainable.tensor)});
      }
    }
  }

  void step(double learning_rate, double gradient_scale) override {
    ++step_;
    for (const Group& group : groups_) {
      const std::vector<ops::UpdatedTensor> updated = group.with_gradients();
      if (updated.empty()) continue;
      ops::RuleFactors<double> factors = kind_.factors({step_, learning_rate, group.weight_decay});
      factors.gradient_scale = gradient_scale;
      ops::update(kind_.rule, updated, factors);
    }
  }

  RecordedUpdate* recorded_update() override {
    for (Group& group : groups_) {
      if (group.tensors.empty() || group.factors.defined()) continue;
      const torch::Tensor& parameter = group.tensors.front().parameter;
      if (!parameter.is_cuda()) return nullptr;
      const auto options = parameter.options().dtype(torch::kFloat32);
      group.factors = torch::empty({ops::kRuleFactors}, options);
      group.next_factors =
          torch::empty({ops::kRuleFactors}, options.device(torch::kCPU).pinned_memory(true));
    }
    return this;
  }

  void record(const torch::Tensor& gradient_scale) override {
    for (const Group& group : groups_) {
      const std::vector<ops::UpdatedTensor> updated = group.with_gradients();
      if (updated.empty()) continue;
      group.factors.copy_(group.next_factors, /*non_blocking=*/true);
      group.factors.select(0, kGradientScale).copy_(gradient_scale);
      ops::repeatable_update(kind_.rule, updated, group.factors);
    }
  }

  void advance(double learning_rate) override {
    ++step_;
    for (const Group& group : groups_) {
      if (!group.next_factors.defined()) continue;
      const auto factors = kind_.factors({step_, learning_rate, group.weight_decay}).as<float>();
      std::memcpy(group.next_factors.data_ptr(), &factors, sizeof factors);
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const Group& group : groups_) {
      for (const ops::UpdatedTensor& tensor : group.tensors) bytes += bytes_of(tensor.states);
    }
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    visitor.number("step", step_);
    kind_.visit_numbers(visitor);
    const std::vector<const char*>& names = state_names(kind_.rule);
    for (const Group& group : groups_) {
      for (size_t i = 0; i < group.tensors.size(); ++i) {
        visitor.parameter(group.names[i]);
        for (size_t k = 0; k < names.size(); ++k) {
          visitor.values(names[k], group.tensors[i].states[k]);
        }
      }
    }
  }

 private:
  struct Group {
    std::vector<std::string> names;
    std::vector<ops::UpdatedTensor> tensors;  // without gradients, which come and go
    double weight_decay;
    // Of a recorded update, and those of its next launch, on the host. Undefined: none is recorded.
    torch::Tensor factors, next_factors;

    std::vector<ops::UpdatedTensor> with_gradients() const {
      std::vector<ops::UpdatedTensor> updated;
      for (const ops::UpdatedTensor& tensor : tensors) {
        if (!tensor.parameter.grad().defined()) continue;
        updated.push_back({tensor.parameter, tensor.parameter.grad(), tensor.states});
      }
      return updated;
    }
  };

  // RuleFactors' first member.
  static constexpr int64_t kGradientScale = 0;

  std::vector<torch::Tensor> states_of(const torch::Tensor& parameter) const {
    const bool wide = kind_.state_dtype == StateDtype::kFloat32;
    std::vector<torch::Tensor> states;
    for (int i = 0; i < ops::state_count(kind_.rule); ++i) {
      states.push_back(wide ? state_like(parameter, torch::kFloat32) : state_like(parameter));
    }
    if (kind_.first_state_is_parameter) states[0].copy_(parameter);
    return states;
  }

  ElementwiseKind kind_;
  std::vector<Group> groups_;
  int64_t step_ = 0;
};

}  // namespace

const std::vector<const char*>& state_names(ops::UpdateRule rule) {
  static const std::vector<const char*> kNames[] = {
      {},
      {"square_avg"},
      {"exp_avg"},
      {"exp_avg", "exp_avg_sq"},
      {"exp_avg", "exp_avg_slow", "exp_avg_sq"},
      {"exp_avg", "exp_avg_sq", "grok_exp_avg"},
      {"z"},
      {"z", "exp_avg_sq"},
  };
  static_assert(std::size(kNames) == ops::kUpdateRules);
  return kNames[static_cast<int>(rule)];
}

std::unique_ptr<Optimizer> make_elementwise(std::vector<ParameterGroup> groups,
                                            ElementwiseKind kind) {
  return std::make_unique<Elementwise>(std::move(groups), std::move(kind));
}

}  // namespace sftbench
