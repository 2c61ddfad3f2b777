// One call of a collective operation as messages, counters and checks see it: the same for every
// implementation, so that a program that works on one of them breaks no promise of another.
#pragma once

#include <torch/types.h>

#include <string>

#include "sftbench/base/error.h"
#include "sftbench/parallel/communicator.h"

namespace sftbench {

struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  // Of the whole array: a gather's output, a scatter's input. The same on every rank: 0 where parts
  // are unequal, since no rank knows them all.
  int64_t bytes = 0;
  int64_t sequence = 0;     // 1-based, of the communicator
  int64_t sent_bytes = -1;  // of this rank, where parts are unequal; -1: as the formula says

  int64_t known_bytes() const { return sent_bytes < 0 ? bytes : sent_bytes; }
};

// "all_gather #12 of group shards (4 ranks, 1048576 bytes)"
std::string describe(const CollectiveCall& call, const std::string& group, int64_t ranks);

// What a deadline that has passed means: "... was not done within 10 s on rank 2: ...".
std::string overdue_text(const std::string& described, double timeout_s, int rank);

// What a rank of N sends in an operation by communicator.h's formulas; rank is counted from a
// broadcast's root.
int64_t sent_bytes_by_formula(const CollectiveCall& call, int64_t rank, int64_t ranks);

// Checks what the operation's contract asks of its tensors (check(): a caller that breaks it is a
// bug; a dtype that is not summed: RunError(kUnsupported)) and returns the call, not numbered yet.
CollectiveCall all_reduce_call(const torch::Tensor& tensor);
CollectiveCall all_gather_call(const torch::Tensor& output, const torch::Tensor& input,
                               int64_t ranks);
CollectiveCall reduce_scatter_call(const torch::Tensor& output, const torch::Tensor& input,
                                   int64_t ranks);
CollectiveCall broadcast_call(const torch::Tensor& tensor, int64_t root, int64_t ranks);
CollectiveCall all_to_all_call(const torch::Tensor& output, const torch::Tensor& input,
                               int64_t ranks);
CollectiveCall all_to_all_call(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts, int64_t rank,
                               int64_t ranks);

// Whether `part` is the `index`-th of `ranks` equal parts of `whole`: the operation is in place.
bool is_part_of(const torch::Tensor& part, const torch::Tensor& whole, int64_t index);

}  // namespace sftbench
