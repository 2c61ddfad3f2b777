// The kernels of the state-space scan on GPUs. What is a product of matrices is left to the
// library; here is what stands between the products: decays, masks and sums over short dimensions.
//
// A row of S positions has n = ceil(S / Q) chunks of Q positions, the last one filled up with steps
// of 0, which change nothing. Sequences of a packed row may begin anywhere in a chunk. Shapes: K
// chunks of all rows, H heads in G groups of M heads, P and N as in state_space_scan.h.
#pragma once

#include <cstdint>

#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/sequences.h"
#include "ops/state_space_scan_impl.h"

namespace sftbench::ops {

constexpr int kScanPositions = static_cast<int>(kScanChunk);  // Q

struct ScanShape {
  int64_t length;  // S
  int64_t chunks;  // n, of a row
  int heads, groups, dim, state;
  SequenceStarts starts;

  __host__ __device__ __forceinline__ int group_heads() const { return heads / groups; }
  // First position of a chunk in its row.
  __device__ __forceinline__ int64_t begin(int64_t chunk) const {
    return chunk % chunks * kScanPositions;
  }
  // Of a chunk's position among the positions of all rows; none behind the row's end.
  __device__ __forceinline__ int64_t row(int64_t chunk, int i) const {
    return chunk / chunks * length + begin(chunk) + i;
  }
  __device__ __forceinline__ bool has(int64_t chunk, int i) const {
    return begin(chunk) + i < length;
  }
  // [K, Q, H]
  __device__ __forceinline__ int64_t step(int64_t chunk, int i, int head) const {
    return (chunk * kScanPositions + i) * heads + head;
  }
  // Of the first element in [K, G, Q, M, P].
  __device__ __forceinline__ int64_t in_group(int64_t chunk, int i, int head) const {
    const int within = head % group_heads();
    return ((chunk * groups + head / group_heads()) * kScanPositions + i) *
               (int64_t{group_heads()} * dim) +
           int64_t{within} * dim;
  }
  // Of the first element in [K, H, Q, P].
  __device__ __forceinline__ int64_t in_head(int64_t chunk, int i, int head) const {
    return ((chunk * heads + head) * kScanPositions + i) * dim;
  }
};

// What decays how far, of each chunk, position and head. Times are sums of steps since the chunk's
// start, in float64: differences of sums lose what the sums have in common.
struct ScanDecays {
  double* times;  // [K, Q, H]
  float* fed;     // [K, Q, H] step times decay to the chunk's end, 0 before its last sequence
  float* grown;   // [K, Q, H] decay since the chunk's start, 0 behind its first sequence
  float* carry;   // [K, H] decay over the chunk, 0 where a sequence begins in it
};

// --- decays --------------------------------------------------------------------------------------

constexpr int kDecayThreads = 64;

// A thread for each chunk and head.
static __global__ void __launch_bounds__(kDecayThreads)
    find_decays(const ScanShape shape, const float* dt, const float* a, const ScanDecays out) {
  const int64_t chunk = blockIdx.x;
  const auto head = static_cast<int>(blockIdx.y * kDecayThreads + threadIdx.x);
  if (head >= shape.heads) return;
  const int64_t begin = shape.begin(chunk);
  const int64_t end = begin + kScanPositions < shape.length ? begin + kScanPositions : shape.length;
  const int64_t last_start = shape.starts.start_of(end - 1);
  // The first sequence that begins here: positions before it go on with what was before the chunk.
  int64_t first_start = begin;
  if (const int64_t start = shape.starts.start_of(begin); start < begin) {
    first_start = end;
    if (last_start > start) first_start = shape.starts.start(shape.starts.index_of(begin) + 1);
  }
  double time = 0.0;
  for (int i = 0; i < kScanPositions; ++i) {
    if (begin + i < end) time += static_cast<double>(dt[shape.row(chunk, i) * shape.heads + head]);
    out.times[shape.step(chunk, i, head)] = time;
  }
  const float rate = a[head];
  for (int i = 0; i < kScanPositions; ++i) {
    const int64_t at = shape.step(chunk, i, head), position = begin + i;
    const double since_start = out.times[at];
    const float step = position < end ? dt[shape.row(chunk, i) * shape.heads + head] : 0.0f;
    out.fed[at] =
        position < last_start ? 0.0f : step * expf(static_cast<float>(time - since_start) * rate);
    out.grown[at] = position < first_start ? expf(static_cast<float>(since_start) * rate) : 0.0f;
  }
  out.carry[chunk * shape.heads + head] =
      first_start < end ? 0.0f : expf(static_cast<float>(time) * rate);
}

// --- operands of products ------------------------------------------------------------------------

constexpr int kSpreadThreads = 256;

// x of all rows, `stride` apart, as [K, H, Q, P], and times `factors` [K, Q, H] as [K, G, Q, M, P].
template <class T, int kCount>
__global__ void __launch_bounds__(kSpreadThreads)
    spread_rows(const ScanShape shape, int64_t all_chunks, const T* x, int64_t stride,
                const float* factors, T* by_head, T* by_group) {
  const int packs = shape.dim / kCount;
  const int64_t task = int64_t{blockIdx.x} * kSpreadThreads + threadIdx.x;
  const int64_t step = task / packs;
  if (step >= all_chunks * kScanPositions * shape.heads) return;
  const int k = static_cast<int>(task % packs) * kCount;
  const auto head = static_cast<int>(step % shape.heads);
  const int64_t place = step / shape.heads, chunk = place / kScanPositions;
  const auto i = static_cast<int>(place % kScanPositions);
  Pack<T, kCount> row, scaled;
#pragma unroll
  for (int j = 0; j < kCount; ++j) row.value[j] = static_cast<T>(0.0f);
  if (shape.has(chunk, i)) {
    row = load_pack<kCount>(x + shape.row(chunk, i) * stride + int64_t{head} * shape.dim + k);
  }
  const float factor = factors[step];
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    scaled.value[j] = static_cast<T>(static_cast<float>(row.value[j]) * factor);
  store_pack(by_head + shape.in_head(chunk, i, head) + k, row);
  store_pack(by_group + shape.in_group(chunk, i, head) + k, scaled);
}

// --- within a chunk ------------------------------------------------------------------------------

constexpr int kMixThreads = 512, kMixWarps = kMixThreads / kWarpThreads;
constexpr int kMixRows =
    kScanPositions / kMixWarps;  // of a warp: its own, and each kMixWarps further
constexpr int kMixColumns = kScanPositions / kWarpThreads;  // of a lane, side by side

// What the positions of one chunk share, in the memory of a block.
struct MixChunk {
  double time[kScanPositions];
  float step[kScanPositions];
  int start[kScanPositions];  // of the position's sequence, counted from the chunk's start
};

__device__ __forceinline__ void load_mix_chunk(const ScanShape& shape, int64_t chunk, int head,
                                               const double* times, const float* dt,
                                               MixChunk& own) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= kScanPositions) return;
  const bool real = shape.has(chunk, i);
  own.time[i] = times[shape.step(chunk, i, head)];
  own.step[i] = real ? dt[shape.row(chunk, i) * shape.heads + head] : 0.0f;
  const int64_t begin = shape.begin(chunk);
  const int64_t start = real ? shape.starts.start_of(begin + i) - begin : 0;
  own.start[i] = start < 0 ? 0 : static_cast<int>(start);
}

// Decays from positions j to i, 0 where j is later or of another sequence.
__device__ __forceinline__ float mix_decay(const MixChunk& own, int i, int j, float rate) {
  if (j > i || j < own.start[i]) return 0.0f;
  return expf(static_cast<float>(own.time[i] - own.time[j]) * rate);
}

// mix [chunks from `first`, H, Q, Q] = score * decay * step. scores [K, G, Q, Q]. A block for each
// chunk and head.
template <class T>
__global__ void __launch_bounds__(kMixThreads)
    mix_positions(const ScanShape shape, int64_t first, const double* times, const float* dt,
                  const float* a, const float* scores, T* mix) {
  SFTBENCH_BLOCK_SHARED(MixChunk, own, [1]);
  const int64_t chunk = first + blockIdx.x;
  const auto head = static_cast<int>(blockIdx.y);
  load_mix_chunk(shape, chunk, head, times, dt, own[0]);
  __syncthreads();
  const float rate = a[head];
  constexpr int64_t kSquare = int64_t{kScanPositions} * kScanPositions;
  const float* score = scores + (chunk * shape.groups + head / shape.group_heads()) * kSquare;
  T* out = mix + (int64_t{blockIdx.x} * shape.heads + head) * kSquare;
  const auto j = static_cast<int>(threadIdx.x % kWarpThreads) * kMixColumns;
  for (int i = static_cast<int>(threadIdx.x) / kWarpThreads; i < kScanPositions; i += kMixWarps) {
    const auto row = load_pack<kMixColumns>(score + i * kScanPositions + j);
    Pack<T, kMixColumns> result;
#pragma unroll
    for (int l = 0; l < kMixColumns; ++l) {
      const float decay = mix_decay(own[0], i, j + l, rate);
      result.value[l] =
          static_cast<T>(decay == 0.0f ? 0.0f : row.value[l] * decay * own[0].step[j + l]);
    }
    store_pack(out + i * kScanPositions + j, result);
  }
}

// What is found of each chunk, position and head on the way back.
struct ScanSums {
  float* step;       // [K, Q, H] gradient of the step, without what goes through decays
  float* log_decay;  // [K, Q, H] gradient of the logarithm of the decay since the chunk's start
  float* rate;       // [K, H] sum of each decay's gradient times the time that it decays over
};

// From mix_gradient [chunks from `first`, H, Q, Q], the gradients of the mix: the mix itself, sums,
// and the gradients of the scores in parts, [parts of a group's heads, K, G, Q, Q]. A block for
// each chunk and part of a group.
template <class T>
__global__ void __launch_bounds__(kMixThreads)
    differentiate_mix(const ScanShape shape, int64_t first, int64_t all_chunks, int parts,
                      const double* times, const float* dt, const float* a, const float* scores,
                      const float* mix_gradient, T* mix, float* score_parts, const ScanSums sums) {
  SFTBENCH_BLOCK_SHARED(MixChunk, own, [1]);
  SFTBENCH_BLOCK_SHARED(float, by_column, [2][kMixWarps][kScanPositions]);
  SFTBENCH_BLOCK_SHARED(float, scratch, [kMixWarps]);
  constexpr int64_t kSquare = int64_t{kScanPositions} * kScanPositions;
  const int64_t chunk = first + blockIdx.x;
  const auto group = static_cast<int>(blockIdx.y) / parts;
  const auto part = static_cast<int>(blockIdx.y) % parts;
  const auto warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const auto j = static_cast<int>(threadIdx.x % kWarpThreads) * kMixColumns;
  const float* score = scores + (chunk * shape.groups + group) * kSquare;
  float d_scores[kMixRows][kMixColumns] = {};
  for (int member = part; member < shape.group_heads(); member += parts) {
    const int head = group * shape.group_heads() + member;
    const int64_t of_head = (int64_t{blockIdx.x} * shape.heads + head) * kSquare;
    __syncthreads();  // what the head before has left in shared memory is read
    load_mix_chunk(shape, chunk, head, times, dt, own[0]);
    __syncthreads();
    const float rate = a[head];
    float steps[kMixColumns] = {}, leaving[kMixColumns] = {}, by_rate = 0.0f;
#pragma unroll
    for (int r = 0; r < kMixRows; ++r) {
      const int i = warp + r * kMixWarps;
      const auto gradient = load_pack<kMixColumns>(mix_gradient + of_head + i * kScanPositions + j);
      const auto row = load_pack<kMixColumns>(score + i * kScanPositions + j);
      Pack<T, kMixColumns> result;
      float arriving = 0.0f;
#pragma unroll
      for (int l = 0; l < kMixColumns; ++l) {
        const float decay = mix_decay(own[0], i, j + l, rate), step = own[0].step[j + l];
        if (decay == 0.0f) {
          result.value[l] = static_cast<T>(0.0f);
          continue;
        }
        result.value[l] = static_cast<T>(row.value[l] * decay * step);
        d_scores[r][l] += gradient.value[l] * decay * step;
        const float d_step = gradient.value[l] * row.value[l] * decay;
        steps[l] += d_step;
        if (j + l < i) {
          const float by_decay = d_step * step;
          leaving[l] += by_decay;
          arriving += by_decay;
          by_rate += by_decay * static_cast<float>(own[0].time[i] - own[0].time[j + l]);
        }
      }
      store_pack(mix + of_head + i * kScanPositions + j, result);
      arriving = warp_reduce(arriving, Add());
      if (j == 0) sums.log_decay[shape.step(chunk, i, head)] = arriving;
    }
#pragma unroll
    for (int l = 0; l < kMixColumns; ++l) {
      by_column[0][warp][j + l] = steps[l];
      by_column[1][warp][j + l] = leaving[l];
    }
    by_rate = block_reduce<kMixThreads>(by_rate, scratch, Add());  // a barrier for the columns, too
    if (threadIdx.x == 0) sums.rate[chunk * shape.heads + head] = by_rate;
    if (threadIdx.x < kScanPositions) {
      const auto column = static_cast<int>(threadIdx.x);
      float step = 0.0f, left = 0.0f;
#pragma unroll
      for (int w = 0; w < kMixWarps; ++w) {
        step += by_column[0][w][column];
        left += by_column[1][w][column];
      }
      const int64_t at = shape.step(chunk, column, head);
      sums.step[at] = step;
      // Written by lane 0 of a warp before the barrier.
      sums.log_decay[at] -= left;
    }
  }
  float* out = score_parts + ((part * all_chunks + chunk) * shape.groups + group) * kSquare;
#pragma unroll
  for (int r = 0; r < kMixRows; ++r) {
    Pack<float, kMixColumns> result;
#pragma unroll
    for (int l = 0; l < kMixColumns; ++l) result.value[l] = d_scores[r][l];
    store_pack(out + (warp + r * kMixWarps) * kScanPositions + j, result);
  }
}

// --- from chunk to chunk -------------------------------------------------------------------------

constexpr int kStateThreads = 256;

// states [K, G, N, M, P]: what each chunk adds becomes what is there before it (backward: the
// gradient behind it), chunk by chunk of a row. `narrow`, the same in T, may be null. A thread for
// each element of a state.
template <class T>
__global__ void __launch_bounds__(kStateThreads)
    pass_states(const ScanShape shape, const float* carry, bool backward, float* states,
                T* narrow) {
  const int64_t numel = int64_t{shape.heads} * shape.state * shape.dim;
  const int64_t element = int64_t{blockIdx.x} * kStateThreads + threadIdx.x;
  if (element >= numel) return;
  const int64_t of_group = int64_t{shape.group_heads()} * shape.dim;
  const auto group = static_cast<int>(element / (of_group * shape.state));
  const int head = group * shape.group_heads() + static_cast<int>(element % of_group) / shape.dim;
  const int64_t row = blockIdx.y;
  float state = 0.0f;
  for (int64_t step = 0; step < shape.chunks; ++step) {
    const int64_t chunk = row * shape.chunks + (backward ? shape.chunks - 1 - step : step);
    const int64_t at = chunk * numel + element;
    const float added = states[at];
    states[at] = state;
    if (narrow != nullptr) narrow[at] = static_cast<T>(state);
    // What has overflowed in a sequence stays there.
    const float kept = carry[chunk * shape.heads + head];
    state = kept == 0.0f ? added : kept * state + added;
  }
}

// out [K, H]: the sums of products of the heads of two such states. A block for each chunk and
// head.
static __global__ void __launch_bounds__(kStateThreads)
    multiply_states(const ScanShape shape, const float* one, const float* other, float* out) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kStateThreads / kWarpThreads]);
  const int64_t chunk = blockIdx.x;
  const auto head = static_cast<int>(blockIdx.y);
  const int64_t of_group = int64_t{shape.group_heads()} * shape.dim;
  const int64_t first =
      (chunk * shape.groups + head / shape.group_heads()) * shape.state * of_group +
      int64_t{head % shape.group_heads()} * shape.dim;
  float dot = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < shape.state * shape.dim; i += kStateThreads) {
    const int64_t at = first + i / shape.dim * of_group + i % shape.dim;
    dot += one[at] * other[at];
  }
  dot = block_reduce<kStateThreads>(dot, scratch, Add());
  if (threadIdx.x == 0) out[chunk * shape.heads + head] = dot;
}

// --- results -------------------------------------------------------------------------------------

constexpr int kResultThreads = 256;

// y of the chunks from `first`: within [chunks, H, Q, P] what positions of the chunk give, before
// [chunks, G, Q, M, P] what the state before it gives, without its decay.
template <class T>
__global__ void __launch_bounds__(kResultThreads)
    sum_outputs(const ScanShape shape, int64_t first, int64_t count, const T* x, int64_t stride,
                const float* d, const float* grown, const float* within, const float* before,
                T* y) {
  const int64_t task = int64_t{blockIdx.x} * kResultThreads + threadIdx.x;
  const auto k = static_cast<int>(task % shape.dim);
  const int64_t step = task / shape.dim, place = step / shape.heads;
  const int64_t slice = place / kScanPositions, chunk = first + slice;
  const auto head = static_cast<int>(step % shape.heads);
  const auto i = static_cast<int>(place % kScanPositions);
  if (slice >= count || !shape.has(chunk, i)) return;
  const int64_t row = shape.row(chunk, i), within_row = int64_t{head} * shape.dim + k;
  const float factor = grown[shape.step(chunk, i, head)];
  // The state of another sequence is no number that counts, be it infinite.
  const float from_before =
      factor == 0.0f ? 0.0f : factor * before[shape.in_group(slice, i, head) + k];
  y[row * shape.heads * shape.dim + within_row] =
      static_cast<T>(within[shape.in_head(slice, i, head) + k] + from_before +
                     static_cast<float>(x[row * stride + within_row]) * d[head]);
}

// Sums over P of each position and head, [K, Q, H].
struct ScanDots {
  float *fed, *grown, *skip;
};

// dx of the chunks from `first`, and the dots of their rows. A warp for each position and head.
//   within  [chunks, H, Q, P]     the gradient by way of the chunk's own positions
//   behind  [chunks, G, Q, M, P]  that by way of the state behind the chunk
//   before  [chunks, G, Q, M, P]  what the state before the chunk gave, without its decay
template <class T>
__global__ void __launch_bounds__(kResultThreads)
    sum_gradients(const ScanShape shape, int64_t first, int64_t count, const T* x, int64_t stride,
                  const T* dy, const float* d, const float* fed, const float* within,
                  const float* behind, const float* before, T* dx, const ScanDots dots) {
  constexpr int kWarps = kResultThreads / kWarpThreads;
  const int64_t step = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  const int64_t place = step / shape.heads, slice = place / kScanPositions, chunk = first + slice;
  const auto head = static_cast<int>(step % shape.heads);
  const auto i = static_cast<int>(place % kScanPositions);
  if (slice >= count) return;
  const int64_t at = shape.step(chunk, i, head);
  float by_fed = 0.0f, by_grown = 0.0f, by_skip = 0.0f;
  if (shape.has(chunk, i)) {
    const int64_t row = shape.row(chunk, i), in_row = int64_t{head} * shape.dim;
    const T* own = x + row * stride + in_row;
    const int64_t out = row * shape.heads * shape.dim + in_row;
    const float factor = fed[at], skip = d[head];
    for (int k = static_cast<int>(threadIdx.x % kWarpThreads); k < shape.dim; k += kWarpThreads) {
      const auto v = static_cast<float>(own[k]), gradient = static_cast<float>(dy[out + k]);
      const int64_t in_group = shape.in_group(slice, i, head) + k;
      const float from_behind = behind[in_group];
      by_fed += v * from_behind;
      by_grown += gradient * before[in_group];
      by_skip += v * gradient;
      dx[out + k] = static_cast<T>(within[shape.in_head(slice, i, head) + k] +
                                   factor * from_behind + gradient * skip);
    }
  }
  by_fed = warp_reduce(by_fed, Add());
  by_grown = warp_reduce(by_grown, Add());
  by_skip = warp_reduce(by_skip, Add());
  if (threadIdx.x % kWarpThreads == 0) {
    dots.fed[at] = by_fed;
    dots.grown[at] = by_grown;
    dots.skip[at] = by_skip;
  }
}

// The gradients of steps [rows, S, H], and those of rates and skips by chunk, [K, H]. `state_dots`
// [K, H] as multiply_states gives it. A thread for each chunk and head.
static __global__ void __launch_bounds__(kDecayThreads)
    sum_steps(const ScanShape shape, const float* a, const ScanDecays decays, const ScanSums sums,
              const ScanDots dots, const float* state_dots, float* d_dt, float* d_rates,
              float* d_skips) {
  const int64_t chunk = blockIdx.x;
  const auto head = static_cast<int>(blockIdx.y * kDecayThreads + threadIdx.x);
  if (head >= shape.heads) return;
  const int64_t begin = shape.begin(chunk), of_head = chunk * shape.heads + head;
  const float rate = a[head];
  const double end_time = decays.times[shape.step(chunk, kScanPositions - 1, head)];
  const float over_chunk = decays.carry[of_head] * state_dots[of_head];
  float by_rate = sums.rate[of_head] + over_chunk * static_cast<float>(end_time), skip = 0.0f;
  auto later = static_cast<double>(over_chunk);
  for (int i = 0; i < kScanPositions; ++i) {
    const int64_t at = shape.step(chunk, i, head);
    const float by_fed = dots.fed[at] * decays.fed[at];
    later += static_cast<double>(by_fed);
    by_rate += by_fed * static_cast<float>(end_time - decays.times[at]);
    skip += dots.skip[at];
  }
  const int64_t end = begin + kScanPositions < shape.length ? begin + kScanPositions : shape.length;
  int64_t start = shape.starts.start_of(end - 1);
  const int64_t last_start = start;
  // A step decays all that comes after it in its sequence: sums that begin at each position.
  for (int64_t position = end - 1; position >= begin; --position) {
    const auto i = static_cast<int>(position - begin);
    const int64_t at = shape.step(chunk, i, head);
    const float by_fed = dots.fed[at] * decays.fed[at];
    const float by_grown = decays.grown[at] == 0.0f ? 0.0f : dots.grown[at] * decays.grown[at];
    by_rate += by_grown * static_cast<float>(decays.times[at]);
    later += static_cast<double>(sums.log_decay[at] - by_fed + by_grown);
    const float to_end =
        position < last_start ? 0.0f : expf(static_cast<float>(end_time - decays.times[at]) * rate);
    d_dt[shape.row(chunk, i) * shape.heads + head] =
        sums.step[at] + dots.fed[at] * to_end +
        static_cast<float>(later * static_cast<double>(rate));
    if (position == start && position > begin) {
      later = 0.0;
      start = shape.starts.start_of(position - 1);
    }
  }
  d_rates[of_head] = by_rate;
  d_skips[of_head] = skip;
}

}  // namespace sftbench::ops
