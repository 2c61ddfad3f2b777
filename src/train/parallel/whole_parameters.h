// What kept and replicated parameters have in common: every rank has all of them, all the time.
#pragma once

#include <string>
#include <vector>

#include "parallel/forward_order.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

class WholeParameters : public ParallelParameters {
 public:
  explicit WholeParameters(const std::vector<ParameterUnit>& units)
      : parameters_(in_forward_order(units)) {
    for (const UnitTensor& named : parameters_) {
      memory_.parameters += static_cast<int64_t>(named.tensor->nbytes());
      if (named.tensor->requires_grad()) {
        owned_.push_back({named.name, *named.tensor, named.tensor->sizes().vec()});
      }
    }
  }

  const std::vector<OwnedTensor>& owned() const override { return owned_; }
  bool whole() const override { return true; }
  void begin_evaluation() override {}
  void end_evaluation() override {}

  // Every rank has all gradients, in the same bits.
  double global_norm(const NormOf& norm_of) override { return norm_of(gradients_of(owned_)); }

  void visit_whole(const Visit& visit, Visited visited) override {
    for (const UnitTensor& named : parameters_) {
      if (visited == Visited::kTrained && !named.tensor->requires_grad()) continue;
      visit(named.name, *named.tensor);
    }
  }

  std::vector<ParameterInfo> inventory() const override {
    std::vector<ParameterInfo> inventory;
    for (const UnitTensor& named : parameters_) {
      const torch::Tensor& tensor = *named.tensor;
      inventory.push_back(
          {named.name, tensor.sizes().vec(), tensor.scalar_type(), tensor.requires_grad()});
    }
    return inventory;
  }

  std::vector<FlatArray> flat_arrays() const override { return {}; }

  void put_whole(const std::string& name, const torch::Tensor& values) override {
    const torch::NoGradGuard no_grad;
    for (const UnitTensor& named : parameters_) {
      if (named.name == name) return static_cast<void>(named.tensor->copy_(values));
    }
    check(false, "what is put is a parameter");
  }

  ParallelMemory memory() const override { return memory_; }

 protected:
  std::vector<OwnedTensor> owned_;
  ParallelMemory memory_;

 private:
  std::vector<UnitTensor> parameters_;
};

}  // namespace sftbench
