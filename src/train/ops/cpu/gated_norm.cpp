#include "ops/cpu/dispatch.h"
#include "ops/gated_norm_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kGatedNormRows = 16;  // of a task, whose weight gradients are summed up

int64_t row_numel(const Tensor& y) {
  return y.size(1) * y.size(2);
}

GatedNormRows rows_of(const Tensor& y, const Tensor& gate, const Tensor& weight, const Tensor& rstd,
                      int64_t first, int64_t count) {
  return {.y = element(y, first * row_numel(y)),
          .gate = element(gate, first * gate.stride(0)),
          .gate_stride = gate.stride(0),
          .weight = weight.data_ptr<float>(),
          .rstd = rstd.data_ptr<float>() + first * y.size(1),
          .rows = count,
          .groups = y.size(1),
          .width = y.size(2)};
}

// task(its index, first row, rows)
template <class Task>
void for_each_block(int64_t rows, const Task& task) {
  const int64_t blocks = (rows + kGatedNormRows - 1) / kGatedNormRows;
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kGatedNormRows;
      task(block, first, std::min(kGatedNormRows, rows - first));
    }
  });
}

void forward(const Tensor& y, const Tensor& gate, const Tensor& weight, double epsilon, Tensor& out,
             Tensor& rstd) {
  const CpuKernels& kernels = cpu_kernels(y);
  for_each_block(y.size(0), [&](int64_t, int64_t first, int64_t count) {
    kernels.gated_norm_forward(rows_of(y, gate, weight, rstd, first, count),
                               static_cast<float>(epsilon), element(out, first * row_numel(y)));
  });
}

GatedNormGradients backward(const Tensor& out_gradient, const Tensor& y, const Tensor& gate,
                            const Tensor& weight, const Tensor& rstd) {
  const CpuKernels& kernels = cpu_kernels(y);
  const int64_t blocks = (y.size(0) + kGatedNormRows - 1) / kGatedNormRows;
  const Tensor dy = torch::empty(y.sizes(), y.options()), d_gate = torch::empty_like(dy);
  // By block of rows, then over the blocks: the same sum for any number of threads.
  const Tensor partial = torch::zeros({blocks, y.size(1), y.size(2)}, weight.options());
  for_each_block(y.size(0), [&](int64_t block, int64_t first, int64_t count) {
    const int64_t at = first * row_numel(y);
    kernels.gated_norm_backward(rows_of(y, gate, weight, rstd, first, count),
                                element(out_gradient, at), element(dy, at), element(d_gate, at),
                                partial.data_ptr<float>() + block * row_numel(y));
  });
  return {dy, d_gate, partial.sum(0)};
}

}  // namespace

const GatedNormImpl kGatedNormCpu{forward, backward};

}  // namespace sftbench::ops
