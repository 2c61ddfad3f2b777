// Expert parallelism: the experts of a mixture stay where they are, one part of them on each rank
// of a group, and rows travel to them (model/expert_exchange.h). Only the gradients of the same
// part in other groups are summed, layer by layer, while the backward pass goes on. All other
// parameters are spread as if there were no experts.
#include <cmath>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

using torch::Tensor;

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

class DividedExperts : public ParallelParameters {
 public:
  DividedExperts(std::unique_ptr<ParallelParameters> others, std::vector<ExpertTensor> experts,
                 ProcessMesh& mesh, const DivisionOptions& options)
      : others_(std::move(others)),
        experts_(std::move(experts)),
        mesh_(mesh),
        options_(options),
        owned_(others_->owned()),
        first_expert_(owned_.size()) {
    for (const ExpertTensor& expert : experts_) {
      if (!is_here(expert)) continue;
      bytes_ += static_cast<int64_t>(expert.tensor->nbytes());
      if (!expert.tensor->requires_grad()) continue;
      gradient_bytes_ += static_cast<int64_t>(expert.tensor->nbytes());
      const int64_t before = expert.part < 0 ? part() * expert.tensor->numel() : 0;
      owned_.push_back(
          {expert.name, *expert.tensor, expert.shape, before, mesh.expert_replicas().rank() == 0});
      layers_.push_back(expert.layer);
    }
    sums_.resize(layers_.size());
  }

  const std::vector<OwnedTensor>& owned() const override { return owned_; }
  bool whole() const override { return false; }

  void begin_evaluation() override { others_->begin_evaluation(); }
  void end_evaluation() override { others_->end_evaluation(); }

  void begin_micro_batch(bool first, bool last) override {
    last_ = last;
    others_->begin_micro_batch(first, last);
  }
  void before_forward(int64_t layer) override {
    if (backward_) sum_above(layer);  // a layer that is recomputed
    others_->before_forward(layer);
  }
  void after_forward(int64_t layer) override { others_->after_forward(layer); }
  void begin_backward() override {
    backward_ = true;
    others_->begin_backward();
  }
  void expect_backward(int64_t layer, bool expected) override {
    others_->expect_backward(layer, expected);
  }
  void before_backward(int64_t layer) override {
    sum_above(layer);
    others_->before_backward(layer);
  }

  void end_backward() override {
    sum_above(-1);
    backward_ = false;
    others_->end_backward();
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (!sums_[i].values.defined()) continue;
      const double begin_s = steady_seconds();
      sums_[i].pending.wait();
      waited_s_ += steady_seconds() - begin_s;
      const Tensor& gradient = gradient_of(i);
      if (gradient.data_ptr() != sums_[i].values.data_ptr()) gradient.copy_(sums_[i].values);
      sums_[i] = Sum();
    }
  }

  void drop_gradients() override {
    others_->drop_gradients();
    for (size_t i = first_expert_; i < owned_.size(); ++i) owned_[i].tensor.mutable_grad().reset();
  }

  double global_norm(const NormOf& norm_of) override {
    const double of_others = others_->global_norm(norm_of);
    const std::vector<OwnedTensor> experts(owned_.begin() + static_cast<int64_t>(first_expert_),
                                           owned_.end());
    const double own = norm_of(gradients_of(experts));
    const Tensor square = torch::full({1}, own * own, torch::kFloat64).to(device());
    mesh_.experts().all_reduce_now(square);
    return std::sqrt(of_others * of_others + square.item<double>());
  }

  void visit_whole(const Visit& visit, Visited visited) override {
    others_->visit_whole(visit, visited);
    const torch::NoGradGuard no_grad;
    for (const ExpertTensor& expert : experts_) {
      if (visited == Visited::kTrained && !expert.tensor->requires_grad()) continue;
      visit(expert.name, whole_of(expert));
    }
  }

  std::vector<ParameterInfo> inventory() const override {
    std::vector<ParameterInfo> inventory = others_->inventory();
    for (const ExpertTensor& expert : experts_) {
      inventory.push_back({expert.name, expert.shape, expert.tensor->scalar_type(),
                           expert.tensor->requires_grad()});
    }
    return inventory;
  }

  // An expert's tensor is an array of its own, and so are others that are whole.
  std::vector<FlatArray> flat_arrays() const override {
    std::vector<FlatArray> arrays = others_->flat_arrays();
    for (size_t i = others_->whole() ? 0 : first_expert_; i < owned_.size(); ++i) {
      arrays.push_back(
          {owned_[i].name, owned_[i].tensor.detach().view(-1), {{i, 0}}, owned_[i].saved_here});
    }
    return arrays;
  }

  void put_whole(const std::string& name, const Tensor& values) override {
    for (const ExpertTensor& expert : experts_) {
      if (expert.name != name) continue;
      if (!is_here(expert)) return;
      const torch::NoGradGuard no_grad;
      const int64_t rows = expert.tensor->size(0);
      expert.tensor->copy_(expert.part < 0 ? values.narrow(0, part() * rows, rows) : values);
      return;
    }
    others_->put_whole(name, values);
  }

  ParallelMemory memory() const override {
    ParallelMemory memory = others_->memory();
    memory.parameters += bytes_;
    memory.gradients += gradient_bytes_;
    return memory;
  }

  double take_wait_seconds() override {
    return others_->take_wait_seconds() + options_.take_wait_seconds() +
           std::exchange(waited_s_, 0.0);
  }

 private:
  struct Sum {
    Tensor values;
    PendingCollective pending;
  };

  int64_t part() const { return mesh_.experts().rank(); }
  bool is_here(const ExpertTensor& expert) const {
    return expert.part < 0 || expert.part == part();
  }
  torch::Device device() const { return experts_.front().tensor->device(); }
  const Tensor& gradient_of(size_t trained) const {
    return owned_[first_expert_ + trained].tensor.grad();
  }

  // Gradients of the layers above are complete. All ranks of the same part start in the same order.
  void sum_above(int64_t layer) {
    if (!last_ || mesh_.expert_replicas().world_size() == 1) return;
    const torch::NoGradGuard no_grad;
    for (size_t i = layers_.size(); i-- > 0;) {
      if (layers_[i] <= layer || sums_[i].values.defined()) continue;
      // A layer whose experts no row of this group went to has no gradient yet.
      Tensor& gradient = owned_[first_expert_ + i].tensor.mutable_grad();
      if (!gradient.defined()) gradient = torch::zeros_like(owned_[first_expert_ + i].tensor);
      sums_[i].values =
          gradient.to(options_.reduce_dtype.value_or(gradient.scalar_type())).contiguous();
      sums_[i].pending = mesh_.expert_replicas().all_reduce(sums_[i].values, Reduction::kSum);
    }
  }

  // Collective, in the expert group.
  Tensor whole_of(const ExpertTensor& expert) const {
    const torch::TensorOptions options =
        torch::dtype(expert.tensor->scalar_type()).device(device());
    const Tensor whole = torch::empty(expert.shape, options);
    if (expert.part < 0) {
      check(expert.tensor->numel() * mesh_.experts().world_size() == elements_of(expert.shape),
            "each rank of a group has as many rows");
      mesh_.experts().all_gather(whole, expert.tensor->detach().contiguous()).wait();
      return whole;
    }
    if (is_here(expert)) whole.copy_(*expert.tensor);
    mesh_.experts().broadcast(whole, expert.part).wait();
    return whole;
  }

  std::unique_ptr<ParallelParameters> others_;
  std::vector<ExpertTensor> experts_;
  ProcessMesh& mesh_;
  DivisionOptions options_;
  std::vector<OwnedTensor> owned_;  // of others_, then the experts that are here and train
  size_t first_expert_;
  std::vector<int64_t> layers_;  // of those experts
  std::vector<Sum> sums_;        // of their gradients, while they are under way
  int64_t bytes_ = 0, gradient_bytes_ = 0;
  bool last_ = false, backward_ = false;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<ParallelParameters> divide_experts(std::unique_ptr<ParallelParameters> others,
                                                   std::vector<ExpertTensor> experts,
                                                   ProcessMesh& mesh,
                                                   const DivisionOptions& options) {
  check(!experts.empty(), "a mixture has experts");
  return std::make_unique<DividedExperts>(std::move(others), std::move(experts), mesh, options);
}

std::vector<Tensor> gradients_of(const std::vector<OwnedTensor>& owned) {
  std::vector<Tensor> gradients;
  for (const OwnedTensor& tensor : owned) {
    if (tensor.tensor.grad().defined()) gradients.push_back(tensor.tensor.grad());
  }
  return gradients;
}

}  // namespace sftbench
