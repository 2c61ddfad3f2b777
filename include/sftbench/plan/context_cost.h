// What rows that ranks divide cost beside their computation (model/context_attention.h,
// model/context_mamba.h): bytes that travel, and buffers.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// Of a micro-batch and the mean layer, over the ranks of a group.
struct ContextCost {
  int64_t ranks = 1;
  // That a rank sends in a forward pass, recomputed ones included, and in a backward pass.
  double forward_bytes = 0, backward_bytes = 0;
  double attention_flops = 0;  // of a forward pass of a rank, which the ring travels beside
  // That attention holds beside activations, in a forward and in a backward pass, at most.
  double forward_buffers = 0, backward_buffers = 0;
};

// What is wrong with rows divided among so many of the ranks; empty: nothing.
std::string divided_rows_refusal(int64_t ranks, int64_t context_ranks);

// Positions of a row that a rank has: all, where rows are whole.
int64_t own_length(int64_t row_length, const TrainingJob& job);

// computed_bytes: of a value in a product. Zeros where rows are whole.
ContextCost context_cost(const TrainingJob& job, double computed_bytes);

}  // namespace sftbench
