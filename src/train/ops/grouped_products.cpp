#include "ops/grouped_products.h"

#include <stdexcept>

#include "sftbench/base/torch.h"

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace sftbench::ops {

using torch::Tensor;

namespace {

constexpr int64_t kAlignment_bytes = 16;
constexpr int64_t kMostExperts = 1023;

#if SFTBENCH_CUDA

int major_capability(const Tensor& tensor) {
  return tensor.is_cuda() ? at::cuda::getDeviceProperties(tensor.get_device())->major : 0;
}

Tensor grouped(const Tensor& left, const Tensor& right, const Tensor& ends) {
  return at::_grouped_mm(left, right, ends);
}

#else

int major_capability(const Tensor&) {
  return 0;
}

Tensor grouped(const Tensor&, const Tensor&, const Tensor&) {
  throw std::logic_error("grouped products: libtorch 1.13 has none");
}

#endif

bool is_aligned(const Tensor& tensor) {
  const auto aligned = [](uint64_t bytes) { return bytes % kAlignment_bytes == 0; };
  return tensor.is_contiguous() && tensor.scalar_type() == torch::kBFloat16 &&
         aligned(reinterpret_cast<uint64_t>(tensor.data_ptr())) &&
         aligned(static_cast<uint64_t>(tensor.size(-1)) * tensor.element_size());
}

}  // namespace

bool has_grouped_products(const Tensor& rows, const Tensor& matrices) {
  const int capability = major_capability(rows);
  const int64_t other_width_bytes =
      matrices.size(1) * static_cast<int64_t>(matrices.element_size());
  return (capability == 9 || capability == 10) && rows.size(0) > 0 &&
         matrices.size(0) <= kMostExperts && is_aligned(rows) && is_aligned(matrices) &&
         other_width_bytes % kAlignment_bytes == 0;
}

Tensor ends_of_experts(const std::vector<int64_t>& offsets, const torch::Device& device) {
  return torch::tensor(at::IntArrayRef(offsets).slice(1), torch::kInt32).to(device);
}

Tensor grouped_rows(const Tensor& rows, const Tensor& matrices, const Tensor& ends) {
  return grouped(rows, matrices, ends);
}

Tensor grouped_matrices(const Tensor& left, const Tensor& right, const Tensor& ends) {
  return grouped(left.t(), right, ends);
}

#if SFTBENCH_CUDA
void add_expert_bias(const Tensor& y, const Tensor& bias, const Tensor& ends) {
  add_expert_bias_cuda(y, bias.contiguous(), ends);
}
#else
void add_expert_bias(const Tensor&, const Tensor&, const Tensor&) {
  throw std::logic_error("add_expert_bias: only after grouped products");
}
#endif

}  // namespace sftbench::ops
