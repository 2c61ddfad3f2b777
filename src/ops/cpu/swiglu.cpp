#include "ops/cpu/dispatch.h"
#include "ops/swiglu_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kSwigluGrainNumel = 8192;

Tensor forward(const Tensor& gate, const Tensor& up) {
  const CpuKernels& kernels = cpu_kernels(gate);
  Tensor y = torch::empty_like(gate);
  parallel_elements(gate.numel(), kSwigluGrainNumel, [&](int64_t begin, int64_t end) {
    kernels.swiglu_forward(element(gate, begin), element(up, begin), element(y, begin),
                           end - begin);
  });
  return y;
}

std::pair<Tensor, Tensor> backward(const Tensor& y_gradient, const Tensor& gate, const Tensor& up) {
  const CpuKernels& kernels = cpu_kernels(gate);
  Tensor d_gate = torch::empty_like(gate), d_up = torch::empty_like(up);
  parallel_elements(gate.numel(), kSwigluGrainNumel, [&](int64_t begin, int64_t end) {
    kernels.swiglu_backward(element(y_gradient, begin), element(gate, begin), element(up, begin),
                            element(d_gate, begin), element(d_up, begin), end - begin);
  });
  return {d_gate, d_up};
}

}  // namespace

const SwigluImpl kSwigluCpu{forward, backward};

}  // namespace sftbench::ops
