// Every form of a linear layer's products against float64, for contractions as long as a
// vocabulary.
#include "ops/gemm.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <optional>

#include "ops/cpu/gemm.h"
#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// |x| of all elements together.
double length(const Tensor& x) {
  return x.to(torch::kFloat64).norm().item<double>();
}

Tensor wide(const Tensor& x) {
  return x.to(torch::kFloat64);
}

// The error of a float32 sum over `depth` terms of random signs, in units of the result.
double summation_error(int64_t depth) {
  return 1e-7 * (4 + std::sqrt(static_cast<double>(depth)));
}

// At most 1.5 times the error of rounding the exact result once, where that is what limits it.
void expect_rounded_once(const std::string& what, const Tensor& actual, const Tensor& exact,
                         int64_t depth) {
  ASSERT_EQ(actual.sizes(), exact.sizes()) << what;
  const double once = length(wide(exact.to(actual.scalar_type())) - exact);
  const double error = length(wide(actual) - exact);
  EXPECT_LE(error, 1.5 * once + summation_error(depth) * length(exact))
      << what << ": " << error / length(exact) << " of the result, rounded once "
      << once / length(exact);
}

struct Shape {
  int64_t rows, depth, columns;
};

// One element; edges of tiles and slices; the hidden size, and the vocabulary of a head's
// gradients.
const std::vector<Shape> kShapes = {{1, 1, 1},       {5, 7, 3},       {65, 64, 49},
                                    {130, 385, 100}, {33, 1003, 400}, {1100, 40, 70},
                                    {40, 50, 2500},  {9, 32000, 66},  {7, 49152, 50}};
const std::vector<torch::Dtype> kProductDtypes = {torch::kFloat32, torch::kBFloat16,
                                                  torch::kFloat16};

class Gemm : public ::testing::TestWithParam<torch::Dtype> {
 protected:
  Tensor draw(at::IntArrayRef sizes, uint64_t seed) const {
    return random_tensor(sizes, GetParam(), seed);
  }
  static std::string name(const char* form, const Shape& s) {
    return std::string(form) + " [" + std::to_string(s.rows) + ", " + std::to_string(s.depth) +
           "] x [" + std::to_string(s.depth) + ", " + std::to_string(s.columns) + "]";
  }
};

TEST_P(Gemm, NtIsRoundedOnce) {
  for (const Shape& s : kShapes) {
    const Tensor x = draw({s.rows, s.depth}, 1), w = draw({s.columns, s.depth}, 2);
    const Tensor bias = draw({s.columns}, 3), before = draw({s.rows, s.columns}, 4);
    const Tensor exact = wide(x).mm(wide(w).t());
    Tensor out = torch::full_like(before, NAN);
    matmul_nt_into(out, x, w);
    expect_rounded_once(name("nt", s), out, exact, s.depth);
    matmul_nt_into(out, x, w, bias);
    expect_rounded_once(name("nt + bias", s), out, exact + wide(bias), s.depth);
    out = before.clone();
    add_matmul_nt(out, x, w);
    expect_rounded_once(name("out + nt", s), out, exact + wide(before), s.depth);
  }
}

TEST_P(Gemm, NnIsRoundedOnce) {
  for (const Shape& s : kShapes) {
    const Tensor y = draw({s.rows, s.depth}, 1), w = draw({s.depth, s.columns}, 2);
    expect_rounded_once(name("nn", s), matmul_nn(y, w), wide(y).mm(wide(w)), s.depth);
  }
}

TEST_P(Gemm, TnIsRoundedOnceAndAddsToAGradientOfEitherDtype) {
  for (const Shape& s : kShapes) {
    const Tensor y = draw({s.depth, s.rows}, 1), x = draw({s.depth, s.columns}, 2);
    const Tensor exact = wide(y).t().mm(wide(x));
    for (const auto dtype : {GetParam(), torch::Dtype(torch::kFloat32)}) {
      const Tensor before = random_tensor({s.rows, s.columns}, dtype, 3);
      Tensor out = torch::full_like(before, NAN);
      matmul_tn_into(out, y, x, 0.0);
      expect_rounded_once(name("tn", s), out, exact, s.depth);
      out = before.clone();
      matmul_tn_into(out, y, x, 1.0);
      expect_rounded_once(name("out + tn", s), out, exact + wide(before), s.depth);
    }
  }
}

TEST_P(Gemm, TakesPartsOfLargerMatricesAndLeavesTheRest) {
  const Tensor x = draw({40, 100}, 1), w = draw({90, 100}, 2);
  const Tensor target = draw({40, 200}, 3), before = target.clone();
  const Tensor left = x.narrow(1, 8, 64), right = w.narrow(1, 32, 64).narrow(0, 5, 80);
  matmul_nt_into(target.narrow(1, 50, 80), left, right);
  expect_rounded_once("parts", target.narrow(1, 50, 80), wide(left).mm(wide(right).t()), 64);
  EXPECT_TRUE(target.narrow(1, 0, 50).equal(before.narrow(1, 0, 50)));
  EXPECT_TRUE(target.narrow(1, 130, 70).equal(before.narrow(1, 130, 70)));
}

TEST_P(Gemm, GivesTheSameBitsOnAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const Tensor y = draw({700, 900}, 1), w = draw({900, 800}, 2);
  std::optional<Tensor> expected;
  for (const int count : {1, 2, 3, 5}) {
    at::set_num_threads(count);
    Tensor out = torch::empty({700, 800}, y.options());
    cpu_multiply(out, y, w, {}, 0.0);
    if (!expected) expected = out;
    EXPECT_TRUE(out.equal(*expected)) << count << " threads";
  }
  at::set_num_threads(threads);
}

// The phantom's products are oneDNN's. With AMX, that of torch 2.11 lets a bfloat16 row that is not
// a number spread to the next. The variable is read once in a process, and each test has its own
// there.
TEST_P(Gemm, PassesOnWhatIsNotANumber) {
  if (test_device().is_cuda()) ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 1);
  Tensor y = draw({20, 70}, 1), w = draw({70, 30}, 2);
  y[3][11] = NAN;
  w[40][7] = INFINITY;
  const Tensor out = matmul_nn(y, w);
  const Tensor exact = wide(y).mm(wide(w));
  EXPECT_TRUE(out.isnan().equal(exact.isnan()));
  EXPECT_TRUE(out.isinf().equal(exact.isinf()));
}

TEST_P(Gemm, AnEmptyContractionIsZeroOrWhatWasThere) {
  const Tensor bias = draw({3}, 1), before = draw({2, 3}, 2);
  Tensor out = torch::full_like(before, NAN);
  matmul_nt_into(out, draw({2, 0}, 3), draw({3, 0}, 4));
  EXPECT_TRUE(out.equal(torch::zeros_like(out)));
  matmul_nt_into(out, draw({2, 0}, 3), draw({3, 0}, 4), bias);
  EXPECT_TRUE(out.equal(bias.expand_as(out)));
  out = before.clone();
  add_matmul_nt(out, draw({2, 0}, 3), draw({3, 0}, 4));
  EXPECT_TRUE(out.equal(before));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Gemm, ::testing::ValuesIn(kProductDtypes),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
