#include "phantom/graphs.h"

#include <algorithm>
#include <utility>

#include "phantom/launches.h"
#include "phantom/settings.h"

namespace sftbench::phantom {

void Graph::add(Work work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
}

void Graph::run() const {
  const std::lock_guard lock(mutex_);
  for (const Work& work : work_) work();
}

bool Capture::begin(Streams::Id stream) {
  const std::lock_guard lock(mutex_);
  if (graph_ != nullptr || stream <= 2) return false;
  streams().finish_all();
  graph_ = std::make_shared<Graph>();
  graph_->id = ++last_id_;
  streams_ = {stream};
  broken_ = false;
  if (settings().computes()) before_ = memory().contents();
  launches().begin_capture();
  streams().at(stream).record_into(graph_);
  return true;
}

void Capture::join(Streams::Id stream) {
  const std::lock_guard lock(mutex_);
  if (graph_ == nullptr || std::count(streams_.begin(), streams_.end(), stream) > 0) return;
  streams_.push_back(stream);
  streams().at(stream).record_into(graph_);
}

bool Capture::record(Streams::Id stream, Work work) {
  if (id_of(stream) == 0) return false;
  launches().count_call("cudaLaunchHostFunc");
  const std::lock_guard lock(mutex_);
  graph_->add(std::move(work));
  return true;
}

std::shared_ptr<Graph> Capture::end(Streams::Id stream) {
  const std::lock_guard lock(mutex_);
  if (graph_ == nullptr || streams_.front() != stream) return nullptr;
  for (const Streams::Id id : streams_) streams().at(id).record_into(nullptr);
  graph_->nodes = launches().end_capture();
  if (settings().computes()) memory().restore(std::exchange(before_, {}));
  const std::shared_ptr<Graph> recorded = std::exchange(graph_, nullptr);
  return broken_ ? nullptr : recorded;
}

uint64_t Capture::id_of(Streams::Id stream) const {
  const std::lock_guard lock(mutex_);
  const bool recorded = std::count(streams_.begin(), streams_.end(), stream) > 0;
  return graph_ != nullptr && recorded ? graph_->id : 0;
}

bool Capture::is_going_on() const {
  const std::lock_guard lock(mutex_);
  return graph_ != nullptr;
}

void Capture::break_off() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

Capture& capture() {
  static auto* const one = new Capture;
  return *one;
}

}  // namespace sftbench::phantom
