// SwiGLU on GPUs: each byte is read or written once, the arithmetic is float32.
#include "ops/cuda/pack.h"
#include "ops/cuda/sigmoid.h"
#include "ops/swiglu_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kSwigluThreads = 256;

template <class T, int kCount>
__global__ void __launch_bounds__(kSwigluThreads)
    swiglu_forward(const T* gate, const T* up, T* y, int64_t packs) {
  const int64_t pack = int64_t{blockIdx.x} * kSwigluThreads + threadIdx.x;
  if (pack >= packs) return;
  const auto g_pack = load_pack<kCount>(gate + pack * kCount);
  const auto u_pack = load_pack<kCount>(up + pack * kCount);
  Pack<T, kCount> y_pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto g = static_cast<float>(g_pack.value[i]), u = static_cast<float>(u_pack.value[i]);
    y_pack.value[i] = static_cast<T>(g * sigmoid(g) * u);
  }
  store_pack(y + pack * kCount, y_pack);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kSwigluThreads)
    swiglu_backward(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, int64_t packs) {
  const int64_t pack = int64_t{blockIdx.x} * kSwigluThreads + threadIdx.x;
  if (pack >= packs) return;
  const auto d_pack = load_pack<kCount>(dy + pack * kCount);
  const auto g_pack = load_pack<kCount>(gate + pack * kCount);
  const auto u_pack = load_pack<kCount>(up + pack * kCount);
  Pack<T, kCount> d_gate_pack, d_up_pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto d = static_cast<float>(d_pack.value[i]), g = static_cast<float>(g_pack.value[i]);
    const auto u = static_cast<float>(u_pack.value[i]);
    const float s = sigmoid(g);
    d_gate_pack.value[i] = static_cast<T>(d * u * s * (1.0f + g * (1.0f - s)));
    d_up_pack.value[i] = static_cast<T>(d * g * s);
  }
  store_pack(d_gate + pack * kCount, d_gate_pack);
  store_pack(d_up + pack * kCount, d_up_pack);
}

LaunchShape swiglu_shape(int64_t packs) {
  return {static_cast<unsigned>((packs + kSwigluThreads - 1) / kSwigluThreads), kSwigluThreads};
}

template <class T, int kCount>
void launch_forward(const Tensor& gate, const Tensor& up, const Tensor& y) {
  const int64_t packs = gate.numel() / kCount;
  launch_kernel(swiglu_forward<T, kCount>, swiglu_shape(packs), gate.data_ptr<T>(),
                up.data_ptr<T>(), y.data_ptr<T>(), packs);
}

template <class T, int kCount>
void launch_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                     const Tensor& d_up) {
  const int64_t packs = gate.numel() / kCount;
  launch_kernel(swiglu_backward<T, kCount>, swiglu_shape(packs), dy.data_ptr<T>(),
                gate.data_ptr<T>(), up.data_ptr<T>(), d_gate.data_ptr<T>(), d_up.data_ptr<T>(),
                packs);
}

Tensor forward(const Tensor& gate, const Tensor& up) {
  const DeviceScope scope(gate);
  Tensor y = torch::empty_like(gate);
  if (gate.numel() == 0) return y;
  for_kernel_type(gate, [&](auto zero) {
    using T = decltype(zero);
    const bool packs = takes_packs<T>(gate.numel(), {gate.data_ptr(), up.data_ptr(), y.data_ptr()});
    packs ? launch_forward<T, kPackCount<T>>(gate, up, y) : launch_forward<T, 1>(gate, up, y);
  });
  return y;
}

std::pair<Tensor, Tensor> backward(const Tensor& y_gradient, const Tensor& gate, const Tensor& up) {
  const DeviceScope scope(gate);
  Tensor d_gate = torch::empty_like(gate), d_up = torch::empty_like(up);
  if (gate.numel() == 0) return {d_gate, d_up};
  for_kernel_type(gate, [&](auto zero) {
    using T = decltype(zero);
    const bool packs =
        takes_packs<T>(gate.numel(), {y_gradient.data_ptr(), gate.data_ptr(), up.data_ptr(),
                                      d_gate.data_ptr(), d_up.data_ptr()});
    packs ? launch_backward<T, kPackCount<T>>(y_gradient, gate, up, d_gate, d_up)
          : launch_backward<T, 1>(y_gradient, gate, up, d_gate, d_up);
  });
  return {d_gate, d_up};
}

}  // namespace

const SwigluImpl kSwigluCuda{forward, backward};

}  // namespace sftbench::ops
