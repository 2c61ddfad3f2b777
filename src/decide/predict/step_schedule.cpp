#include "predict/step_schedule.h"

#include <algorithm>
#include <deque>
#include <vector>

namespace sftbench {
namespace {

// A communicator: operations queue up behind each other.
class Queue {
 public:
  double start(double now_s, double seconds) {
    return free_s_ = std::max(free_s_, now_s) + seconds;
  }

 private:
  double free_s_ = 0;
};

constexpr size_t kRoot = 0, kFirstLayer = 1;

class Step {
 public:
  Step(const ScheduleInput& input, const BufferBytes& buffers)
      : in_(input),
        bytes_(buffers),
        units_(static_cast<size_t>(input.layers) + 1),
        gathered_s_(units_, kNotGathered),
        collecting_(units_, false) {}

  ScheduleResult run() {
    if (in_.gathers_updates) gather_updates();
    for (int64_t i = 0; i < in_.micro_batches; ++i) {
      last_ = i + 1 == in_.micro_batches;
      reduces_ = last_ || in_.reduce_each_micro_batch;
      forward();
      backward();
    }
    for (const double done_s : replica_sums_) wait(done_s);
    result_.step_s = now_s_;
    return result_;
  }

 private:
  static constexpr double kNotGathered = -1;

  const UnitTimes& times(size_t unit) const { return unit == kRoot ? in_.root : in_.layer; }
  void wait(double done_s) { now_s_ = std::max(now_s_, done_s); }
  void compute(double seconds) {
    now_s_ += seconds;
    result_.compute_s += seconds;
  }

  double start(Queue& queue, double seconds) {
    if (in_.overlaps) return queue.start(now_s_, seconds);
    return now_s_ += seconds;
  }

  void account(double bytes) {
    held_bytes_ += bytes;
    result_.peak_bytes = std::max(result_.peak_bytes, held_bytes_);
  }
  double parameter_bytes(size_t unit) const {
    return unit == kRoot ? bytes_.root_parameters : bytes_.layer_parameters;
  }
  double gradient_bytes(size_t unit) const {
    return unit == kRoot ? bytes_.root_gradients : bytes_.layer_gradients;
  }

  // --- parameters
  void gather(size_t unit) {
    if (!in_.sharded || unit >= units_ || gathered_s_[unit] != kNotGathered) return;
    gathered_s_[unit] = start(shards_, times(unit).gather_s);
    ++(unit == kRoot ? result_.root_gathers : result_.layer_gathers);
    account(parameter_bytes(unit));
  }
  // Into the parameters themselves, in the order in which they are used.
  void gather_updates() {
    for (size_t unit = kRoot; unit < units_; ++unit) {
      gathered_s_[unit] = start(shards_, times(unit).gather_s);
      ++(unit == kRoot ? result_.root_gathers : result_.layer_gathers);
    }
  }
  void use(size_t unit) {
    gather(unit);
    if (gathered_s_[unit] != kNotGathered) wait(gathered_s_[unit]);
  }
  void release(size_t unit) {
    if (gathered_s_[unit] == kNotGathered) return;
    wait(gathered_s_[unit]);
    gathered_s_[unit] = kNotGathered;
    account(-parameter_bytes(unit));
  }

  // --- gradients
  void collect(size_t unit) {
    if (collecting_[unit]) return;
    collecting_[unit] = true;
    if (in_.sharded) account(gradient_bytes(unit));
  }
  void leave(size_t unit) {
    if (in_.sharded && (in_.reshard_after_forward || reduces_)) release(unit);
    if (!reduces_ || !collecting_[unit]) return;
    collecting_[unit] = false;
    reducing_.push_back({unit, start(shards_, times(unit).reduce_s)});
    ++(unit == kRoot ? result_.root_reductions : result_.layer_reductions);
  }
  void finish_oldest_reduction() {
    const auto [unit, done_s] = reducing_.front();
    reducing_.pop_front();
    wait(done_s);
    if (!in_.sharded) return;
    account(-gradient_bytes(unit));
    if (!last_ || times(unit).replica_sum_s <= 0) return;
    replica_sums_.push_back(start(replicas_, times(unit).replica_sum_s));
    ++(unit == kRoot ? result_.root_replica_sums : result_.layer_replica_sums);
  }

  // --- passes
  void forward() {
    use(kRoot);
    collect(kRoot);
    gather(kFirstLayer);
    for (size_t unit = kFirstLayer; unit < units_; ++unit) {
      use(unit);
      gather(unit + 1);
      compute(in_.layer.forward_s);
      if (in_.reshard_after_forward) release(unit);
    }
    if (in_.reshard_after_forward) gather(units_ - 1);
    compute(in_.root.forward_s + in_.root.backward_s);
  }
  void backward() {
    for (size_t unit = units_ - 1; unit >= kFirstLayer; --unit) {
      if (unit + 1 < units_) leave(unit + 1);
      // Only buffers of shards are needed again.
      while (in_.sharded && reducing_.size() > 1) finish_oldest_reduction();
      use(unit);
      collect(unit);
      if (unit > kFirstLayer) gather(unit - 1);
      const bool again = static_cast<int64_t>(unit - kFirstLayer) < in_.recomputed_layers;
      compute(in_.layer.backward_s + (again ? in_.recompute_s : 0));
    }
    leave(kFirstLayer);
    leave(kRoot);
    while (!reducing_.empty()) finish_oldest_reduction();
  }

  struct Reduction {
    size_t unit;
    double done_s;
  };

  const ScheduleInput& in_;
  const BufferBytes& bytes_;
  size_t units_;
  ScheduleResult result_;
  Queue shards_, replicas_;
  double now_s_ = 0;
  double held_bytes_ = 0;
  bool last_ = false, reduces_ = false;
  std::vector<double> gathered_s_;
  std::vector<bool> collecting_;
  std::deque<Reduction> reducing_;
  std::vector<double> replica_sums_;
};

}  // namespace

ScheduleResult schedule_step(const ScheduleInput& input, const BufferBytes& buffers) {
  return Step(input, buffers).run();
}

}  // namespace sftbench
