#include "ops/cpu/dispatch.h"
#include "ops/cross_entropy_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

Tensor cross_entropy_cpu(Tensor& logits, const Tensor& labels, double logit_scale,
                         double gradient_scale, const Tensor& /*divisor*/) {
  const CpuKernels& kernels = cpu_kernels(logits);
  const int64_t rows = logits.size(0), width = logits.size(1);
  const int64_t* label = labels.data_ptr<int64_t>();
  std::vector<float> losses(rows);
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      losses[row] = kernels.cross_entropy(element(logits, row * width), width, label[row],
                                          static_cast<float>(logit_scale),
                                          static_cast<float>(gradient_scale));
    }
  });
  double total = 0.0;
  for (const float loss : losses) total += loss;
  return torch::full({}, total, torch::kFloat64);
}

}  // namespace sftbench::ops
