// RoPE on GPUs: q and k in one kernel, a thread for a pack of each half of a head.
#include "ops/cuda/pack.h"
#include "ops/rope_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kRopeThreads = 256;

// [B, S, heads, D]: strides of the input, whose last is 1; the output is contiguous.
template <class T>
struct RopeHeads {
  const T* x;
  T* y;
  int64_t batch_stride, position_stride, head_stride;
  int heads;
};

template <class T>
struct RopeProblem {
  RopeHeads<T> q, k;
  const T *cos, *sin;  // [angle_rows, half]
  int64_t positions, length, angle_rows;
  int half;
  float sign;
};

template <class T, int kCount>
__device__ __forceinline__ void rotate_pack(const RopeProblem<T>& p, const RopeHeads<T>& heads,
                                            int64_t position, int head, int i) {
  const T* x = heads.x + position / p.length * heads.batch_stride +
               position % p.length * heads.position_stride + head * heads.head_stride + i;
  T* y = heads.y + (position * heads.heads + head) * 2 * p.half + i;
  const int64_t angle = position % p.angle_rows * p.half + i;
  const auto c_pack = load_pack<kCount>(p.cos + angle), s_pack = load_pack<kCount>(p.sin + angle);
  const auto first = load_pack<kCount>(x), second = load_pack<kCount>(x + p.half);
  Pack<T, kCount> y_first, y_second;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const auto c = static_cast<float>(c_pack.value[j]);
    const float s = static_cast<float>(s_pack.value[j]) * p.sign;
    const auto a = static_cast<float>(first.value[j]), b = static_cast<float>(second.value[j]);
    y_first.value[j] = static_cast<T>(a * c - b * s);
    y_second.value[j] = static_cast<T>(b * c + a * s);
  }
  store_pack(y, y_first);
  store_pack(y + p.half, y_second);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kRopeThreads) rotate_heads(const RopeProblem<T> p) {
  const int packs = p.half / kCount, heads = p.q.heads + p.k.heads;
  const int64_t task = int64_t{blockIdx.x} * kRopeThreads + threadIdx.x;
  const int64_t position = task / (int64_t{packs} * heads);
  if (position >= p.positions) return;
  const auto rest = static_cast<int>(task % (int64_t{packs} * heads));
  const int head = rest / packs, i = rest % packs * kCount;
  if (head < p.q.heads) {
    rotate_pack<T, kCount>(p, p.q, position, head, i);
  } else {
    rotate_pack<T, kCount>(p, p.k, position, head - p.q.heads, i);
  }
}

Tensor with_dense_heads(const Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

template <class T>
RopeHeads<T> heads_of(const Tensor& x, const Tensor& y) {
  return {x.data_ptr<T>(), y.data_ptr<T>(), x.stride(0),
          x.stride(1),     x.stride(2),     static_cast<int>(x.size(2))};
}

template <class T>
bool rope_takes_packs(const RopeProblem<T>& p) {
  const bool fits = takes_packs<T>(p.half, {p.q.x, p.q.y, p.k.x, p.k.y, p.cos, p.sin});
  const auto divides = [](const RopeHeads<T>& heads) {
    return heads.batch_stride % kPackCount<T> == 0 && heads.position_stride % kPackCount<T> == 0 &&
           heads.head_stride % kPackCount<T> == 0;
  };
  return fits && divides(p.q) && divides(p.k);
}

template <class T, int kCount>
void launch_rope(const RopeProblem<T>& p) {
  const int64_t tasks = p.positions * (p.q.heads + p.k.heads) * (p.half / kCount);
  const auto blocks = static_cast<unsigned>((tasks + kRopeThreads - 1) / kRopeThreads);
  launch_kernel(rotate_heads<T, kCount>, {blocks, kRopeThreads}, p);
}

}  // namespace

std::pair<Tensor, Tensor> rotate_cuda(const Tensor& q_any, const Tensor& k_any,
                                      const Tensor& cos_any, const Tensor& sin_any, bool inverse) {
  const DeviceScope scope(q_any);
  const Tensor q = with_dense_heads(q_any), k = with_dense_heads(k_any);
  const Tensor cos = cos_any.contiguous(), sin = sin_any.contiguous();
  Tensor q_rotated = torch::empty(q.sizes(), q.options());
  Tensor k_rotated = torch::empty(k.sizes(), k.options());
  if (q.numel() + k.numel() == 0 || cos.numel() == 0) return {q_rotated, k_rotated};
  for_kernel_type(q, [&](auto zero) {
    using T = decltype(zero);
    const int64_t half = q.size(3) / 2;
    const RopeProblem<T> problem = {
        heads_of<T>(q, q_rotated), heads_of<T>(k, k_rotated), cos.data_ptr<T>(),
        sin.data_ptr<T>(),         q.size(0) * q.size(1),     q.size(1),
        cos.numel() / half,        static_cast<int>(half),    inverse ? -1.0f : 1.0f};
    rope_takes_packs(problem) ? launch_rope<T, kPackCount<T>>(problem) : launch_rope<T, 1>(problem);
  });
  return {q_rotated, k_rotated};
}

}  // namespace sftbench::ops
