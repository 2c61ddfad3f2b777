#include <cmath>

#include "kernels/kernel_test_support.h"
#include "ops/cross_entropy_impl.h"
#include "sftbench/ops/linear_cross_entropy.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

Tensor guarded_labels(int64_t rows, int64_t width) {
  auto generator = at::detail::createCPUGenerator(5);
  Tensor labels = torch::randint(0, width, {rows}, generator, torch::kInt64);
  labels[0] = width - 1;
  if (rows > 2) labels[2] = kIgnoredLabel;
  return guarded(labels);
}

void expect_loss_matches(const Tensor& logits, double logit_scale, double gradient_scale) {
  const auto dtype = logits.scalar_type();
  const Tensor labels = guarded_labels(logits.size(0), logits.size(1));
  const Tensor wide = logits.to(torch::kFloat64).set_requires_grad(true);
  const Tensor rounded = wide * logit_scale;
  // The product is rounded to the dtype; its gradient is not.
  const Tensor seen =
      logit_scale == 1.0
          ? rounded
          : rounded + ((logits * logit_scale).to(torch::kFloat64) - rounded).detach();
  const Tensor expected =
      torch::nll_loss(seen.log_softmax(-1), labels, {}, at::Reduction::Sum, kIgnoredLabel);
  expected.backward();
  for_each_order([&] {
    Tensor buffer = guarded(logits);
    const Tensor loss = cross_entropy_cuda(buffer, labels, logit_scale, gradient_scale);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat64);
    expect_near(loss, expected.detach(), 2e-6);
    if (gradient_scale == 0.0) {
      EXPECT_TRUE(torch::equal(buffer, logits));
      return;
    }
    // Shares far below the largest are subnormal in float16.
    expect_near(buffer, wide.grad() * gradient_scale, kernel_tolerance(dtype),
                dtype == torch::kFloat16 ? 1e-4 : 1e-5);
  });
}

TEST(CrossEntropyKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {1, 17, 512, 4104, 9001}) {
      const Tensor logits = guarded_normal({5, width}, dtype, 1);
      expect_loss_matches(logits, 1.0, 0.0);
      expect_loss_matches(logits, 1.0, 0.5);
      expect_loss_matches(logits, 0.25, 1.0);
    }
  }
}

TEST(CrossEntropyKernel, TakesLargeLogits) {
  const Tensor logits = guarded(torch::tensor({{-3e4, 0.0, 3e4, 2.9e4}, {1e4, 1e4, 1e4, 1e4}}));
  Tensor buffer = guarded(logits);
  const Tensor labels = guarded(torch::tensor({2, 3}, torch::kInt64));
  const Tensor loss = cross_entropy_cuda(buffer, labels, 1.0, 1.0);
  EXPECT_NEAR(loss.item<double>(), std::log(4.0), 2e-3);  // an ulp of 1e4
  EXPECT_TRUE(buffer.isfinite().all().item<bool>());
}

TEST(CrossEntropyKernel, LogitsOfMinusInfinityHaveNoShare) {
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor buffer = guarded(torch::tensor({{-infinity, 0.0, -infinity, 0.0}}, torch::kFloat32));
  const Tensor labels = guarded(torch::tensor({1}, torch::kInt64));
  const Tensor loss = cross_entropy_cuda(buffer, labels, 1.0, 1.0);
  EXPECT_NEAR(loss.item<double>(), std::log(2.0), 1e-6);
  EXPECT_TRUE(torch::allclose(buffer, torch::tensor({{0.0f, -0.5f, 0.0f, 0.5f}})));
}

TEST(CrossEntropyKernel, NanLogitsAndUnknownLabelsMakeTheLossNan) {
  Tensor nan = guarded_normal({2, 64}, torch::kBFloat16, 1);
  nan[1][3] = std::nan("");
  const Tensor labels = guarded(torch::tensor({0, 1}, torch::kInt64));
  EXPECT_TRUE(cross_entropy_cuda(nan, labels, 1.0, 0.0).isnan().item<bool>());
  for (const int64_t label : {-1, 64}) {
    Tensor logits = guarded_normal({1, 64}, torch::kBFloat16, 1);
    const Tensor unknown = guarded(torch::tensor({label}, torch::kInt64));
    EXPECT_TRUE(cross_entropy_cuda(logits, unknown, 1.0, 1.0).isnan().item<bool>());
  }
}

// As the host divides: a step that a graph repeats has the gradients of one that it does not.
TEST(CrossEntropyKernel, DividesByANumberOnTheDevice) {
  const Tensor logits = guarded_normal({5, 512}, torch::kBFloat16, 1);
  const Tensor labels = guarded_labels(5, 512);
  const Tensor divisor = guarded(torch::full({1}, 7.0, torch::kFloat64));
  for_each_order([&] {
    Tensor by_host = guarded(logits), by_device = guarded(logits);
    cross_entropy_cuda(by_host, labels, 0.25, 1.0 / 7.0);
    cross_entropy_cuda(by_device, labels, 0.25, 1.0, divisor);
    EXPECT_TRUE(torch::equal(by_host, by_device));
  });
}

TEST(CrossEntropyKernel, TakesNothing) {
  Tensor logits = torch::empty({0, 8});
  const Tensor labels = torch::empty({0}, torch::kInt64);
  EXPECT_EQ(cross_entropy_cuda(logits, labels, 1.0, 1.0).item<double>(), 0.0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
