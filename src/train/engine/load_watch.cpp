#include "engine/load_watch.h"

#include <chrono>
#include <utility>

namespace sftbench {
namespace {

constexpr std::chrono::milliseconds kPeriod{200};

}  // namespace

LoadWatch::LoadWatch(std::vector<TrainObserver*> observers) : observers_(std::move(observers)) {
  if (observers_.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

void LoadWatch::phase(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = name;
  }
  changed_.notify_one();
}

LoadEvent LoadWatch::now() const {
  return {phase_, weights_.done, weights_.total, entries_.done, entries_.total};
}

void LoadWatch::tell(const std::stop_token& stop) {
  LoadEvent told;
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = stop.stop_requested();  // what it came to in the end is told, too
    const LoadEvent event = now();
    if (event != told) {
      lock.unlock();
      for (TrainObserver* observer : observers_) observer->on_load(event);
      lock.lock();
      told = event;
    }
    if (!last) changed_.wait_for(lock, stop, kPeriod, [&] { return phase_ != told.phase; });
  }
}

}  // namespace sftbench
