// SwiGLU and GEGLU on GPUs: each byte is read or written once, the arithmetic is float32.
#include "ops/cuda/pack.h"
#include "ops/cuda/sigmoid.h"
#include "ops/swiglu_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kSwigluThreads = 256;

// Elements of contiguous rows come in packs. Rows of gate and up have `gap` elements between them.
struct SwigluRows {
  int64_t packs, row_packs, gap;

  // Of a pack in gate and up.
  template <int kCount>
  __device__ __forceinline__ int64_t place(int64_t pack) const {
    return pack * kCount + (gap == 0 ? 0 : pack / row_packs * gap);
  }
};

// Both gates are x sigmoid(argument(x)); slope: of the argument.
struct SiluGate {
  static __device__ __forceinline__ float argument(float x) { return x; }
  static __device__ __forceinline__ float slope(float) { return 1.0f; }
};

struct GeluTanhGate {
  static constexpr float kLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = kLinear * 0.044715f;
  static __device__ __forceinline__ float argument(float x) {
    return x * (kLinear + kCubic * x * x);
  }
  static __device__ __forceinline__ float slope(float x) { return kLinear + 3.0f * kCubic * x * x; }
};

template <class T, class Gate, int kCount>
__global__ void __launch_bounds__(kSwigluThreads)
    swiglu_forward(const SwigluRows rows, const T* gate, const T* up, T* y) {
  const int64_t pack = int64_t{blockIdx.x} * kSwigluThreads + threadIdx.x;
  if (pack >= rows.packs) return;
  const int64_t place = rows.place<kCount>(pack);
  const auto g_pack = load_pack<kCount>(gate + place), u_pack = load_pack<kCount>(up + place);
  Pack<T, kCount> y_pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto g = static_cast<float>(g_pack.value[i]), u = static_cast<float>(u_pack.value[i]);
    y_pack.value[i] = static_cast<T>(g * sigmoid(Gate::argument(g)) * u);
  }
  store_pack(y + pack * kCount, y_pack);
}

template <class T, class Gate, int kCount>
__global__ void __launch_bounds__(kSwigluThreads)
    swiglu_backward(const SwigluRows rows, const T* dy, const T* gate, const T* up, T* d_gate,
                    T* d_up) {
  const int64_t pack = int64_t{blockIdx.x} * kSwigluThreads + threadIdx.x;
  if (pack >= rows.packs) return;
  const int64_t place = rows.place<kCount>(pack);
  const auto d_pack = load_pack<kCount>(dy + pack * kCount);
  const auto g_pack = load_pack<kCount>(gate + place), u_pack = load_pack<kCount>(up + place);
  Pack<T, kCount> d_gate_pack, d_up_pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto d = static_cast<float>(d_pack.value[i]), g = static_cast<float>(g_pack.value[i]);
    const auto u = static_cast<float>(u_pack.value[i]);
    const float s = sigmoid(Gate::argument(g));
    d_gate_pack.value[i] = static_cast<T>(d * u * s * (1.0f + g * Gate::slope(g) * (1.0f - s)));
    d_up_pack.value[i] = static_cast<T>(d * g * s);
  }
  store_pack(d_gate + place, d_gate_pack);
  store_pack(d_up + place, d_up_pack);
}

// launch(gate, count, rows, shape) with the gate and the elements of a pack as types. `others`: the
// addresses beside those of `in`.
template <class T, class Launch>
void for_packs(const GateAndUp& in, GateForm form, std::initializer_list<const void*> others,
               const Launch& launch) {
  const Tensor& gate = in.gate;
  if (gate.numel() == 0) return;
  const int64_t gap = gate.size(0) > 1 ? gate.stride(0) - gate.size(1) : 0;
  const int64_t width = gap == 0 ? gate.numel() : gate.size(1);
  const bool packs =
      takes_packs<T>(width, others) && takes_packs<T>(gap, {gate.data_ptr(), in.up.data_ptr()});
  const auto with = [&](auto count) {
    const SwigluRows rows = {gate.numel() / count.value, width / count.value, gap};
    const int64_t blocks = (rows.packs + kSwigluThreads - 1) / kSwigluThreads;
    const LaunchShape shape{static_cast<unsigned>(blocks), kSwigluThreads};
    form == GateForm::kGeluTanh ? launch(GeluTanhGate{}, count, rows, shape)
                                : launch(SiluGate{}, count, rows, shape);
  };
  packs ? with(std::integral_constant<int, kPackCount<T>>())
        : with(std::integral_constant<int, 1>());
}

void forward(const GateAndUp& in, GateForm form, const Tensor& y) {
  const DeviceScope scope(y);
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    for_packs<T>(in, form, {y.data_ptr()},
                 [&](auto gate, auto count, auto rows, const LaunchShape& shape) {
                   launch_kernel(swiglu_forward<T, decltype(gate), count.value>, shape, rows,
                                 in.gate.data_ptr<T>(), in.up.data_ptr<T>(), y.data_ptr<T>());
                 });
  });
}

void backward(const Tensor& y_gradient, const GateAndUp& in, GateForm form, const GateAndUp& into) {
  const DeviceScope scope(y_gradient);
  for_kernel_type(y_gradient, [&](auto zero) {
    using T = decltype(zero);
    for_packs<T>(in, form, {y_gradient.data_ptr(), into.gate.data_ptr(), into.up.data_ptr()},
                 [&](auto gate, auto count, auto rows, const LaunchShape& shape) {
                   launch_kernel(swiglu_backward<T, decltype(gate), count.value>, shape, rows,
                                 y_gradient.data_ptr<T>(), in.gate.data_ptr<T>(),
                                 in.up.data_ptr<T>(), into.gate.data_ptr<T>(),
                                 into.up.data_ptr<T>());
                 });
  });
}

}  // namespace

const SwigluImpl kSwigluCuda{forward, backward};

}  // namespace sftbench::ops
