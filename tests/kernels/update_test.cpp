#include <cmath>
#include <cstring>

#include "kernels/kernel_test_support.h"
#include "ops/cpu/update.h"
#include "ops/update_impl.h"

namespace sftbench::ops {
namespace baseline {
extern const CpuUpdateKernels kUpdateKernels[3];
}
namespace SFTBENCH_FILE {

RuleFactors<float> some_factors() {
  return {.gradient_scale = 0.75f,
          .decay = 0.99f,
          .l2 = 0.01f,
          .step_size = 0.01f,
          .beta1 = 0.9f,
          .one_minus_beta1 = 0.1f,
          .beta2 = 0.95f,
          .one_minus_beta2 = 0.05f,
          .beta3 = 0.99f,
          .one_minus_beta3 = 0.01f,
          .root_factor = 1.5f,
          .epsilon = 1e-8f,
          .mean_factor = 1.25f,
          .alpha = 2.0f,
          .mix = 0.1f,
          .mixed_step = 0.001f};
}

UpdatedTensor make_tensor(UpdateRule rule, torch::Dtype dtype, torch::Dtype state_dtype,
                          int64_t numel, int64_t offset = 0) {
  const auto part = [&](torch::Dtype of, uint64_t seed) {
    return guarded_normal({numel + offset}, of, seed).narrow(0, offset, numel);
  };
  UpdatedTensor tensor{part(dtype, 1), part(dtype, 2), {}};
  for (int k = 0; k < state_count(rule); ++k)
    tensor.states.push_back(guarded(part(state_dtype, 3 + k).abs()));
  return tensor;
}

UpdatedTensor copy_of(const UpdatedTensor& tensor) {
  UpdatedTensor copy{tensor.parameter.clone(), tensor.gradient, {}};
  for (const Tensor& state : tensor.states) copy.states.push_back(state.clone());
  return copy;
}

void restore(const UpdatedTensor& tensor, const UpdatedTensor& from) {
  tensor.parameter.copy_(from.parameter);
  for (size_t k = 0; k < from.states.size(); ++k) tensor.states[k].copy_(from.states[k]);
}

// The baseline's loops, which fuse no multiply-add, as the host's compilation of the kernel.
void update_on_cpu(UpdateRule rule, const UpdatedTensor& tensor,
                   const RuleFactors<float>& factors) {
  const auto dtype = tensor.parameter.scalar_type();
  const int type = dtype == torch::kBFloat16 ? 1 : dtype == torch::kFloat16 ? 2 : 0;
  const bool wide = !tensor.states.empty() && tensor.states[0].scalar_type() == torch::kFloat32;
  const CpuUpdateKernels& kernels = baseline::kUpdateKernels[type];
  void* states[3] = {};
  for (size_t k = 0; k < tensor.states.size(); ++k) states[k] = tensor.states[k].data_ptr();
  (wide ? kernels.update_float_states : kernels.update)[static_cast<int>(rule)](
      tensor.parameter.data_ptr(), tensor.gradient.data_ptr(), states, tensor.parameter.numel(),
      factors);
}

void expect_updates_equal(UpdateRule rule, const std::vector<UpdatedTensor>& tensors) {
  std::vector<UpdatedTensor> start, expected;
  for (const UpdatedTensor& tensor : tensors) {
    start.push_back(copy_of(tensor));
    expected.push_back(copy_of(tensor));
    update_on_cpu(rule, expected.back(), some_factors());
  }
  for_each_order([&] {
    for (size_t t = 0; t < tensors.size(); ++t) restore(tensors[t], start[t]);
    update_cuda(rule, tensors, some_factors());
    for (size_t t = 0; t < tensors.size(); ++t) {
      EXPECT_TRUE(torch::equal(tensors[t].parameter, expected[t].parameter)) << "tensor " << t;
      for (size_t k = 0; k < tensors[t].states.size(); ++k)
        EXPECT_TRUE(torch::equal(tensors[t].states[k], expected[t].states[k])) << "state " << k;
    }
  });
}

TEST(UpdateKernel, EqualsTheCpuInEveryBitForEveryRule) {
  for (int i = 0; i < kUpdateRules; ++i) {
    const auto rule = static_cast<UpdateRule>(i);
    std::vector<UpdatedTensor> tensors;
    for (const auto dtype : kKernelDtypes) {
      for (const auto state_dtype : {dtype, torch::kFloat32}) {
        for (const int64_t numel : {1, 100, 8192, 16387})
          tensors.push_back(make_tensor(rule, dtype, state_dtype, numel));
        tensors.push_back(make_tensor(rule, dtype, state_dtype, 75, 1));  // not aligned
      }
    }
    expect_updates_equal(rule, tensors);
  }
}

TEST(UpdateKernel, TakesMoreTensorsThanALaunchHolds) {
  std::vector<UpdatedTensor> tensors;
  for (int64_t t = 0; t < 70; ++t)
    tensors.push_back(
        make_tensor(UpdateRule::kAdamW, torch::kBFloat16, torch::kFloat32, 5 + 3 * t));
  expect_updates_equal(UpdateRule::kAdamW, tensors);
}

Tensor on_device(const RuleFactors<float>& factors) {
  Tensor tensor = guarded(torch::empty({kRuleFactors}));
  std::memcpy(tensor.data_ptr(), &factors, sizeof factors);
  return tensor;
}

// What a graph repeats reads its factors from memory.
TEST(UpdateKernel, ReadsFactorsFromTheDevice) {
  const UpdatedTensor by_host =
      make_tensor(UpdateRule::kAdamW, torch::kBFloat16, torch::kFloat32, 9000);
  const UpdatedTensor start = copy_of(by_host), by_device = copy_of(by_host);
  for_each_order([&] {
    restore(by_host, start);
    restore(by_device, start);
    update_cuda(UpdateRule::kAdamW, {by_host}, some_factors());
    update_cuda(UpdateRule::kAdamW, {by_device}, {}, on_device(some_factors()));
    EXPECT_TRUE(torch::equal(by_host.parameter, by_device.parameter));
    EXPECT_FALSE(torch::equal(by_device.parameter, start.parameter));
    for (size_t k = 0; k < by_host.states.size(); ++k)
      EXPECT_TRUE(torch::equal(by_host.states[k], by_device.states[k])) << "state " << k;
  });
}

TEST(UpdateKernel, AGradientScaleThatIsNanChangesNothing) {
  const UpdatedTensor tensor =
      make_tensor(UpdateRule::kAdamW, torch::kFloat32, torch::kFloat32, 100);
  const UpdatedTensor start = copy_of(tensor);
  RuleFactors<float> factors = some_factors();
  factors.gradient_scale = std::nanf("");
  update_cuda(UpdateRule::kAdamW, {tensor}, {}, on_device(factors));
  EXPECT_TRUE(torch::equal(tensor.parameter, start.parameter));
  EXPECT_TRUE(torch::equal(tensor.states[0], start.states[0]));
  EXPECT_TRUE(torch::equal(tensor.states[1], start.states[1]));
}

TEST(UpdateKernel, TakesNothing) {
  update_cuda(UpdateRule::kAdamW, {}, some_factors());
  update_cuda(UpdateRule::kSgd, {{torch::empty({0}), torch::empty({0}), {}}}, some_factors());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
