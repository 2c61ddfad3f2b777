#include "parallel/rank_order_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// As much as stays in the first-level cache while the ranks' arrays stream through.
constexpr int64_t kBlock = 2048;

template <typename T>
using Accumulator =
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <typename From, typename To, typename Combine>
void reduce(const std::vector<const void*>& parts, int64_t count, void* output,
            const Combine& combine) {
  using Sum = Accumulator<From>;
  std::array<Sum, kBlock> sum;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const From* first = static_cast<const From*>(parts[0]) + begin;
    for (int64_t i = 0; i < length; ++i) sum[i] = static_cast<Sum>(first[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const From* part = static_cast<const From*>(parts[rank]) + begin;
      for (int64_t i = 0; i < length; ++i) sum[i] = combine(sum[i], static_cast<Sum>(part[i]));
    }
    To* out = static_cast<To*>(output) + begin;
    for (int64_t i = 0; i < length; ++i) out[i] = static_cast<To>(sum[i]);
  }
}

template <typename From, typename To>
void reduce(const std::vector<const void*>& parts, int64_t count, void* output,
            Reduction reduction) {
  using Sum = Accumulator<From>;
  if (reduction == Reduction::kSum) {
    reduce<From, To>(parts, count, output, [](Sum a, Sum b) { return a + b; });
  } else {
    // A NaN of any rank is the result, as on GPUs.
    reduce<From, To>(parts, count, output, [](Sum a, Sum b) { return a > b || a != a ? a : b; });
  }
}

template <typename From>
void reduce_to(const std::vector<const void*>& parts, int64_t count, void* output, bool to_float,
               Reduction reduction) {
  if (to_float) {
    reduce<From, float>(parts, count, output, reduction);
  } else {
    reduce<From, From>(parts, count, output, reduction);
  }
}

}  // namespace

void reduce_in_rank_order(const std::vector<const void*>& parts, int64_t count,
                          torch::ScalarType from, void* output, torch::ScalarType to,
                          Reduction reduction) {
  check(!parts.empty(), "a reduction has terms");
  const bool to_float = to != from;
  if (parts.size() == 1 && !to_float) {  // a group of one: nothing to add, nothing to round
    if (output != parts[0]) std::memcpy(output, parts[0], count * c10::elementSize(from));
    return;
  }
  check(!to_float || to == torch::kFloat32, "reductions keep their dtype or end in float32");
  switch (from) {
    case torch::kFloat32:
      return reduce<float, float>(parts, count, output, reduction);
    case torch::kFloat64:
      return reduce_to<double>(parts, count, output, to_float, reduction);
    case torch::kBFloat16:
      return reduce_to<c10::BFloat16>(parts, count, output, to_float, reduction);
    case torch::kFloat16:
      return reduce_to<c10::Half>(parts, count, output, to_float, reduction);
    case torch::kInt64:
      return reduce_to<int64_t>(parts, count, output, to_float, reduction);
    case torch::kInt32:
      return reduce_to<int32_t>(parts, count, output, to_float, reduction);
    case torch::kInt8:
      return reduce_to<int8_t>(parts, count, output, to_float, reduction);
    case torch::kUInt8:
      return reduce_to<uint8_t>(parts, count, output, to_float, reduction);
    default:
      break;
  }
  check(false, "a reduction's dtype was checked when it was started");
}

}  // namespace sftbench
