#include "kernels/kernel_test_support.h"
#include "ops/grouped_products.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// Experts without rows at the start, in the middle and at the end.
TEST(ExpertBiasKernel, AddsToTheRowsOfEachExpert) {
  const std::vector<int64_t> offsets = {0, 0, 1, 9, 9, 40, 40};
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {1, 24, 77, 4104}) {
      const Tensor y = guarded_normal({offsets.back(), width}, dtype, 1);
      const Tensor bias = guarded_normal({std::ssize(offsets) - 1, width}, dtype, 2);
      const Tensor ends = guarded(ends_of_experts(offsets, torch::kCPU));
      Tensor expected = y.to(torch::kFloat64);
      for (int64_t e = 0; e < bias.size(0); ++e) {
        expected.slice(0, offsets[e], offsets[e + 1]) += bias[e].to(torch::kFloat64);
      }
      for_each_order([&] {
        const Tensor sums = guarded(y);
        add_expert_bias_cuda(sums, bias, ends);
        expect_near(sums, expected, kernel_tolerance(dtype));
      });
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
