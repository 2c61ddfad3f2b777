// The gradient of an embedding on GPUs: tokens are sorted, and a block takes the rows of each one
// that occurs. Without atomics, so that every run sums in the same order, and without a second
// gradient of the whole vocabulary.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/embedding_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kEmbeddingThreads = 128;

// target [V, H]; tokens [N], sorted; rows[order[i]] [H] is that of tokens[i]. A block for each
// place in the order, at most one of which a token begins at, and for a part of H.
template <class Target, class Row, int kCount>
__global__ void __launch_bounds__(kEmbeddingThreads)
    add_segments(Target* target, const int64_t* tokens, const int64_t* order, const Row* rows,
                 int64_t count, int64_t width) {
  const int64_t first = blockIdx.x, token = tokens[first];
  if (first > 0 && tokens[first - 1] == token) return;
  const int64_t column = (int64_t{blockIdx.y} * kEmbeddingThreads + threadIdx.x) * kCount;
  if (column >= width) return;
  Target* out = target + token * width + column;
  const auto before = load_pack<kCount>(out);
  float sums[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) sums[j] = static_cast<float>(before.value[j]);
  for (int64_t i = first; i < count && tokens[i] == token; ++i) {
    const auto row = load_pack<kCount>(rows + order[i] * width + column);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sums[j] += static_cast<float>(row.value[j]);
  }
  Pack<Target, kCount> result;
#pragma unroll
  for (int j = 0; j < kCount; ++j) result.value[j] = static_cast<Target>(sums[j]);
  store_pack(out, result);
}

template <class Target, class Row>
void add_sorted(const Tensor& target, const Tensor& tokens, const Tensor& order,
                const Tensor& rows) {
  constexpr int kPacked = std::min(kPackCount<Target>, kPackCount<Row>);
  const int64_t width = target.size(1);
  const auto launch = [&](auto count) {
    const int64_t columns = int64_t{kEmbeddingThreads} * count.value;
    const dim3 grid(static_cast<unsigned>(tokens.numel()),
                    static_cast<unsigned>((width + columns - 1) / columns));
    launch_kernel(add_segments<Target, Row, count.value>, {grid, kEmbeddingThreads},
                  target.data_ptr<Target>(), tokens.data_ptr<int64_t>(), order.data_ptr<int64_t>(),
                  rows.data_ptr<Row>(), tokens.numel(), width);
  };
  takes_packs<Row>(width, {target.data_ptr(), rows.data_ptr()}) && width % kPackCount<Target> == 0
      ? launch(std::integral_constant<int, kPacked>())
      : launch(std::integral_constant<int, 1>());
}

}  // namespace

void add_rows_by_token_cuda(Tensor target, const Tensor& ids, const Tensor& rows) {
  if (rows.numel() == 0) return;
  const DeviceScope scope(target);
  const Tensor order = ids.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor tokens = ids.index_select(0, order);
  for_kernel_type(rows, [&](auto zero) {
    using Row = decltype(zero);
    target.scalar_type() == torch::kFloat32 ? add_sorted<float, Row>(target, tokens, order, rows)
                                            : add_sorted<Row, Row>(target, tokens, order, rows);
  });
}

}  // namespace sftbench::ops
