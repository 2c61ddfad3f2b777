// Every rank holds every parameter; gradients are summed over all ranks in buckets, while the
// backward pass goes on. Each gradient is a view into its bucket from the beginning, so nothing is
// copied. Source: DistributedDataParallel with gradient_as_bucket_view (bucket_cap_mb 25, first
// bucket 1 MiB); FSDP's NO_SHARD is the same, unit by unit.
//
// Which bucket a gradient is in follows from the model alone, never from which rank had a gradient:
// ranks on which a parameter was not used contribute zeros.
#include <algorithm>
#include <utility>

#include "parallel/flat_layout.h"
#include "parallel/whole_parameters.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

constexpr int64_t kFirstBucketBytes = int64_t{1} << 20;
constexpr int64_t kBucketBytes = int64_t{25} << 20;

// A trained parameter, and when its gradient is complete: once the backward pass has come to layer
// `after` (its output's gradient is there); kAtEnd: when it has ended.
struct Trained {
  UnitTensor parameter;
  int64_t after;
};
constexpr int64_t kAtEnd = -1;

// In the order in which the backward pass completes them. An embedding is complete last (a tied one
// has its first part from the output projection).
std::vector<Trained> in_backward_order(const std::vector<ParameterUnit>& units) {
  const auto layers = static_cast<int64_t>(units.size()) - 1;
  std::vector<Trained> order;
  const std::vector<UnitTensor>& root = units.front().tensors;
  for (size_t i = root.size(); i-- > 0;) {
    if (root[i].behind_layers) order.push_back({root[i], layers - 1});
  }
  for (int64_t layer = layers; layer-- > 0;) {
    const std::vector<UnitTensor>& tensors = units[static_cast<size_t>(layer) + 1].tensors;
    for (size_t i = tensors.size(); i-- > 0;) order.push_back({tensors[i], layer - 1});
  }
  for (size_t i = root.size(); i-- > 0;) {
    if (!root[i].behind_layers) order.push_back({root[i], kAtEnd});
  }
  std::erase_if(order, [](const Trained& t) { return !t.parameter.tensor->requires_grad(); });
  return order;
}

struct Bucket {
  torch::Tensor gradients;  // flat
  std::vector<torch::Tensor*> tensors;
  std::vector<torch::Tensor> places;  // views of `gradients`, one for each tensor
  int64_t after = kAtEnd;             // when all of them are complete
  PendingCollective sum;
  bool started = false;
};

Bucket make_bucket(const std::vector<Trained>& members) {
  Bucket bucket;
  const torch::TensorOptions options =
      members.front().parameter.tensor->options().requires_grad(false);
  FlatLayout layout(static_cast<int64_t>(options.dtype().itemsize()), 1);
  for (const Trained& member : members) {
    layout.add(member.parameter.name, member.parameter.tensor->sizes().vec());
    bucket.tensors.push_back(member.parameter.tensor);
  }
  bucket.after = members.back().after;
  bucket.gradients = torch::zeros({layout.elements()}, options);
  for (const FlatTensor& flat : layout.tensors()) {
    bucket.places.push_back(bucket.gradients.slice(0, flat.begin, flat.end).view(flat.shape));
  }
  return bucket;
}

std::vector<Bucket> make_buckets(const std::vector<ParameterUnit>& units, Buckets kind) {
  std::vector<Bucket> buckets;
  std::vector<Trained> members;
  int64_t bytes = 0;
  const auto close = [&] {
    if (!members.empty()) buckets.push_back(make_bucket(members));
    members.clear();
    bytes = 0;
  };
  for (const Trained& trained : in_backward_order(units)) {
    const bool other_dtype = !members.empty() && members.back().parameter.tensor->dtype() !=
                                                     trained.parameter.tensor->dtype();
    const bool other_unit = !members.empty() && members.back().after != trained.after;
    if (other_dtype || (kind == Buckets::kByUnit && other_unit)) close();
    members.push_back(trained);
    bytes += static_cast<int64_t>(trained.parameter.tensor->nbytes());
    const int64_t most = buckets.empty() ? kFirstBucketBytes : kBucketBytes;
    if (kind == Buckets::kBySize && bytes >= most) close();
  }
  close();
  return buckets;
}

class ReplicatedParameters : public WholeParameters {
 public:
  ReplicatedParameters(const std::vector<ParameterUnit>& units, ProcessMesh& mesh, Buckets kind)
      : WholeParameters(units), mesh_(mesh), buckets_(make_buckets(units, kind)) {
    for (OwnedTensor& owned : owned_) owned.saved_here = mesh.world().rank() == 0;
    for (const Bucket& bucket : buckets_) {
      memory_.gradients += static_cast<int64_t>(bucket.gradients.nbytes());
    }
  }

  void begin_micro_batch(bool first, bool last) override {
    last_ = last;
    if (!first) return;
    for (Bucket& bucket : buckets_) {
      bucket.gradients.zero_();
      for (size_t i = 0; i < bucket.tensors.size(); ++i) {
        bucket.tensors[i]->mutable_grad() = bucket.places[i];
      }
    }
  }

  void before_forward(int64_t layer) override {
    if (backward_) before_backward(layer);  // a layer that is recomputed
  }
  void after_forward(int64_t) override {}
  void begin_backward() override { backward_ = true; }
  void expect_backward(int64_t, bool) override {}

  void before_backward(int64_t layer) override { reduce_up_to(layer); }

  void end_backward() override {
    reduce_up_to(kAtEnd);
    backward_ = false;
    for (Bucket& bucket : buckets_) {
      const double begin_s = steady_seconds();
      bucket.sum.wait();
      waited_s_ += steady_seconds() - begin_s;
      bucket.started = false;
    }
  }

  void drop_gradients() override {
    for (Bucket& bucket : buckets_) {
      for (torch::Tensor* tensor : bucket.tensors) tensor->mutable_grad().reset();
    }
  }

  double take_wait_seconds() override { return std::exchange(waited_s_, 0.0); }

 private:
  // Buckets start in their order: the same on every rank.
  void reduce_up_to(int64_t layer) {
    if (!last_) return;
    for (Bucket& bucket : buckets_) {
      if (bucket.after < layer) return;
      if (bucket.started) continue;
      take_strays(bucket);
      bucket.sum = mesh_.world().all_reduce(bucket.gradients, Reduction::kSum);
      bucket.started = true;
    }
  }

  // Of an operator that made a gradient of its own instead of adding to the one that was there.
  static void take_strays(Bucket& bucket) {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < bucket.tensors.size(); ++i) {
      torch::Tensor& gradient = bucket.tensors[i]->mutable_grad();
      if (gradient.data_ptr() == bucket.places[i].data_ptr()) continue;
      bucket.places[i].copy_(gradient);
      gradient = bucket.places[i];
    }
  }

  ProcessMesh& mesh_;
  std::vector<Bucket> buckets_;
  bool last_ = false, backward_ = false;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<ParallelParameters> replicate_parameters(const std::vector<ParameterUnit>& units,
                                                         ProcessMesh& mesh, Buckets buckets) {
  return std::make_unique<ReplicatedParameters>(units, mesh, buckets);
}

}  // namespace sftbench
