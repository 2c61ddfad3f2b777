#include "ops/gemm.h"

#include <torch/torch.h>

namespace sftbench::ops {
namespace {

// libtorch 1.13 multiplies no float16 matrices on CPUs: they are computed in float32 and stored in
// float16.
bool computes_in_float32(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat16 && tensor.device().is_cpu();
}

torch::Tensor operand(const torch::Tensor& tensor) {
  return computes_in_float32(tensor) ? tensor.to(torch::kFloat32) : tensor;
}

}  // namespace

torch::Tensor matmul_nt(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& bias) {
  if (computes_in_float32(x)) {
    torch::Tensor y = at::mm(operand(x), operand(w).t());
    if (bias.defined()) y += bias;
    return y.to(x.scalar_type());
  }
  return bias.defined() ? at::addmm(bias, x, w.t()) : at::mm(x, w.t());
}

void matmul_nt_into(torch::Tensor out, const torch::Tensor& x, const torch::Tensor& w) {
  if (computes_in_float32(x)) {
    out.copy_(at::mm(operand(x), operand(w).t()));
  } else {
    at::mm_out(out, x, w.t());
  }
}

torch::Tensor matmul_nn(const torch::Tensor& y, const torch::Tensor& w) {
  return at::mm(operand(y), operand(w)).to(y.scalar_type());
}

void matmul_nn_into(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& w) {
  if (computes_in_float32(y)) {
    out.copy_(at::mm(operand(y), operand(w)));
  } else {
    at::mm_out(out, y, w);
  }
}

void matmul_tn_into(torch::Tensor out, const torch::Tensor& y, const torch::Tensor& x,
                    double beta) {
  if (computes_in_float32(y)) {
    const torch::Tensor product = at::mm(operand(y).t(), operand(x));
    out.copy_(beta == 0.0 ? product : product + out);
  } else if (beta == 0.0) {
    at::mm_out(out, y.t(), x);
  } else {
    at::addmm_out(out, out, y.t(), x);
  }
}

}  // namespace sftbench::ops
