// How collective operations travel over Gloo: sends and receives between the ranks of one group,
// each straight from and into the caller's memory. One operation at a time, on one thread; only
// abort() may come from another.
//
// Gloo has collectives of its own. They are not used because they time out wait by wait instead of
// once per operation, cannot be stopped from outside, and (2022) do not sum bfloat16 or scatter
// what they sum. What is theirs is the order of transfers: a ring for large gathers (crosses each
// link of a cluster once), directly from rank to rank where one latency counts more.
//
// Sent per rank, of S the whole array's bytes: all_gather, all_to_all and reduce_scatter S (N-1)/N;
// broadcast S, but the last rank of the chain nothing.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

namespace sftbench {

// Thrown out of an operation that abort() has ended.
struct GlooAborted : std::runtime_error {
  GlooAborted() : std::runtime_error("aborted") {}
};

class GlooTransfers {
 public:
  // One rank's chunk of this rank's part has come from everybody: parts[r] is rank r's, `bytes`
  // long, `offset` into the part.
  using ReduceChunk =
      std::function<void(const std::vector<const void*>& parts, int64_t offset, int64_t bytes)>;

  explicit GlooTransfers(std::shared_ptr<gloo::Context> context);

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }

  // Of the next operation: `slot` must be the same on every rank, and of no other operation, for
  // its messages to meet; end_s is steady_seconds() at its deadline.
  void begin(uint64_t slot, double end_s);
  int64_t sent_bytes() const { return sent_bytes_; }  // since begin()

  // Throw gloo::Exception when a peer is gone or the deadline passes, GlooAborted.
  void all_gather(void* whole, int64_t part_bytes);  // this rank's part is in its place
  void all_to_all(void* output, const void* input, int64_t part_bytes);
  // Parts of their own sizes, one behind the other.
  void all_to_all(void* output, const void* input, const std::vector<int64_t>& output_bytes,
                  const std::vector<int64_t>& input_bytes);
  // Holds 2 (N-1) chunks of at most kChunkBytes, whatever the size of the input.
  void reduce_scatter(const void* input, int64_t part_bytes, const ReduceChunk& reduce,
                      int64_t most_chunk_bytes = kChunkBytes);
  // Both halves at once, chunk by chunk, from each rank directly to each: `reduce` puts a chunk of
  // this rank's part of `whole` in its place. For two ranks, while latency counts; among more a
  // reduce_scatter and a ring all_gather wake fewer threads, and cross each link of a cluster once.
  void all_reduce(void* whole, int64_t part_bytes, const ReduceChunk& reduce);
  void broadcast(void* data, int64_t bytes, int root);
  void barrier();

  void abort();
  // After an operation has failed, on its thread: peers that wait for this rank notice at once.
  void close();

  int64_t scratch_bytes() const { return static_cast<int64_t>(scratch_.size()); }

  static constexpr int64_t kChunkBytes = 1 << 20;
  static constexpr int64_t kSmallChunkBytes = 256 << 10;

 private:
  class Buffer;

  std::shared_ptr<gloo::Context> context_;
  uint64_t slot_ = 0;
  double end_s_ = 0;
  int64_t sent_bytes_ = 0;
  std::vector<char> scratch_;

  std::mutex mutex_;  // guards the rest
  std::set<gloo::transport::UnboundBuffer*> active_;
  bool aborted_ = false;
};

}  // namespace sftbench
