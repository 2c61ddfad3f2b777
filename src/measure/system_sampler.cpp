#include "sftbench/measure/system_sampler.h"

#include <chrono>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

SystemSampler::SystemSampler(SystemSource& source, double period_s,
                             std::function<void(const SystemReading&)> sampled)
    : source_(source), period_s_(period_s), sampled_(std::move(sampled)) {
  check(period_s > 0, "the sampling period is positive");
}

void SystemSampler::on_train_begin(const TrainBegin&) {
  sample_now();
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void SystemSampler::on_train_end(const TrainEnd&) {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  sample_now();
}

void SystemSampler::sample_now() {
  const std::lock_guard lock(mutex_);
  take();
}

void SystemSampler::take() {
  samples_.push_back(source_.read());
  if (sampled_) sampled_(samples_.back());
}

std::vector<SystemReading> SystemSampler::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

void SystemSampler::run(std::stop_token stop) {
  using Clock = std::chrono::steady_clock;
  const auto period =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(period_s_));
  std::unique_lock lock(mutex_);
  auto due = Clock::now() + period;
  while (!stop.stop_requested()) {
    // Waits for the stop request alone: the predicate never becomes true by itself.
    wake_.wait_until(lock, stop, due, [] { return false; });
    if (stop.stop_requested()) return;
    take();
    // After a suspended machine, the samples that were missed are not made up for.
    for (const auto now = Clock::now(); due <= now;) due += period;
  }
}

}  // namespace sftbench
