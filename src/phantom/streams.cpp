#include "phantom/streams.h"

#include "phantom/settings.h"

namespace sftbench::phantom {

Streams::Id Streams::create() {
  const std::lock_guard lock(mutex_);
  next_ += 16;
  queues_[next_];
  return next_;
}

void Streams::destroy(Id stream) {
  const std::lock_guard lock(mutex_);
  finish(stream);
  queues_.erase(stream);
}

bool Streams::held_back(Id stream) {
  return hold_back_ && !is_default(stream) && random_() % 4 != 0;
}

void Streams::put(Id stream, Work work) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_[stream];
  queue.held.push_back(std::move(work));
  ++queue.put;
  if (!held_back(stream)) run(stream, queue.put);
}

void Streams::run(Id stream, uint64_t until) {
  Queue& queue = queues_[stream];
  while (queue.done < until && !queue.held.empty()) {
    const Work work = std::move(queue.held.front());
    queue.held.pop_front();
    ++queue.done;
    work();
  }
}

void Streams::record(Event& event, Id stream) {
  const std::lock_guard lock(mutex_);
  event = {stream, queues_[stream].put, std::chrono::steady_clock::now()};
}

void Streams::wait(Id stream, const Event& event) {
  put(stream, [this, event] { finish(event); });
}

void Streams::finish(const Event& event) {
  const std::lock_guard lock(mutex_);
  run(event.stream, event.after);
}

void Streams::finish(Id stream) {
  const std::lock_guard lock(mutex_);
  run(stream, queues_[stream].put);
}

void Streams::finish_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, queue] : queues_) run(stream, queue.put);
}

bool Streams::happened(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (queues_[event.stream].done >= event.after) return true;
  if (random_() % 2 == 0) return false;
  run(event.stream, event.after);
  return true;
}

Streams& streams() {
  static auto* const one = new Streams(settings().seed);
  return *one;
}

}  // namespace sftbench::phantom
