#include "kernels/kernel_test_support.h"
#include "ops/dequantize_impl.h"
#include "sftbench/ops/blockwise_quantize.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

GptqWeight random_weight(int bits, bool less_one, int64_t in, int64_t out, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  constexpr int64_t kGroups = 5;
  const auto words = [&](int64_t rows, int64_t columns) {
    const Tensor halves =
        torch::randint(0, 65536, {rows, columns, 2}, generator, torch::kInt64).to(torch::kInt16);
    return guarded(halves.view(torch::kInt32).squeeze(-1));
  };
  return {bits,
          less_one,
          words(in / kPackedCodes * bits, out),
          words(kGroups, out / kPackedCodes * bits),
          guarded(torch::rand({kGroups, out}, generator, torch::kFloat32).to(torch::kFloat16)),
          guarded(torch::randint(0, kGroups, {in}, generator, torch::kInt32))};
}

// All arithmetic is exact until the last rounding, so that every implementation has the same bits.
TEST(DequantizeKernel, EqualsTheCpuInEveryBit) {
  for (const int bits : {2, 3, 4, 8}) {
    for (const bool less_one : {false, true}) {
      const GptqWeight weight = random_weight(bits, less_one, 96, 544, bits);
      for (const auto dtype : kKernelDtypes) {
        const Tensor expected = dequantize(weight, dtype);
        for_each_order([&] {
          Tensor actual = guarded_nan({96, 544}, dtype);
          dequantize_cuda(actual, weight, {0, 96}, {0, 544});
          EXPECT_TRUE(torch::equal(actual, expected)) << bits << " bits";
        });
      }
    }
  }
}

TEST(DequantizeKernel, TakesRangesOfFeatures) {
  const GptqWeight weight = random_weight(4, true, 128, 96, 9);
  Tensor actual = guarded_nan({64, 32}, torch::kBFloat16);
  dequantize_cuda(actual, weight, {32, 64}, {64, 32});
  const Tensor all = dequantize(weight, torch::kBFloat16);
  EXPECT_TRUE(torch::equal(actual, all.narrow(0, 32, 64).narrow(1, 64, 32)));
}

// Blocks that begin with a row, and others.
TEST(Nf4Kernel, EqualsTheCpuInEveryBit) {
  for (const auto& [out, in] :
       std::vector<std::pair<int64_t, int64_t>>{{5, 1152}, {9, 81}, {3, 24}}) {
    Nf4Weight weight = empty_nf4(out, in, true, torch::kCPU);
    auto generator = at::detail::createCPUGenerator(1);
    nf4_quantize(torch::randn({out, in}, generator, torch::kFloat32), weight);
    weight.codes = guarded(weight.codes);
    const Tensor absmax =
        guarded(dequantize_blockwise({QuantMap::kSigned8, weight.absmax, weight.nested_absmax},
                                     weight.absmax.numel()) +
                weight.nested_offset);
    for (const auto dtype : kKernelDtypes) {
      const Tensor expected = dequantize(weight, dtype);
      for_each_order([&] {
        Tensor actual = guarded_nan({out, in}, dtype);
        dequantize_nf4_cuda(actual, weight, absmax, {0, out}, {0, in});
        EXPECT_TRUE(torch::equal(actual, expected)) << in;
        Tensor part = guarded_nan({2, 13}, dtype);
        dequantize_nf4_cuda(part, weight, absmax, {1, 2}, {7, 13});
        EXPECT_TRUE(torch::equal(part, expected.narrow(0, 1, 2).narrow(1, 7, 13))) << in;
      });
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
