#include "sftbench/ops/global_norm.h"

#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

TEST(GlobalNorm, MatchesFloat64) {
  const std::vector<std::vector<int64_t>> shapes = {{1}, {3, 5}, {64, 33}, {1000}, {0}, {70000}};
  for (const auto dtype : kDtypes) {
    std::vector<Tensor> tensors;
    double sum = 0.0;
    for (const std::vector<int64_t>& shape : shapes) {
      tensors.push_back(random_tensor(shape, dtype, tensors.size()));
      sum += tensors.back().to(torch::kFloat64).square().sum().item<double>();
    }
    EXPECT_NEAR(global_norm(tensors) / std::sqrt(sum), 1.0, 1e-6);
    tensors[2] = tensors[2].t();  // not contiguous: stock operators
    EXPECT_NEAR(global_norm(tensors) / std::sqrt(sum), 1.0, 1e-6);
  }
}

TEST(GlobalNorm, StaysOnTheDeviceWhereItIsAskedTo) {
  const std::vector<Tensor> tensors = {random_tensor({3000}, torch::kBFloat16, 1),
                                       random_tensor({7, 5}, torch::kBFloat16, 2)};
  const Tensor norm = global_norm_on_device(tensors);
  EXPECT_EQ(norm.scalar_type(), torch::kFloat64);
  EXPECT_EQ(norm.device(), tensors[0].device());
  EXPECT_NEAR(norm.item<double>(), global_norm(tensors), 1e-6 * global_norm(tensors));
}

TEST(GlobalNorm, DoesNotDependOnTheNumberOfThreads) {
  const std::vector<Tensor> tensors = {random_tensor({300001}, torch::kFloat32, 1),
                                       random_tensor({5}, torch::kFloat32, 2)};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = global_norm(tensors);
  at::set_num_threads(3);
  EXPECT_EQ(global_norm(tensors), alone);
  at::set_num_threads(threads);
}

TEST(GlobalNorm, NothingHasNormZero) {
  EXPECT_EQ(global_norm({}), 0.0);
  EXPECT_EQ(global_norm({torch::zeros({0}).to(test_device())}), 0.0);
}

TEST(GlobalNorm, NanAndInfinityShow) {
  const Tensor ones = torch::ones({5}).to(test_device());
  EXPECT_TRUE(std::isnan(global_norm({ones, ones * NAN})));
  EXPECT_TRUE(std::isinf(global_norm({ones, ones * INFINITY})));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
