// The arithmetic of reductions on CPUs: the ranks' arrays are added in rank order, whoever adds
// them, so that all ranks get the same bits. bfloat16 and float16 are added in float32 and rounded
// once; float32 and float64 in their own type; integers modulo their size.
#pragma once

#include <torch/types.h>

#include <vector>

#include "sftbench/parallel/communicator.h"

namespace sftbench {

// output[i] := reduction over r of parts[r][i], i < count. Parts have dtype `from`; output has that
// one or float32. output may be one of the parts.
void reduce_in_rank_order(const std::vector<const void*>& parts, int64_t count,
                          torch::ScalarType from, void* output, torch::ScalarType to,
                          Reduction reduction);

}  // namespace sftbench
