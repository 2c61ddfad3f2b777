// Every rank holds every parameter and every gradient, and updates a part of them: the optimizer's
// state alone is divided. Source: ZeRO stage 1 (arXiv 1910.02054), in place of DDP's all-reduce.
//
//   backward    gradients of a bucket are complete: reduce-scatter, in place
//   update      of this rank's part of each bucket
//   forward     all-gather of the updated parameters, in place, in the order in which the model
//               reads them: the layers above arrive while those below compute
//
// A gather is the other half of the all-reduce that it replaces, so that as many bytes are sent.
#include <cmath>
#include <string>
#include <utility>

#include "parallel/gradient_buckets.h"
#include "parallel/whole_parameters.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

struct DividedBucket {
  GradientBucket of;
  torch::Tensor values = {};  // flat, as the gradients: what the model's tensors point into
  PendingCollective sum = {}, gather = {};
  bool started = false;
};

// The model's tensors move into one array.
torch::Tensor flatten(const GradientBucket& bucket) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor values = torch::zeros_like(bucket.gradients);
  for (size_t i = 0; i < bucket.tensors.size(); ++i) {
    const FlatTensor& flat = bucket.layout.tensors()[i];
    const torch::Tensor place = values.slice(0, flat.begin, flat.end).view(flat.shape);
    place.copy_(*bucket.tensors[i]);
    bucket.tensors[i]->set_data(place);
  }
  return values;
}

class OptimizerShards : public WholeParameters {
 public:
  OptimizerShards(const std::vector<ParameterUnit>& units, ProcessMesh& mesh, Buckets kind)
      : WholeParameters(units), mesh_(mesh), layers_(static_cast<int64_t>(units.size()) - 1) {
    owned_.clear();
    for (GradientBucket& bucket : make_gradient_buckets(units, kind, mesh.shape().shards)) {
      for (const torch::Tensor* tensor : bucket.tensors) {
        memory_.parameters -= static_cast<int64_t>(tensor->nbytes());
      }
      torch::Tensor values = flatten(bucket);
      memory_.parameters += static_cast<int64_t>(values.nbytes());
      memory_.gradients += static_cast<int64_t>(bucket.gradients.nbytes());
      buckets_.push_back({std::move(bucket), std::move(values)});
    }
    for (size_t i = buckets_.size(); i-- > 0;) append_owned(buckets_[i]);
  }

  // An update leaves the other ranks' parts as they were.
  bool whole() const override { return false; }
  bool whole_in_step() const override { return true; }

  void begin_evaluation() override {
    if (stale_) gather_updates();
    wait_for(layers_);
  }

  void begin_micro_batch(bool first, bool last) override {
    last_ = last;
    // After an evaluation, too, so that every step sends the same.
    if (first) {
      gather_updates();
      for (DividedBucket& bucket : buckets_) bucket.of.clear();
    }
    wait_for(kAtBegin);
  }

  void before_forward(int64_t layer) override {
    if (backward_) return before_backward(layer);  // a layer that is recomputed
    wait_for(layer);
  }
  void after_forward(int64_t layer) override {
    if (!backward_ && layer + 1 == layers_) wait_for(layers_);
  }
  void begin_backward() override { backward_ = true; }
  void expect_backward(int64_t, bool) override {}
  void before_backward(int64_t layer) override { reduce_up_to(layer); }

  void end_backward() override {
    reduce_up_to(kAtEnd);
    backward_ = false;
    if (!last_) return;
    for (DividedBucket& bucket : buckets_) {
      wait(bucket.sum);
      bucket.started = false;
    }
    give_gradients();
    stale_ = true;  // an update follows
  }

  void drop_gradients() override {
    for (DividedBucket& bucket : buckets_) bucket.of.drop();
    for (OwnedTensor& owned : owned_) owned.tensor.mutable_grad().reset();
  }

  double global_norm(const NormOf& norm_of) override {
    const double own = norm_of(gradients_of(owned_));
    const torch::Tensor square =
        torch::full({1}, own * own, torch::kFloat64).to(buckets_.front().values.device());
    PendingCollective sum = mesh_.shards().all_reduce(square, Reduction::kSum);
    wait(sum);
    return std::sqrt(square.item<double>());
  }

  void visit_whole(const Visit& visit, Visited visited) override {
    begin_evaluation();
    WholeParameters::visit_whole(visit, visited);
  }

  std::vector<FlatArray> flat_arrays() const override {
    std::vector<FlatArray> arrays;
    size_t owned = 0;
    for (size_t i = buckets_.size(); i-- > 0;) {
      FlatArray& array = arrays.emplace_back(
          FlatArray{"bucket." + std::to_string(i), own_part(buckets_[i].values), {}});
      for (const FlatSlice& slice : own_slices(buckets_[i])) {
        array.parts.push_back({owned++, slice.begin - own_begin(buckets_[i])});
      }
    }
    return arrays;
  }

  double take_wait_seconds() override { return std::exchange(waited_s_, 0.0); }

 private:
  int64_t rank() const { return mesh_.shards().rank(); }
  int64_t own_begin(const DividedBucket& bucket) const {
    return rank() * bucket.of.layout.shard_elements();
  }
  std::vector<FlatSlice> own_slices(const DividedBucket& bucket) const {
    return bucket.of.layout.slices(rank());
  }
  torch::Tensor own_part(const torch::Tensor& flat) const {
    return flat.view({mesh_.shards().world_size(), -1})[rank()];
  }

  void wait(PendingCollective& pending) {
    const double begin_s = steady_seconds();
    pending.wait();
    waited_s_ += steady_seconds() - begin_s;
  }

  void append_owned(const DividedBucket& bucket) {
    for (const FlatSlice& slice : own_slices(bucket)) {
      const FlatTensor& flat = bucket.of.layout.tensors()[slice.tensor];
      owned_.push_back(
          {flat.name,
           bucket.values.slice(0, slice.begin, slice.end).detach().set_requires_grad(true),
           flat.shape, slice.begin - flat.begin});
    }
  }

  // --- parameters

  // Buckets are in the order of the backward pass.
  void gather_updates() {
    stale_ = false;
    for (size_t i = buckets_.size(); i-- > 0;) {
      DividedBucket& bucket = buckets_[i];
      bucket.gather = mesh_.shards().all_gather(bucket.values, own_part(bucket.values));
    }
  }

  // Of all that the forward pass reads up to this layer.
  void wait_for(int64_t layer) {
    for (size_t i = buckets_.size(); i-- > 0;) {
      if (buckets_[i].of.used_from > layer) return;
      wait(buckets_[i].gather);
    }
  }

  // --- gradients

  // Buckets start in their order: the same on every rank.
  void reduce_up_to(int64_t layer) {
    if (!last_) return;
    for (DividedBucket& bucket : buckets_) {
      if (bucket.of.after < layer) return;
      if (bucket.started) continue;
      bucket.of.take_strays();
      bucket.sum =
          mesh_.shards().reduce_scatter(own_part(bucket.of.gradients), bucket.of.gradients);
      bucket.started = true;
    }
  }

  void give_gradients() {
    size_t owned = 0;
    for (size_t i = buckets_.size(); i-- > 0;) {
      for (const FlatSlice& slice : own_slices(buckets_[i])) {
        owned_[owned++].tensor.mutable_grad() =
            buckets_[i].of.gradients.slice(0, slice.begin, slice.end);
      }
    }
  }

  ProcessMesh& mesh_;
  int64_t layers_;
  std::vector<DividedBucket> buckets_;
  // Whether ranks hold other ranks' parts as they were before an update, or before a checkpoint was
  // restored.
  bool stale_ = true;
  bool last_ = false, backward_ = false;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<ParallelParameters> shard_optimizer(const std::vector<ParameterUnit>& units,
                                                    ProcessMesh& mesh) {
  return std::make_unique<OptimizerShards>(units, mesh, Buckets::kBySize);
}

}  // namespace sftbench
