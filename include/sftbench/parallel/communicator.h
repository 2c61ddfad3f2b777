// Collective operations on tensors among a group of ranks. Every rank of the group starts the same
// operations in the same order. Each starts once the work that the caller's stream holds is done
// (on CPUs: at once), runs beside it, one after the other as on a CUDA stream, and is waited for.
// Until then its tensors are the operation's.
//
// Tensors are contiguous, on the communicator's device, of any dtype; n is any number, 0 included.
// Sums of bfloat16 and float16 are accumulated in float32 and rounded once, in the same rank order
// on every rank. (NCCL: rounded at every hop, unless a reduce-scatter's output is float32; it then
// travels as float32, too.) Source of names and meanings: NCCL.
//
// A rank sends, in bytes, of S the size of the whole array and N the number of ranks:
//   all-gather, reduce-scatter, all-to-all  S (N-1)/N
//   all-to-all of unequal parts             its parts for other ranks
//   all-reduce                              2 S (N-1)/N, of S padded to a multiple of N elements;
//                                           over Gloo up to 4096 bytes at once: S (N-1)
//   broadcast                               S, in a chain from the root; its last rank nothing
//   barrier                                 nothing but messages without content
// and counters() counts what it really sent (NCCL does not tell: what these formulas give).
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sftbench {

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kBarrier };
inline constexpr size_t kCollectives = 6;
std::string to_string(Collective collective);  // "all_gather"

struct CollectiveCounters {
  int64_t calls = 0;
  int64_t sent_bytes = 0;
  double seconds = 0;  // between an operation's start and its end, on the communicator's own clock
};
using CommunicationCounters = std::array<CollectiveCounters, kCollectives>;  // by Collective

// The maximum with a value that is not a number is that over Gloo. NCCL may lose it (fmaxf).
enum class Reduction { kSum, kMax };

// What ran when, by steady_seconds().
struct CollectiveSpan {
  Collective collective;
  int64_t bytes;  // of the whole array; where parts are unequal, that this rank sends
  double begin_s;
  double end_s;
};

// An operation that was started. Movable, not copyable; one that is dropped is waited for.
class PendingCollective {
 public:
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual void wait() = 0;
  };

  PendingCollective() = default;
  explicit PendingCollective(std::unique_ptr<Operation> operation)
      : operation_(std::move(operation)) {}
  PendingCollective(PendingCollective&&) noexcept = default;
  PendingCollective& operator=(PendingCollective&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~PendingCollective();

  // The caller's stream sees the result from here on; on CPUs the result is there. Nothing if it
  // was waited for already. RunError(kNccl) naming operation and group when it failed or its
  // deadline passed.
  void wait();

  bool pending() const { return operation_ != nullptr; }

 private:
  std::unique_ptr<Operation> operation_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Of this group, not of the world.
  virtual int64_t rank() const = 0;
  virtual int64_t world_size() const = 0;

  // tensor := reduction over ranks of tensor, in place.
  [[nodiscard]] virtual PendingCollective all_reduce(const torch::Tensor& tensor,
                                                     Reduction reduction) = 0;
  // output [N, n] := the ranks' inputs [n], in rank order. input may be this rank's part of output.
  [[nodiscard]] virtual PendingCollective all_gather(const torch::Tensor& output,
                                                     const torch::Tensor& input) = 0;
  // output [n] := this rank's part of the sum over ranks of input [N, n]. output may be this rank's
  // part of input. input is clobbered. output's dtype is input's, or float32.
  [[nodiscard]] virtual PendingCollective reduce_scatter(const torch::Tensor& output,
                                                         const torch::Tensor& input) = 0;
  // tensor := root's tensor.
  [[nodiscard]] virtual PendingCollective broadcast(const torch::Tensor& tensor, int64_t root) = 0;
  // output [N, n] := part `rank()` of every rank's input [N, n], in rank order.
  [[nodiscard]] virtual PendingCollective all_to_all(const torch::Tensor& output,
                                                     const torch::Tensor& input) = 0;
  // The same with parts of any sizes, which lie one behind the other: input_parts[r] elements go to
  // rank r, output_parts[r] come from it. Each pair of ranks agrees on what it exchanges.
  [[nodiscard]] virtual PendingCollective all_to_all(const torch::Tensor& output,
                                                     const torch::Tensor& input,
                                                     const std::vector<int64_t>& output_parts,
                                                     const std::vector<int64_t>& input_parts) = 0;
  // Returns when every rank has called it and all operations before it are done.
  virtual void barrier() = 0;

  // Ends what is under way with an error that says `why`, from any thread; nothing can be started
  // afterwards.
  virtual void abort(const std::string& why) = 0;

  // Tells `listener` of every operation that ends, from a thread of the communicator's own; on GPUs
  // once its end is seen, at the latest by counters(). Set it before the first operation.
  virtual void on_end(std::function<void(const CollectiveSpan&)> /*listener*/) {}

  // Of operations that have ended; on GPUs, of those whose end was observed.
  virtual CommunicationCounters counters() const = 0;

  // Seconds in which the caller's stream stood still for operations that it waited for, since the
  // last call. 0 where wait() holds the host instead, whose caller can measure it.
  virtual double take_wait_seconds() { return 0; }

  void all_reduce_now(const torch::Tensor& tensor, Reduction reduction = Reduction::kSum) {
    all_reduce(tensor, reduction).wait();
  }
};

// A group of one: every sum has one term. Counts calls; sends nothing.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace sftbench
