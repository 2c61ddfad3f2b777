// When units are gathered and freed, and when their gradients are reduced. A communicator runs its
// operations in the order in which they are started, so that order decides what overlaps:
//
//   forward, layer i    wait for gather i; start gather i+1; compute; free i
//   turn                the last layer is gathered again while the loss is computed
//   backward, layer i   free i+1 and start the reduction of its gradients; wait for gather i; start
//                       gather i-1; compute
//
// So never more than two layers and two layers' gradients are there at once, beside the root unit
// (SHARD_GRAD_OP frees no layer before its backward; gradients of several micro-batches that are
// not reduced each stay).
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "parallel/buffer_pool.h"
#include "parallel/sharded_unit.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

constexpr size_t kRoot = 0, kFirstLayer = 1;

// Buffers of layers all have the size that the largest needs; the root unit has its own.
struct BufferBytes {
  int64_t root = 0, layer = 0;
  int64_t of(size_t unit) const { return unit == kRoot ? root : layer; }
};

BufferBytes buffer_bytes(const std::vector<std::unique_ptr<ShardedUnit>>& units,
                         int64_t (ShardedUnit::*bytes)() const) {
  BufferBytes result{((*units.front()).*bytes)(), 0};
  for (size_t i = kFirstLayer; i < units.size(); ++i) {
    result.layer = std::max(result.layer, ((*units[i]).*bytes)());
  }
  return result;
}

class ShardedParameters : public ParallelParameters {
 public:
  ShardedParameters(std::vector<std::unique_ptr<ShardedUnit>> units,
                    std::unique_ptr<ops::CopyStream> copies, torch::Device device,
                    ProcessMesh& mesh, const ShardingOptions& options)
      : mesh_(mesh),
        options_(options),
        device_(device),
        copies_(std::move(copies)),
        units_(std::move(units)),
        parameter_bytes_(buffer_bytes(units_, &ShardedUnit::gathered_bytes)),
        gradient_bytes_(buffer_bytes(units_, &ShardedUnit::gradient_bytes)),
        buffers_(device),
        expected_(units_.size(), true) {
    for (const auto& unit : units_) unit->append_owned(owned_);
    for (OwnedTensor& owned : owned_) owned.saved_here = saves_here();
  }

  const std::vector<OwnedTensor>& owned() const override { return owned_; }
  bool whole() const override { return false; }

  void begin_evaluation() override {
    backward_ = false;
    gather(kRoot);
    wait_for(kRoot);
  }
  void end_evaluation() override {
    for (size_t unit = 0; unit < units_.size(); ++unit) release(unit);
  }

  void begin_micro_batch(bool /*first*/, bool last) override {
    backward_ = false;
    last_ = last;
    reduces_ = last || options_.reduce_each_micro_batch;
    gather(kRoot);
    wait_for(kRoot);
    // The loss may add to the output projection's gradient while it is computed.
    collect_gradients(kRoot);
    gather_ahead(kFirstLayer);
  }

  void before_forward(int64_t layer) override {
    const size_t unit = unit_of(layer);
    if (backward_) return enter_backward(unit);
    gather(unit);
    wait_for(unit);
    gather_ahead(unit + 1);
  }

  void expect_backward(int64_t layer, bool expected) override {
    expected_[unit_of(layer)] = expected;
  }

  void after_forward(int64_t layer) override {
    const size_t unit = unit_of(layer);
    if (backward_ || !options_.reshard_after_forward) return;
    release(unit);
    if (unit + 1 == units_.size() && expected_[unit]) gather(unit);
  }

  void begin_backward() override { backward_ = true; }

  void before_backward(int64_t layer) override { enter_backward(unit_of(layer)); }

  void end_backward() override {
    for (size_t unit = units_.size(); unit-- > 0;) leave_backward(unit);
    while (!reducing_.empty()) finish_oldest_reduction();
    if (!last_) return;
    for (PendingCollective& sum : replica_sums_) wait(sum);
    replica_sums_.clear();
    if (copies_) bring_gradients_to_the_host();
    for (const auto& unit : units_) unit->finish_gradients();
  }

  void drop_gradients() override {
    for (const auto& unit : units_) unit->drop_gradients();
  }

  double global_norm(const NormOf& norm_of) override {
    const double owned_norm = norm_of(gradients_of(owned_));
    const torch::Tensor square =
        torch::full({1}, owned_norm * owned_norm, torch::kFloat64).to(device_);
    PendingCollective sum = mesh_.shards().all_reduce(square, Reduction::kSum);
    wait(sum);
    return std::sqrt(square.item<double>());
  }

  void visit_whole(const Visit& visit, Visited visited) override {
    for (const auto& unit : units_) unit->visit_whole(mesh_.shards(), visit, visited);
  }

  std::vector<ParameterInfo> inventory() const override {
    std::vector<ParameterInfo> inventory;
    for (const auto& unit : units_) unit->append_inventory(inventory);
    return inventory;
  }

  std::vector<FlatArray> flat_arrays() const override {
    std::vector<FlatArray> arrays;
    for (const auto& unit : units_) unit->append_flat_arrays(arrays);
    // Parts are numbered unit by unit, as owned() is.
    size_t owned = 0;
    for (FlatArray& array : arrays) {
      array.saved_here = saves_here();
      for (FlatArray::Part& part : array.parts) part.owned = owned++;
    }
    return arrays;
  }

  void put_whole(const std::string& name, const torch::Tensor& values) override {
    bool found = false;
    for (const auto& unit : units_) found = unit->put_whole(name, values) || found;
    check(found, "what is put is a parameter");
  }

  ParallelMemory memory() const override {
    ParallelMemory memory;
    for (const auto& unit : units_) {
      memory.parameters += unit->shard_bytes();
      memory.gradients += unit->shard_gradient_bytes();
    }
    memory.gathered_peak = buffers_.peak_bytes();
    return memory;
  }

  double take_wait_seconds() override { return std::exchange(waited_s_, 0.0); }

 private:
  bool saves_here() const { return mesh_.replicas().rank() == 0; }

  static size_t unit_of(int64_t layer) { return static_cast<size_t>(layer) + kFirstLayer; }

  void wait(PendingCollective& pending) {
    const double begin_s = steady_seconds();
    pending.wait();
    waited_s_ += steady_seconds() - begin_s;
  }

  // --- parameters

  void gather(size_t unit) {
    if (units_[unit]->gathering()) return;
    units_[unit]->start_gather(buffers_.take(parameter_bytes_.of(unit)), mesh_.shards());
  }

  void gather_ahead(size_t unit) {
    if (unit < units_.size()) gather(unit);
  }

  void wait_for(size_t unit) { waited_s_ += units_[unit]->finish_gather(); }

  void release(size_t unit) {
    if (!units_[unit]->gathering()) return;
    wait_for(unit);
    buffers_.give_back(units_[unit]->release());
  }

  // --- gradients

  void collect_gradients(size_t unit) {
    if (!units_[unit]->trains() || units_[unit]->collects_gradients()) return;
    units_[unit]->bind_gradients(buffers_.take(gradient_bytes_.of(unit)));
  }

  void enter_backward(size_t unit) {
    for (size_t above = units_.size() - 1; above > unit; --above) leave_backward(above);
    // One reduction runs beside the computation; the memory of the one before it is needed now.
    while (reducing_.size() > 1) finish_oldest_reduction();
    gather(unit);
    wait_for(unit);
    collect_gradients(unit);
    if (unit > kFirstLayer && expected_[unit - 1]) gather(unit - 1);
  }

  // Its gradients are complete.
  void leave_backward(size_t unit) {
    if (options_.reshard_after_forward || reduces_) release(unit);
    if (!reduces_ || !units_[unit]->collects_gradients() || is_reducing(unit)) return;
    units_[unit]->start_reduction(mesh_.shards());
    reducing_.push_back(unit);
  }

  bool is_reducing(size_t unit) const {
    return std::find(reducing_.begin(), reducing_.end(), unit) != reducing_.end();
  }

  void finish_oldest_reduction() {
    const size_t unit = reducing_.front();
    reducing_.pop_front();
    buffers_.give_back(units_[unit]->finish_reduction(waited_s_));
    if (!last_) return;
    if (mesh_.shape().replicas > 1) {
      units_[unit]->start_replica_sums(mesh_.replicas(), replica_sums_);
    } else if (copies_) {
      start_departure(unit);
    }
  }

  // --- gradients of shards on the host

  // The device has those of two units at most.
  void start_departure(size_t unit) {
    if (departing_) units_[*departing_]->finish_departure();
    units_[unit]->start_departure();
    departing_ = unit;
  }

  void bring_gradients_to_the_host() {
    for (size_t unit = 0; unit < units_.size(); ++unit) start_departure(unit);
    units_[*std::exchange(departing_, std::nullopt)]->finish_departure();
    const double begin_s = steady_seconds();
    copies_->finish();
    waited_s_ += steady_seconds() - begin_s;
  }

  ProcessMesh& mesh_;
  ShardingOptions options_;
  torch::Device device_;
  std::unique_ptr<ops::CopyStream> copies_;  // null: shards are on the device
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  BufferBytes parameter_bytes_, gradient_bytes_;
  BufferPool buffers_;
  std::vector<OwnedTensor> owned_;

  bool backward_ = false;  // the pass that runs
  bool last_ = false, reduces_ = false;
  std::vector<bool> expected_;
  std::deque<size_t> reducing_;
  std::optional<size_t> departing_;
  std::vector<PendingCollective> replica_sums_;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<ParallelParameters> shard_parameters(const std::vector<ParameterUnit>& units,
                                                     ProcessMesh& mesh,
                                                     const ShardingOptions& options,
                                                     const FillUnit& fill) {
  check(!units.empty() && !units.front().tensors.empty(), "there is a root unit");
  const torch::Device device = units.front().tensors.front().tensor->device();
  std::unique_ptr<ops::CopyStream> copies;
  if (options.offload) copies = std::make_unique<ops::CopyStream>(device);
  std::vector<std::unique_ptr<ShardedUnit>> sharded;
  for (const ParameterUnit& unit : units) {
    sharded.push_back(std::make_unique<ShardedUnit>(
        unit, options, mesh.shards().rank(), mesh.shards().world_size(), fill, copies.get()));
  }
  return std::make_unique<ShardedParameters>(std::move(sharded), std::move(copies), device, mesh,
                                             options);
}

}  // namespace sftbench
