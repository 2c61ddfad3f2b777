#include "sftbench/ops/gelu.h"

#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// The formulas of the paper.
Tensor reference(const Tensor& x, Gelu form) {
  if (form == Gelu::kError) return x * 0.5 * (1 + torch::erf(x / std::sqrt(2.0)));
  const double factor = std::sqrt(2.0 / std::acos(-1.0));
  return x * 0.5 * (1 + torch::tanh(factor * (x + 0.044715 * x.pow(3))));
}

TEST(Gelu, MatchesFloat64ForwardAndBackward) {
  for (const Gelu form : {Gelu::kError, Gelu::kTanh}) {
    for (const auto dtype : kDtypes) {
      for (const int64_t count : {1, 7, 1000}) {
        expect_op_matches(
            "gelu", [form](const auto& in) { return gelu(in[0], form); },
            [form](const auto& in) { return reference(in[0], form); },
            {random_tensor({3, count}, dtype, 1) * 3});
      }
    }
  }
}

TEST(Gelu, RoundsOnce) {
  const Tensor x = random_tensor({4096}, torch::kBFloat16, 2) * 3;
  for (const Gelu form : {Gelu::kError, Gelu::kTanh}) {
    const Tensor exact = reference(x.to(torch::kFloat64), form);
    const auto error = [&exact](const Tensor& y) {
      return ((y.to(torch::kFloat64) - exact).norm() / exact.norm()).item<double>();
    };
    EXPECT_LE(error(gelu(x, form)), 1.01 * error(exact.to(torch::kBFloat16)));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
