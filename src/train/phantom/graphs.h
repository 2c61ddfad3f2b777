// Graphs: work of streams that is recorded once and repeated by one launch. What a device would
// only record is done as well, because operators of the host learn the shapes of their results by
// computing them. The end of the capture takes that back: memory is as it was, and what was
// allocated meanwhile is poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "phantom/memory.h"
#include "phantom/streams.h"

namespace sftbench::phantom {

class Graph {
 public:
  void add(Work work);
  // In the order of the capture, whatever streams it came from.
  void run() const;

  uint64_t id = 0;
  int64_t nodes = 0;  // kernels, products, copies and calls of the host

 private:
  mutable std::mutex mutex_;
  std::vector<Work> work_;
};

// The one capture that a process may have at a time.
class Capture {
 public:
  // False where one is going on, or of a default stream.
  bool begin(Streams::Id stream);
  // `stream` waits for an event of the capture: its work belongs to it from now on.
  void join(Streams::Id stream);
  // `work` as a node that is not done before the first launch. False where `stream` is not
  // captured.
  bool record(Streams::Id stream, Work work);
  // What was recorded since. Null where `stream` began none, or where the capture broke.
  std::shared_ptr<Graph> end(Streams::Id stream);

  // Whether work of this stream is recorded; 0: of any.
  uint64_t id_of(Streams::Id stream) const;
  bool is_going_on() const;
  // A call that cannot be recorded: end() will give nothing.
  void break_off();

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Graph> graph_;
  std::vector<Streams::Id> streams_;  // the first of them began it
  Memory::Contents before_;
  bool broken_ = false;
  uint64_t last_id_ = 0;
};

Capture& capture();

}  // namespace sftbench::phantom
