#include "sftbench/ops/causal_convolution.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr auto kNone = ConvolutionActivation::kNone, kSilu = ConvolutionActivation::kSilu;

// Mamba's conv1d: padded on the left, cut at the length. weight [C, 1, K].
Tensor one_sequence(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    ConvolutionActivation activation) {
  const int64_t taps = weight.size(2);
  const Tensor y = at::conv1d(x.transpose(1, 2), weight, bias, /*stride=*/1, /*padding=*/taps - 1,
                              /*dilation=*/1, /*groups=*/weight.size(0))
                       .slice(2, 0, x.size(1))
                       .transpose(1, 2);
  return activation == kSilu ? at::silu(y) : y;
}

Tensor reference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 ConvolutionActivation activation, const PackedSequences& packed = {}) {
  if (packed.empty()) return one_sequence(x, weight, bias, activation);
  std::vector<Tensor> parts;
  for (size_t i = 0; i + 1 < packed.offsets.size(); ++i) {
    parts.push_back(one_sequence(x.slice(1, packed.offsets[i], packed.offsets[i + 1]), weight, bias,
                                 activation));
  }
  return torch::cat(parts, 1);
}

struct Case {
  int64_t batch, length, channels, taps;
  std::vector<int64_t> lengths;
};

// Sequences shorter than the taps; more positions and channels than a block has; taps of another
// number than Mamba's.
const std::vector<Case> kCases = {{1, 1, 1, 4, {}},
                                  {2, 2, 17, 4, {}},
                                  {3, 40, 64, 4, {}},
                                  {1, 300, 530, 4, {}},
                                  {2, 9, 33, 1, {}},
                                  {2, 30, 20, 7, {}},
                                  {1, 30, 24, 4, {1, 2, 3, 4, 5, 15}},
                                  {1, 520, 16, 3, {260, 1, 259}}};

TEST(CausalConvolution, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const PackedSequences packed = packed_sequences(c.lengths, test_device());
      for (const auto activation : {kNone, kSilu}) {
        expect_op_matches(
            "causal_convolution " + std::to_string(c.length),
            [&](const auto& in) {
              return causal_convolution(in[0], in[1], in[2], activation, packed);
            },
            [&](const auto& in) { return reference(in[0], in[1], in[2], activation, packed); },
            {random_tensor({c.batch, c.length, c.channels}, dtype, 1),
             random_tensor({c.channels, 1, c.taps}, dtype, 2),
             random_tensor({c.channels}, dtype, 3)},
            /*slack=*/2.0);
      }
    }
  }
}

TEST(CausalConvolution, MatchesWithoutBiasForASliceOfAProjection) {
  for (const auto dtype : kDtypes) {
    for (const int64_t batch : {1, 3}) {
      expect_op_matches(
          "causal_convolution of a slice",
          [](const auto& in) {
            return causal_convolution(in[0].slice(2, 5, 45), in[1], {}, kSilu);
          },
          [](const auto& in) {
            return reference(in[0].slice(2, 5, 45), in[1].unsqueeze(1), {}, kSilu);
          },
          {random_tensor({batch, 12, 60}, dtype, 1), random_tensor({40, 4}, dtype, 2)});
    }
  }
}

TEST(CausalConvolution, MatchesForTransposedInput) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "causal_convolution transposed",
        [](const auto& in) { return causal_convolution(in[0].transpose(1, 2), in[1], {}, kNone); },
        [](const auto& in) {
          return reference(in[0].transpose(1, 2), in[1].unsqueeze(1), {}, kNone);
        },
        {random_tensor({2, 10, 7}, dtype, 1), random_tensor({10, 4}, dtype, 2)});
  }
}

TEST(CausalConvolution, NoPositionsHaveGradientsOfZero) {
  for (const auto dtype : kDtypes) {
    const Tensor x = leaf(random_tensor({1, 0, 8}, dtype, 1));
    const Tensor weight = leaf(random_tensor({8, 4}, dtype, 2));
    const Tensor y = causal_convolution(x, weight, {}, kSilu);
    EXPECT_EQ(y.sizes(), x.sizes());
    y.sum().backward();
    EXPECT_EQ(weight.grad().abs().max().item<double>(), 0);
  }
}

TEST(CausalConvolution, AddsToTheGradientsThatAreThere) {
  const Tensor x = random_tensor({1, 20, 8}, torch::kFloat32, 1);
  const Tensor weight = leaf(random_tensor({8, 1, 4}, torch::kFloat32, 2));
  const Tensor bias = leaf(random_tensor({8}, torch::kFloat32, 3));
  causal_convolution(x, weight, bias, kSilu).sum().backward();
  const Tensor once = weight.grad().clone(), bias_once = bias.grad().clone();
  void* const storage = weight.grad().data_ptr();
  causal_convolution(x, weight, bias, kSilu).sum().backward();
  expect_close("weight", weight.grad(), 2 * once);
  expect_close("bias", bias.grad(), 2 * bias_once);
  EXPECT_EQ(weight.grad().data_ptr(), storage);
}

TEST(CausalConvolution, SumsDoNotDependOnThreads) {
  const auto gradient = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const Tensor weight = leaf(random_tensor({600, 4}, torch::kFloat32, 2));
    const Tensor x = random_tensor({2, 700, 600}, torch::kFloat32, 1);
    causal_convolution(x, weight, {}, kSilu).sum().backward();
    at::set_num_threads(before);
    return weight.grad();
  };
  EXPECT_TRUE(gradient(1).equal(gradient(2)));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no exception";
}

TEST(CausalConvolution, WrongShapesAreRefused) {
  const Tensor x = torch::zeros({2, 5, 8}), weight = torch::zeros({8, 1, 4});
  EXPECT_EQ(error_of([&] { causal_convolution(x[0], weight, {}, kNone); }),
            "causal_convolution: x must be [B, S, C], got float32 [5, 8] on cpu");
  EXPECT_EQ(error_of([&] {
              causal_convolution(x, torch::zeros({7, 1, 4}), {}, kNone);
            }),
            "causal_convolution: weight must be float32 [8, 1, *] on cpu, got float32 [7, 1, 4] on "
            "cpu");
  EXPECT_EQ(error_of([&] {
              causal_convolution(x, torch::zeros({7, 4}), {}, kNone);
            }),
            "causal_convolution: weight must be float32 [8, *] on cpu, got float32 [7, 4] on cpu");
  EXPECT_EQ(error_of([&] {
              causal_convolution(x, torch::zeros({8, 0}), {}, kNone);
            }),
            "causal_convolution: the weight must have a tap, got float32 [8, 0] on cpu");
  EXPECT_EQ(error_of([&] { causal_convolution(x, weight, torch::zeros({7}), kNone); }),
            "causal_convolution: bias must be float32 [8] on cpu, got float32 [7] on cpu");
  EXPECT_EQ(error_of([&] {
              causal_convolution(x, weight, {}, kNone, packed_sequences({2, 3}, torch::kCPU));
            }),
            "causal_convolution: packed sequences of 5 positions must fill x's only row, got "
            "float32 [2, 5, 8] on cpu");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
