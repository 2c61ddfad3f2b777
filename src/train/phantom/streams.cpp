#include "phantom/streams.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "phantom/graphs.h"
#include "phantom/settings.h"

namespace sftbench::phantom {

bool Event::happened() const {
  const std::lock_guard lock(mutex_);
  return !pending_;
}

std::chrono::steady_clock::time_point Event::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

bool Event::is_of_capture() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

void Stream::record_into(std::shared_ptr<Graph> graph) {
  const std::lock_guard lock(mutex_);
  graph_ = std::move(graph);
}

void Stream::put(Work work, When when) {
  if (graph_ != nullptr) {
    work();
    return graph_->add(std::move(work));
  }
  if (is_default_) return work();
  const bool held_back = seed_ != 0 && when == When::kMayBeHeldBack && random_() % 2 == 0;
  push(std::move(work), held_back);
}

void Stream::push(Work work, bool held_back) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(work), held_back});
  ++put_;
  changed_.notify_all();
  if (started_) return;
  started_ = true;
  std::thread([self = shared_from_this()] { self->run(); }).detach();
}

// Work behind a piece that somebody wants lets it begin, too: a stream is in order.
bool Stream::may_begin() const {
  return !entries_.empty() && (!entries_.front().held_back || wanted_ > done_);
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return may_begin(); });
    const Work work = std::move(entries_.front().work);
    lock.unlock();
    work();
    lock.lock();
    entries_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

void Stream::record(const std::shared_ptr<Event>& event) {
  const auto happen = [event] {
    const std::lock_guard lock(event->mutex_);
    event->pending_ = event->captured_ = false;
    event->time_ = std::chrono::steady_clock::now();
    event->reached_.notify_all();
  };
  if (graph_ != nullptr) {
    const std::lock_guard lock(event->mutex_);
    event->captured_ = true;
    return;
  }
  if (is_default_) return happen();
  {
    const std::lock_guard lock(event->mutex_);
    event->pending_ = true;
    event->captured_ = false;
    event->stream_ = weak_from_this();
    const std::lock_guard own(mutex_);
    event->position_ = put_ + 1;
  }
  push(happen, /*held_back=*/false);
}

void Stream::want(uint64_t position) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::max(wanted_, position);
  changed_.notify_all();
}

void Stream::wait(const std::shared_ptr<Event>& event) {
  put([event] { finish(*event); }, When::kSoon);
}

void Stream::finish(Event& event) {
  std::unique_lock lock(event.mutex_);
  if (!event.pending_) return;
  const auto stream = event.stream_.lock();
  const uint64_t position = event.position_;
  lock.unlock();
  if (stream != nullptr) stream->want(position);
  lock.lock();
  event.reached_.wait(lock, [&] { return !event.pending_; });
}

void Stream::finish() {
  std::unique_lock lock(mutex_);
  const uint64_t position = put_;
  wanted_ = std::max(wanted_, position);
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ >= position; });
}

// Who asks wants to know when it ends: nothing stays held back for ever.
bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  wanted_ = put_;
  changed_.notify_all();
  return done_ == put_;
}

Streams::Id Streams::create() {
  const std::lock_guard lock(mutex_);
  next_ += 16;
  const uint64_t seed = settings().seed == 0 ? 0 : settings().seed * 7919 + next_;
  streams_[next_] = std::make_shared<Stream>(/*is_default=*/false, seed);
  return next_;
}

void Streams::destroy(Id id) {
  at(id).finish();
  const std::lock_guard lock(mutex_);
  streams_.erase(id);
}

std::shared_ptr<Stream> Streams::find(Id id) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Stream>& stream = streams_[id <= 2 ? 0 : id];
  if (stream == nullptr) stream = std::make_shared<Stream>(/*is_default=*/true, 0);
  return stream;
}

Stream& Streams::at(Id id) {
  return *find(id);
}

void Streams::finish_all() {
  std::vector<std::shared_ptr<Stream>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, stream] : streams_) all.push_back(stream);
  }
  for (const auto& stream : all) stream->finish();
}

// A forked process has the streams of its parent, and none of their threads.
void Streams::start_anew() {
  for (auto& [id, stream] : streams_) {
    new std::shared_ptr<Stream>(
        stream);  // kept: its condition may have waiters that never come back
    stream = std::make_shared<Stream>(id == 0, stream->seed());
  }
}

// Never destroyed: its threads may outlive main().
Streams& streams() {
  static auto* const one = [] {
    auto* const made = new Streams;
    ::pthread_atfork(nullptr, nullptr, [] { streams().start_anew(); });
    return made;
  }();
  return *one;
}

}  // namespace sftbench::phantom
