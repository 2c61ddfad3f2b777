#include "ops/op_test_support.h"

#include <cmath>
#include <cstring>

#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench::ops {

Tensor random_tensor(at::IntArrayRef sizes, torch::Dtype dtype, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::normal(0.0, 1.0, sizes, generator, torch::TensorOptions(torch::kFloat64))
      .to(test_device(), dtype);
}

// Header length, JSON header, bytes.
std::map<std::string, Tensor> golden_tensors(const std::string& file) {
  const std::map<std::string, torch::Dtype> dtypes = {{"F32", torch::kFloat32},
                                                      {"BF16", torch::kBFloat16},
                                                      {"F16", torch::kFloat16},
                                                      {"I32", torch::kInt32},
                                                      {"U8", torch::kUInt8}};
  const MappedFile bytes(std::string(SFTBENCH_TEST_DATA) + "/" + file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json header = Json::parse(bytes.text().substr(8, length));
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor = torch::empty(entry["shape"].get<std::vector<int64_t>>(),
                                 dtypes.at(entry["dtype"].get<std::string>()));
    const auto begin = entry["data_offsets"][0].get<size_t>();
    std::memcpy(tensor.data_ptr(), bytes.data() + 8 + length + begin, tensor.nbytes());
    tensors[name] = tensor;
  }
  return tensors;
}

Tensor leaf(const Tensor& tensor, torch::Dtype dtype) {
  return tensor.detach().to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
}

Tensor leaf(const Tensor& tensor) {
  return leaf(tensor, tensor.scalar_type());
}

double relative_error(const Tensor& actual, const Tensor& expected) {
  if (expected.numel() == 0) return 0.0;
  const Tensor reference = expected.detach().to(torch::kFloat64);
  const double largest = reference.abs().max().item<double>();
  const double difference =
      (actual.detach().to(torch::kFloat64) - reference).abs().max().item<double>();
  return largest > 0.0 ? difference / largest : difference;
}

void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected,
                  double slack) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double error = relative_error(actual, expected);
  // Written so that NaN fails.
  EXPECT_TRUE(error <= slack * tolerance(actual.scalar_type()))
      << what << " " << c10::toString(actual.scalar_type()) << " " << actual.sizes()
      << ": relative error " << error << ", allowed " << slack * tolerance(actual.scalar_type());
}

void expect_op_matches(const std::string& what, const Op& op, const Op& reference,
                       const std::vector<Tensor>& inputs, double slack) {
  std::vector<Tensor> leaves, wide_leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(leaf(input));
    wide_leaves.push_back(leaf(input, torch::kFloat64));
  }
  const Tensor actual = op(leaves);
  const Tensor expected = reference(wide_leaves);
  expect_close(what + " output", actual, expected, slack);
  const Tensor upstream = random_tensor(actual.sizes(), actual.scalar_type(), 99);
  actual.backward(upstream);
  expected.backward(upstream.to(torch::kFloat64));
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_close(what + " gradient " + std::to_string(i), leaves[i].grad(), wide_leaves[i].grad(),
                 slack);
    EXPECT_EQ(leaves[i].grad().scalar_type(), inputs[i].scalar_type()) << what;
  }
}

TEST(OpTestSupport, ComparisonSeesSmallErrorsAndNan) {
  const Tensor expected = torch::ones({4}, torch::kFloat64);
  const Tensor actual = expected.to(torch::kFloat32);
  EXPECT_EQ(relative_error(actual, expected), 0.0);
  actual[2] += 1e-4;
  EXPECT_GT(relative_error(actual, expected), tolerance(torch::kFloat32));
  actual[2] = std::nan("");
  EXPECT_FALSE(relative_error(actual, expected) <= 1e9);
}

// Relative to the largest value of a tensor. float32 and float64 leave room for sums over a few
// hundred terms; the 16-bit types for their own rounding (2^-9 and 2^-12 at the largest value) and
// one rounded intermediate.
double tolerance(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat64:
      return 1e-13;
    case torch::kFloat32:
      return 2e-6;
    case torch::kBFloat16:
      return 6e-3;
    default:
      return 8e-4;
  }
}

}  // namespace sftbench::ops
