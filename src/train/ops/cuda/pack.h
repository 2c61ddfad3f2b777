// Neighboring elements that a kernel loads and stores at once, up to 16 bytes.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/cuda/launch.h"

namespace sftbench::ops {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T value[kCount];
};

inline constexpr int kPackBytes = 16;
template <class T>
inline constexpr int kPackCount = kPackBytes / static_cast<int>(sizeof(T));

template <class P>
__device__ __forceinline__ void check_alignment([[maybe_unused]] const void* p) {
#ifndef __CUDACC__
  if (reinterpret_cast<uintptr_t>(p) % alignof(P) != 0)
    host::fault("a misaligned access of " + std::to_string(sizeof(P)) + " bytes");
#endif
}

template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> load_pack(const T* p) {
  check_alignment<Pack<T, kCount>>(p);
  return *reinterpret_cast<const Pack<T, kCount>*>(p);
}

template <int kCount, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, kCount>& pack) {
  check_alignment<Pack<T, kCount>>(p);
#ifdef __CUDACC__
  if constexpr (sizeof(pack) == kPackBytes) {  // else nvcc may store the elements one by one
    uint4 bits;
    memcpy(&bits, &pack, sizeof(bits));
    __stwb(reinterpret_cast<uint4*>(p), bits);
    return;
  }
#endif
  *reinterpret_cast<Pack<T, kCount>*>(p) = pack;
}

// Floats beside a pack of narrower elements: 16 bytes at a time where there are as many.
template <int kCount>
__device__ __forceinline__ void load_floats(const float* p, float* values) {
  constexpr int kAtOnce = kCount % kPackCount<float> == 0 ? kPackCount<float> : 1;
#pragma unroll
  for (int i = 0; i < kCount; i += kAtOnce) {
    const auto pack = load_pack<kAtOnce>(p + i);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) values[i + j] = pack.value[j];
  }
}

template <int kCount>
__device__ __forceinline__ void store_floats(float* p, const float* values) {
  constexpr int kAtOnce = kCount % kPackCount<float> == 0 ? kPackCount<float> : 1;
#pragma unroll
  for (int i = 0; i < kCount; i += kAtOnce) {
    Pack<float, kAtOnce> pack;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) pack.value[j] = values[i + j];
    store_pack(p + i, pack);
  }
}

// Whether packs of 16 bytes fit: rows of `numel` elements one after another, from these addresses.
template <class T>
bool takes_packs(int64_t row_numel, std::initializer_list<const void*> addresses) {
  bool fits = row_numel % kPackCount<T> == 0;
  for (const void* p : addresses) fits &= reinterpret_cast<uintptr_t>(p) % kPackBytes == 0;
  return fits;
}

// body(T()) with the tensor's type, which is one of those that kernels are made for.
template <class Body>
void for_kernel_type(const torch::Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case torch::kBFloat16:
      return body(at::BFloat16());
    case torch::kFloat16:
      return body(at::Half());
    default:
      return body(0.0f);
  }
}

}  // namespace sftbench::ops
