#include "phantom/host_view.h"

#include <cstring>

namespace sftbench::phantom {

using torch::Tensor;

Tensor host_view(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  const auto options = tensor.options().device(torch::kCPU).requires_grad(false);
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

Tensor to_device(const Tensor& host, torch::Device device) {
  if (!host.defined() || !host.is_cpu()) return host;
  const Tensor dense = host.is_non_overlapping_and_dense() ? host : host.contiguous();
  const Tensor result =
      at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(device));
  if (dense.numel() > 0) std::memcpy(result.data_ptr(), dense.data_ptr(), dense.nbytes());
  return result;
}

void take_over(const Tensor& host, const Tensor& tensor) {
  if (host.sizes() == tensor.sizes()) return;
  tensor.resize_(host.sizes());
  host_view(tensor).copy_(host);
}

}  // namespace sftbench::phantom
