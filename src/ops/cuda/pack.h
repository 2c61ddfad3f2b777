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
  *reinterpret_cast<Pack<T, kCount>*>(p) = pack;
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
