// The three matrix products of a linear layer, at the full rate of the library below (OpenBLAS in
// float32, oneDNN in bfloat16, cuBLAS on GPUs). All matrices are 2-d and of one dtype; rows may be
// farther apart than they are long. `beta` is 0 or 1 and multiplies what is in `out` already; the
// sum is rounded once. Called by a thread of a parallel region, a product runs on that thread
// alone.
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// x [M, K], w [N, K] -> x w^T [M, N] into `out`; `bias` [N] is added if defined.
void matmul_nt_into(torch::Tensor out, const torch::Tensor& x, const torch::Tensor& w,
                    const torch::Tensor& bias = {});

// scale * x w^T into `out`: in the product itself on GPUs, in a pass of its own on CPUs.
void scaled_matmul_nt_into(torch::Tensor out, const torch::Tensor& x, const torch::Tensor& w,
                           double scale);

// out = out + x w^T.
void add_matmul_nt(torch::Tensor out, const torch::Tensor& x, const torch::Tensor& w);

// y [M, N], w [N, K] -> y w [M, K]; `bias` [K] is added if defined.
torch::Tensor matmul_nn(const torch::Tensor& y, const torch::Tensor& w);
void matmul_nn_into(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& w,
                    const torch::Tensor& bias = {});

// out = out + y w, and out = scale * y w as above.
void add_matmul_nn(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& w);
void scaled_matmul_nn_into(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& w,
                           double scale);

// y [M, N], x [M, K]: out [N, K] = beta * out + y^T x. `out` may be float32 where y and x are
// narrower: the gradient of a parameter that is wider than what it is computed with.
void matmul_tn_into(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& x, double beta);

// a [n, M, K], b [n, K, N] of one dtype that kernels are made for -> the n products [n, M, N] in
// float32. Each matrix may be the transpose of a dense one.
torch::Tensor wide_batched_matmul(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace sftbench::ops
