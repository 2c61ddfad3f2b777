// Every rank holds every parameter; gradients are summed over all ranks in buckets, while the
// backward pass goes on. FSDP's NO_SHARD is the same, unit by unit.
#include <utility>

#include "parallel/gradient_buckets.h"
#include "parallel/whole_parameters.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

struct SummedBucket {
  GradientBucket of;
  PendingCollective sum = {};
  bool started = false;
};

class ReplicatedParameters : public WholeParameters {
 public:
  ReplicatedParameters(const std::vector<ParameterUnit>& units, ProcessMesh& mesh, Buckets kind)
      : WholeParameters(units), mesh_(mesh) {
    for (OwnedTensor& owned : owned_) owned.saved_here = mesh.world().rank() == 0;
    for (GradientBucket& bucket : make_gradient_buckets(units, kind, 1)) {
      memory_.gradients += static_cast<int64_t>(bucket.gradients.nbytes());
      buckets_.push_back({std::move(bucket)});
    }
  }

  void begin_micro_batch(bool first, bool last) override {
    last_ = last;
    if (!first) return;
    for (SummedBucket& bucket : buckets_) bucket.of.clear();
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
    for (SummedBucket& bucket : buckets_) {
      const double begin_s = steady_seconds();
      bucket.sum.wait();
      waited_s_ += steady_seconds() - begin_s;
      bucket.started = false;
    }
  }

  void drop_gradients() override {
    for (SummedBucket& bucket : buckets_) bucket.of.drop();
  }

  double take_wait_seconds() override { return std::exchange(waited_s_, 0.0); }

 private:
  // Buckets start in their order: the same on every rank.
  void reduce_up_to(int64_t layer) {
    if (!last_) return;
    for (SummedBucket& bucket : buckets_) {
      if (bucket.of.after < layer) return;
      if (bucket.started) continue;
      bucket.of.take_strays();
      bucket.sum = mesh_.world().all_reduce(bucket.of.gradients, Reduction::kSum);
      bucket.started = true;
    }
  }

  ProcessMesh& mesh_;
  std::vector<SummedBucket> buckets_;
  bool last_ = false, backward_ = false;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<ParallelParameters> replicate_parameters(const std::vector<ParameterUnit>& units,
                                                         ProcessMesh& mesh, Buckets buckets) {
  return std::make_unique<ReplicatedParameters>(units, mesh, buckets);
}

}  // namespace sftbench
