#include "ops/gemm.h"

#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_onednn.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/matmul.h"
#include "sftbench/ops/product_dtype.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// Products of narrower matrices that are wanted in float32.
bool is_wider(const Tensor& out, const Tensor& a) {
  return out.scalar_type() != a.scalar_type();
}

// Not rounded to the matrices' dtype in between.
Tensor wide_product(const Tensor& a, const Tensor& b, torch::Dtype dtype) {
#if SFTBENCH_CUDA
  if (a.is_cuda()) return at::mm(a, b, dtype);
#endif
  return at::mm(a.to(dtype), b.to(dtype));
}

// out = a b + bias, or out += a b where beta is 1 and there is no bias. libtorch's own products of
// 16-bit matrices on CPUs keep their sums in 16 bits (1.13) or do not exist (float16), so they are
// left to GPUs and to processors and builds where they are known to be right.
void multiply_into(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, double beta) {
  if (out.numel() == 0) return;
  if (a.size(1) == 0) {
    if (beta == 0.0) bias.defined() ? out.copy_(bias.expand_as(out)) : out.zero_();
  } else if (a.is_cpu() && cpu_multiplies(a.scalar_type())) {
    cpu_multiply(out, a, b, bias, beta);
  } else if (a.is_cpu() && onednn_multiplies(a.scalar_type())) {
    onednn_multiply(out, a, b, bias, beta);
  } else if (is_wider(out, a)) {
    const Tensor product = wide_product(a, b, out.scalar_type());
    beta == 0.0 ? out.copy_(product) : out.add_(product);
  } else if (bias.defined()) {
    at::addmm_out(out, bias, a, b);
  } else if (beta == 0.0) {
    at::mm_out(out, a, b);
  } else {
    at::addmm_out(out, out, a, b);
  }
}

void multiply_scaled_into(Tensor& out, const Tensor& a, const Tensor& b, double scale) {
  if (out.is_cuda() && out.numel() > 0 && a.size(1) > 0) {
    at::addmm_out(out, out, a, b, /*beta=*/0.0, /*alpha=*/scale);
    return;
  }
  multiply_into(out, a, b, {}, 0.0);
  out.mul_(scale);
}

}  // namespace

void matmul_nt_into(Tensor out, const Tensor& x, const Tensor& w, const Tensor& bias) {
  multiply_into(out, x, w.t(), bias, 0.0);
}

void scaled_matmul_nt_into(Tensor out, const Tensor& x, const Tensor& w, double scale) {
  multiply_scaled_into(out, x, w.t(), scale);
}

void add_matmul_nt(Tensor out, const Tensor& x, const Tensor& w) {
  multiply_into(out, x, w.t(), {}, 1.0);
}

Tensor matmul_nn(const Tensor& y, const Tensor& w) {
  Tensor out = torch::empty({y.size(0), w.size(1)}, y.options());
  multiply_into(out, y, w, {}, 0.0);
  return out;
}

void matmul_nn_into(Tensor out, const Tensor& y, const Tensor& w, const Tensor& bias) {
  multiply_into(out, y, w, bias, 0.0);
}

void add_matmul_nn(Tensor out, const Tensor& y, const Tensor& w) {
  multiply_into(out, y, w, {}, 1.0);
}

void scaled_matmul_nn_into(Tensor out, const Tensor& y, const Tensor& w, double scale) {
  multiply_scaled_into(out, y, w, scale);
}

void matmul_tn_into(Tensor out, const Tensor& y, const Tensor& x, double beta) {
  multiply_into(out, y.t(), x, {}, beta);
}

Tensor batched_matmul(const Tensor& a, const Tensor& b) {
  const torch::Dtype dtype = product_dtype(a.scalar_type(), a.device());
  return at::matmul(a.to(dtype), b.to(dtype)).to(a.scalar_type());
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = torch::empty({a.size(0), b.size(1)}, a.options());
  multiply_into(out, a, b, {}, 0.0);
  return out;
}

Tensor wide_batched_matmul(const Tensor& a, const Tensor& b) {
#if SFTBENCH_CUDA
  if (a.is_cuda() && a.scalar_type() != torch::kFloat32) return at::bmm(a, b, torch::kFloat32);
#endif
  return at::bmm(a.to(torch::kFloat32), b.to(torch::kFloat32));
}

}  // namespace sftbench::ops
