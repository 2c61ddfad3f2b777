// Copies between a GPU and the host's memory that run beside the computation: on a stream of their
// own. On a CPU everything happens at once, in the order in which it is asked for.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace sftbench::ops {

class CopyStream {
 public:
  // Copies that were started; empty: they are done.
  struct Event;
  using Copies = std::shared_ptr<Event>;

  explicit CopyStream(torch::Device device);
  ~CopyStream();  // waits for what is under way
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Runs what `queue` queues behind all that was queued for the computation so far, and behind the
  // copies before it. Its tensors are the copies' until they are done.
  Copies start(const std::function<void()>& queue);
  // What is queued for the computation from here on comes behind the copies.
  void wait(const Copies& copies) const;
  // The host waits for all copies that were started.
  void finish() const;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;  // null on CPUs
};

// Memory of the host that a GPU copies from and to: pinned where `device` is one.
torch::Tensor empty_on_host(torch::IntArrayRef sizes, torch::Dtype dtype, torch::Device device);

}  // namespace sftbench::ops
