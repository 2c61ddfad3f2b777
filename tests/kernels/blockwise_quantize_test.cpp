#include "kernels/kernel_test_support.h"
#include "ops/blockwise_quantize_impl.h"

namespace sftbench::ops {
namespace baseline {
extern const BlockwiseKernels kBlockwiseKernels;
}
namespace SFTBENCH_FILE {

constexpr UpdateRule kRules[] = {UpdateRule::kRmsprop, UpdateRule::kLion, UpdateRule::kAdamW,
                                 UpdateRule::kAdemamix};

BlockwiseTensor make_tensor(UpdateRule rule, torch::Dtype dtype, int64_t numel) {
  BlockwiseTensor tensor;
  tensor.parameter = guarded_normal({numel}, dtype, 1);
  tensor.gradient = guarded_normal({numel}, dtype, 2);
  tensor.states = zero_states(rule, StateBits::k8, tensor.parameter);
  for (QuantizedTensor& state : tensor.states) {
    state.codes = guarded(state.codes);
    state.scales = guarded(state.scales);
  }
  return tensor;
}

BlockwiseTensor copy_of(const BlockwiseTensor& tensor) {
  BlockwiseTensor copy = tensor;
  copy.parameter = guarded(tensor.parameter);
  for (QuantizedTensor& state : copy.states) {
    state.codes = guarded(state.codes);
    state.scales = guarded(state.scales);
  }
  return copy;
}

// The baseline's loops, which fuse no multiply-add, as the host's compilation of the kernel.
void update_on_cpu(UpdateRule rule, const BlockwiseTensor& tensor,
                   const RuleFactors<float>& factors) {
  const auto dtype = tensor.parameter.scalar_type();
  const int type = dtype == torch::kBFloat16 ? 1 : dtype == torch::kFloat16 ? 2 : 0;
  BlockwiseRange range{
      tensor.parameter.data_ptr(), tensor.gradient.data_ptr(), {}, {}, tensor.parameter.numel()};
  for (size_t k = 0; k < tensor.states.size(); ++k) {
    range.codes[k] = tensor.states[k].codes.data_ptr<uint8_t>();
    range.scales[k] = tensor.states[k].scales.data_ptr<float>();
  }
  baseline::kBlockwiseKernels.update8[type][static_cast<int>(rule)](range, factors);
}

RuleFactors<float> some_factors() {
  RuleFactors<float> f;
  f.gradient_scale = 0.75f;
  f.decay = 0.99f;
  f.step_size = 0.01f;
  f.beta1 = 0.9f;
  f.one_minus_beta1 = 0.1f;
  f.beta2 = 0.95f;
  f.one_minus_beta2 = 0.05f;
  f.beta3 = 0.99f;
  f.one_minus_beta3 = 0.01f;
  f.root_factor = 1.5f;
  f.epsilon = 1e-8f;
  f.mean_factor = 1.25f;
  f.alpha = 2.0f;
  return f;
}

void expect_same(const BlockwiseTensor& actual, const BlockwiseTensor& expected) {
  EXPECT_TRUE(torch::equal(actual.parameter, expected.parameter));
  for (size_t k = 0; k < expected.states.size(); ++k) {
    EXPECT_TRUE(torch::equal(actual.states[k].codes, expected.states[k].codes)) << "state " << k;
    EXPECT_TRUE(torch::equal(actual.states[k].scales, expected.states[k].scales)) << "state " << k;
  }
}

TEST(BlockwiseUpdateKernel, EqualsTheCpuInEveryBit) {
  const RuleFactors<float> factors = some_factors();
  for (const UpdateRule rule : kRules) {
    for (const auto dtype : kKernelDtypes) {
      for (const int64_t numel : {1, 255, 256, 257, 5000}) {
        const BlockwiseTensor start = make_tensor(rule, dtype, numel);
        const BlockwiseTensor expected = copy_of(start);
        for (int step = 0; step < 3; ++step) update_on_cpu(rule, expected, factors);
        for_each_order([&] {
          const BlockwiseTensor actual = copy_of(start);
          for (int step = 0; step < 3; ++step) blockwise_update_cuda(rule, actual, factors);
          expect_same(actual, expected);
        });
      }
    }
  }
}

TEST(BlockwiseUpdateKernel, LeavesOutGradientsThatAreNotFinite) {
  const RuleFactors<float> factors = some_factors();
  for (const UpdateRule rule : kRules) {
    const BlockwiseTensor start = make_tensor(rule, torch::kFloat32, 300);
    start.gradient[7] = std::numeric_limits<float>::infinity();
    start.gradient[260] = std::numeric_limits<float>::quiet_NaN();
    const BlockwiseTensor expected = copy_of(start), actual = copy_of(start);
    update_on_cpu(rule, expected, factors);
    blockwise_update_cuda(rule, actual, factors);
    for (size_t k = 0; k < expected.states.size(); ++k)
      EXPECT_TRUE(torch::equal(actual.states[k].codes, expected.states[k].codes));
    EXPECT_TRUE(torch::allclose(actual.parameter, expected.parameter, 0, 0, /*equal_nan=*/true));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
