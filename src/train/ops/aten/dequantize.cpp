// Dequantization with stock operators: float64, for gradient checks, and devices without a kernel.
#include <vector>

#include "ops/dequantize_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// The `count` bits of `words` from bit `shift` on. Words are signed: what a shift brings in from
// the left is cut off.
Tensor bits_of(const Tensor& words, int64_t shift, int64_t count) {
  return at::bitwise_and(at::bitwise_right_shift(words, shift), (int64_t{1} << count) - 1);
}

// Codes that are packed down the columns: [n * bits, C] -> [n * 32, C] int32.
Tensor unpack(const Tensor& packed, int64_t bits) {
  const Tensor words = packed.reshape({-1, bits, packed.size(1)});
  std::vector<Tensor> codes;
  for (int64_t j = 0; j < kPackedCodes; ++j) {
    const int64_t word = j * bits / 32, shift = j * bits % 32;
    const int64_t here = std::min(bits, 32 - shift);
    Tensor code = bits_of(words.select(1, word), shift, here);
    if (here < bits) {
      const Tensor rest = bits_of(words.select(1, word + 1), 0, bits - here);
      code = at::bitwise_or(code, at::bitwise_left_shift(rest, here));
    }
    codes.push_back(code);
  }
  return at::stack(codes, 1).flatten(0, 1);
}

// [G, O] int32. See zero_code() for how one is added.
Tensor unpack_zeros(const GptqWeight& weight) {
  constexpr int32_t kOnes[9] = {0, 0, 0x55555555, 0, 0x11111111, 0, 0, 0, 0x01010101};
  Tensor packed = weight.qzeros.t();
  if (weight.zeros_less_one) packed = packed + kOnes[weight.bits];
  Tensor zeros = unpack(packed, weight.bits).t();
  if (weight.zeros_less_one && weight.bits == 3) zeros = at::bitwise_and(zeros + 1, 7);
  return zeros;
}

}  // namespace

void dequantize_aten(Tensor& target, const GptqWeight& weight, FeatureRange in, FeatureRange out) {
  const Tensor words =
      weight.qweight
          .narrow(0, in.begin / kPackedCodes * weight.bits, in.count / kPackedCodes * weight.bits)
          .narrow(1, out.begin, out.count);
  const Tensor groups = weight.g_idx.narrow(0, in.begin, in.count).to(torch::kInt64);
  const auto of_features = [&](const Tensor& of_groups) {
    return of_groups.narrow(1, out.begin, out.count).index_select(0, groups);
  };
  const Tensor scales = of_features(weight.scales.to(torch::kFloat32));
  const Tensor steps = unpack(words, weight.bits) - of_features(unpack_zeros(weight));
  target.copy_(scales * steps);
}

void dequantize_nf4_aten(Tensor& target, const Nf4Weight& weight, const Tensor& absmax,
                         FeatureRange out, FeatureRange in) {
  const Tensor places =
      ((torch::arange(out.count, absmax.options().dtype(torch::kInt64)) + out.begin) * weight.in)
          .unsqueeze(1) +
      torch::arange(in.begin, in.begin + in.count, absmax.options().dtype(torch::kInt64));
  const Tensor pairs = weight.codes.index_select(0, places.view(-1).div(2, "floor"))
                           .view_as(places)
                           .to(torch::kInt64);
  const Tensor codes =
      torch::where(places.remainder(2) == 0, pairs.bitwise_right_shift(4), pairs.bitwise_and(15));
  const Tensor values =
      torch::tensor(at::ArrayRef<float>(kNf4Values.data(), kNf4Values.size()), absmax.options());
  const Tensor scales = absmax.index_select(0, places.view(-1).div(kNf4Block, "floor"));
  target.copy_((values.index_select(0, codes.view(-1)) * scales).view_as(places));
}

}  // namespace sftbench::ops
