#include "phantom/device_only.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include "phantom/host_view.h"
#include "phantom/recorded.h"

namespace sftbench::phantom {

using torch::Tensor;

at::Generator host_generator(const c10::optional<at::Generator>& given) {
  at::Generator generator =
      given && given->defined()
          ? *given
          : at::globalContext().defaultGenerator({c10::kCUDA, at::cuda::current_device()});
  if (generator.device().is_cpu()) return generator;
  const std::lock_guard lock(generator.mutex());
  auto* device = at::check_generator<at::CUDAGeneratorImpl>(generator);
  const auto [seed, offset] = device->philox_engine_inputs(4);
  at::Generator host = at::globalContext().defaultGenerator(c10::kCPU).clone();
  host.set_current_seed(seed * 1'000'003 + offset);
  return host;
}

namespace {

// A device's softmax of half precision gives float32 where it is asked to. A CPU's has to be given
// it.
using Softmax = Tensor (*)(const Tensor&, int64_t, bool);

template <Softmax softmax>
Tensor widening(const Tensor& input, int64_t dim, bool half_to_float) {
  const Tensor host = host_view(input);
  return to_device(softmax(half_to_float ? host.to(torch::kFloat32) : host, dim, false),
                   input.device());
}

using SoftmaxBackward = Tensor (*)(const Tensor&, const Tensor&, int64_t, torch::ScalarType);

template <SoftmaxBackward backward>
Tensor narrowing(const Tensor& grad, const Tensor& output, int64_t dim,
                 torch::ScalarType input_dtype) {
  const Tensor result = backward(host_view(grad), host_view(output), dim, grad.scalar_type());
  return to_device(result.to(input_dtype), grad.device());
}

Tensor wide_product(const Tensor& a, const Tensor& b, torch::ScalarType dtype) {
  return to_device(at::matmul(host_view(a).to(dtype), host_view(b).to(dtype)), a.device());
}

// Summed in float32 and rounded once, as on a device.
Tensor embedding_backward(const Tensor& grad, const Tensor& ids, int64_t rows, int64_t padding,
                          bool by_frequency) {
  const Tensor host = host_view(grad);
  const auto wide = host.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const Tensor sum =
      at::embedding_dense_backward(host.to(wide), host_view(ids), rows, padding, by_frequency);
  return to_device(sum.to(host.scalar_type()), grad.device());
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, c10::optional<bool>) {
  const Tensor host = host_view(input);
  const Tensor kept = at::rand(host.sizes(), host_generator({}), at::kFloat) >= p;
  return {to_device(host * kept / (1 - p), input.device()), to_device(kept, input.device())};
}

}  // namespace

void register_device_only(torch::Library& library) {
  OnDevice<&widening<&at::_softmax>>::implement(library, "_softmax");
  OnDevice<&widening<&at::_log_softmax>>::implement(library, "_log_softmax");
  OnDevice<&narrowing<&at::_softmax_backward_data>>::implement(library, "_softmax_backward_data");
  OnDevice<&narrowing<&at::_log_softmax_backward_data>>::implement(library,
                                                                   "_log_softmax_backward_data");
  OnDevice<&dropout>::implement(library, "native_dropout");
  OnDevice<&wide_product>::implement(library, "mm.dtype");
  OnDevice<&wide_product>::implement(library, "bmm.dtype");
  OnDevice<&embedding_backward>::implement(library, "embedding_dense_backward");
}

}  // namespace sftbench::phantom
