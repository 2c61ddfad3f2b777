#include "sftbench/ops/dropout.h"

#include "kernels/kernel_test_support.h"
#include "ops/dropout_impl.h"
#include "ops/dropout_mask.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

Tensor dropped(const Tensor& x, const Dropout& dropout) {
  const Tensor kept = guarded(torch::full_like(x, 7));
  zero_dropped_cuda(x, kept, drop_threshold(dropout.probability), dropout.seed);
  return kept;
}

// The CPU's choice, in every bit.
TEST(DropoutKernel, DropsWhatCpusDrop) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const int64_t numel : {1, 3, 8, 9, 16, 2047, 5000}) {
      const Tensor x = guarded_normal({numel}, dtype, 1);
      for (const double probability : {0.1, 0.5}) {
        const Dropout dropout = {probability, 0x9876543210abcdefU};
        for_each_order(
            [&] { EXPECT_TRUE(torch::equal(dropped(x, dropout), zero_dropped(x, dropout))); });
      }
    }
  }
}

TEST(DropoutKernel, TakesTensorsThatAreNotAligned) {
  for (const auto dtype : kKernelDtypes) {
    const Tensor x = guarded_normal({66}, dtype, 1).narrow(0, 1, 65);
    const Tensor kept = guarded_nan({66}, dtype).narrow(0, 1, 65);
    const Dropout dropout = {0.25, 3};
    zero_dropped_cuda(x, kept, drop_threshold(dropout.probability), dropout.seed);
    EXPECT_TRUE(torch::equal(kept, zero_dropped(x, dropout)));
  }
}

TEST(DropoutKernel, TakesNothing) {
  EXPECT_EQ(dropped(torch::empty({0}), {0.5, 1}).numel(), 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
