// target [V, H] += rows [N, H], row i to target[ids[i]]; the rows of a token are added up in
// float32 (float64 for float64) in their order and rounded once. All contiguous.
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

using AddRowsByToken = void (*)(torch::Tensor target, const torch::Tensor& ids,
                                const torch::Tensor& rows);

void add_rows_by_token_cpu(torch::Tensor target, const torch::Tensor& ids,
                           const torch::Tensor& rows);
// In the CUDA flavor. Not for float64; target is of the rows' dtype or float32.
void add_rows_by_token_cuda(torch::Tensor target, const torch::Tensor& ids,
                            const torch::Tensor& rows);
void add_rows_by_token_aten(torch::Tensor target, const torch::Tensor& ids,
                            const torch::Tensor& rows);

}  // namespace sftbench::ops
