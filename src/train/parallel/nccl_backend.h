// What NcclCommunicator needs of NCCL and of CUDA's streams, and no more: so that the order of its
// work, the lifetime of its tensors, its deadlines and its errors are tested where no GPU is.
//
// There is one communication stream. Calls are made by one thread at a time, but for error(), which
// may be called beside a stream's waits, never beside an operation.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

#include "sftbench/parallel/communicator.h"

namespace sftbench {

class NcclBackend {
 public:
  // A point on the communication stream. From any thread.
  class Event {
   public:
    virtual ~Event() = default;
    virtual bool reached() = 0;
  };

  virtual ~NcclBackend() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world_size() const = 0;

  // What is put on the communication stream from here on waits for what the caller's stream holds.
  virtual void wait_for_caller() = 0;
  // What the caller puts on its stream from here on waits for the event.
  virtual void make_caller_wait(Event& event) = 0;
  virtual std::unique_ptr<Event> record() = 0;
  virtual std::unique_ptr<Event> record_of_caller() = 0;  // on the caller's stream
  // Both reached; less than 0 where `end` was reached first.
  virtual double seconds(Event& begin, Event& end) = 0;
  // When an event that was reached was, by steady_seconds(): to about 10 us, for timelines.
  virtual double time_of(Event& event) = 0;
  // Runs with the communication stream as the current one.
  virtual void on_stream(const std::function<void()>& run) = 0;

  // Put an operation on the communication stream. RunError(kNccl) when NCCL refuses, when it has
  // not taken it before the deadline, or when it is given up meanwhile.
  virtual void all_reduce(const torch::Tensor& tensor, Reduction reduction) = 0;
  virtual void all_gather(const torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void reduce_scatter(const torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void broadcast(const torch::Tensor& tensor, int64_t root) = 0;
  virtual void all_to_all(const torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                          const std::vector<int64_t>& output_parts,
                          const std::vector<int64_t>& input_parts) = 0;
  virtual void barrier() = 0;

  // Asked while NCCL has not taken an operation yet, which can last as long as connecting.
  void give_up_when(std::function<bool()> asked) { give_up_ = std::move(asked); }

  // What has gone wrong with operations that are under way; empty while nothing has and after
  // abort(), which the thread that watches can come behind.
  virtual std::string error() = 0;
  // Ends operations that are under way: their kernels leave the stream. Once.
  virtual void abort() = 0;

 protected:
  std::function<bool()> give_up_ = [] { return false; };
};

}  // namespace sftbench
