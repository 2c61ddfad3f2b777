#include "sftbench/ops/update.h"

#include <algorithm>
#include <iterator>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/update_dispatch.h"
#include "ops/update_impl.h"
#include "sftbench/base/torch.h"

// The rules once more, on tensors.
#define SFTBENCH_ISA aten
namespace sftbench::ops::aten {
inline torch::Tensor square_root(const torch::Tensor& v) {
  return v.sqrt();
}
inline torch::Tensor sign_of(const torch::Tensor& v) {
  return v.sign();
}
}  // namespace sftbench::ops::aten
#include "ops/update_rules.h"

namespace sftbench::ops {

namespace baseline {
extern const CpuUpdateKernels kUpdateKernels[3];
}
namespace avx2 {
extern const CpuUpdateKernels kUpdateKernels[3];
}
namespace avx512 {
extern const CpuUpdateKernels kUpdateKernels[3];
}

namespace {

const CpuUpdateKernels* table_of(CpuInstructions instructions) {
  switch (instructions) {
    case CpuInstructions::kBaseline:
      return baseline::kUpdateKernels;
    case CpuInstructions::kAvx2:
      return avx2::kUpdateKernels;
    default:
      return avx512::kUpdateKernels;
  }
}

CpuType cpu_type(const torch::Tensor& tensor) {
  if (tensor.scalar_type() == torch::kBFloat16) return CpuType::kBFloat16;
  return tensor.scalar_type() == torch::kFloat16 ? CpuType::kFloat16 : CpuType::kFloat32;
}

}  // namespace

const CpuUpdateKernels& cpu_update_kernels(const torch::Tensor& parameter) {
  return table_of(cpu_instructions())[static_cast<int>(cpu_type(parameter))];
}

namespace {

using torch::Tensor;

constexpr int kMaxStates = 3;
constexpr int64_t kLoopNumel = 16384;
constexpr int64_t kAtenNumel = int64_t{1} << 24;

void check_tensors(UpdateRule rule, const UpdatedTensor& updated) {
  const Tensor& parameter = updated.parameter;
  require_float(parameter, "update", "parameter");
  require_like(updated.gradient, "update", "gradient", parameter.sizes().vec(), parameter);
  const auto wanted = static_cast<size_t>(state_count(rule));
  require(updated.states.size() == wanted, "update",
          "there must be " + std::to_string(wanted) + " states",
          std::to_string(updated.states.size()));
  for (const Tensor& state : updated.states) {
    const bool fits =
        state.defined() && state.sizes() == parameter.sizes() &&
        state.device() == parameter.device() &&
        (state.scalar_type() == parameter.scalar_type() || state.scalar_type() == torch::kFloat32);
    require(fits, "update", "a state must be " + describe(parameter) + " or float32",
            describe(state));
  }
}

bool is_dense(const UpdatedTensor& updated) {
  const auto same_dtype = [&](const Tensor& state) {
    return state.is_contiguous() && state.scalar_type() == updated.states[0].scalar_type();
  };
  return updated.parameter.is_contiguous() &&
         std::all_of(updated.states.begin(), updated.states.end(), same_dtype);
}

// A tensor's loop with the addresses that it starts from.
struct Loop {
  UpdateLoop run;
  Tensor gradient;  // contiguous
  const UpdatedTensor* tensors;

  void block(int64_t begin, int64_t numel, const RuleFactors<float>& factors) const {
    void* states[kMaxStates] = {};
    for (size_t s = 0; s < tensors->states.size(); ++s) {
      states[s] = element(tensors->states[s], begin);
    }
    run(element(tensors->parameter, begin), element(gradient, begin), states, numel, factors);
  }
};

Loop loop_of(UpdateRule rule, const UpdatedTensor& updated) {
  const CpuUpdateKernels& kernels = cpu_update_kernels(updated.parameter);
  const bool wide = !updated.states.empty() && updated.states[0].scalar_type() == torch::kFloat32;
  const auto& table = wide ? kernels.update_float_states : kernels.update;
  return {table[static_cast<int>(rule)], updated.gradient.contiguous(), &updated};
}

// Many tensors as one sequence of blocks, so that threads share the work by elements, not by
// tensors.
void run_loops(const std::vector<Loop>& loops, const RuleFactors<float>& factors) {
  struct Span {
    const Loop* loop;
    int64_t begin;
  };
  std::vector<Span> blocks;
  for (const Loop& loop : loops) {
    for (int64_t begin = 0; begin < loop.gradient.numel(); begin += kLoopNumel) {
      blocks.push_back({&loop, begin});
    }
  }
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto& [loop, begin] = blocks[i];
      loop->block(begin, std::min(kLoopNumel, loop->gradient.numel() - begin), factors);
    }
  });
}

template <class Rule>
void apply_to_slice(const UpdatedTensor& updated, const RuleFactors<double>& factors) {
  const bool is_double = updated.parameter.scalar_type() == torch::kFloat64;
  const auto wide = is_double ? torch::kFloat64 : torch::kFloat32;
  Tensor value = updated.parameter.to(wide), states[kMaxStates];
  for (size_t s = 0; s < updated.states.size(); ++s) states[s] = updated.states[s].to(wide);
  const Tensor gradient = updated.gradient.to(wide) * factors.gradient_scale;
  Rule::apply(value, gradient, states, factors);
  updated.parameter.copy_(value);
  for (size_t s = 0; s < updated.states.size(); ++s) updated.states[s].copy_(states[s]);
}

UpdatedTensor slice_of(const UpdatedTensor& updated, int64_t begin, int64_t numel) {
  const auto part = [&](const Tensor& tensor) { return tensor.view(-1).narrow(0, begin, numel); };
  UpdatedTensor slice{part(updated.parameter), part(updated.gradient), {}};
  for (const Tensor& state : updated.states) slice.states.push_back(part(state));
  return slice;
}

// A rule needs up to eight tensors of float32: of a slice, not of an embedding.
template <class Rule>
void apply_on_aten(const UpdatedTensor& updated, const RuleFactors<double>& factors) {
  const int64_t numel = updated.parameter.numel();
  const auto contiguous = [](const Tensor& tensor) { return tensor.is_contiguous(); };
  const bool divisible = contiguous(updated.parameter) && contiguous(updated.gradient) &&
                         std::all_of(updated.states.begin(), updated.states.end(), contiguous);
  if (!divisible || numel <= kAtenNumel) return apply_to_slice<Rule>(updated, factors);
  for (int64_t begin = 0; begin < numel; begin += kAtenNumel) {
    const int64_t count = std::min(kAtenNumel, numel - begin);
    apply_to_slice<Rule>(slice_of(updated, begin, count), factors);
  }
}

void run_on_aten(UpdateRule rule, const UpdatedTensor& updated,
                 const RuleFactors<double>& factors) {
  using Apply = void (*)(const UpdatedTensor&, const RuleFactors<double>&);
  static constexpr Apply kApply[] = {apply_on_aten<aten::SgdRule>,
                                     apply_on_aten<aten::RmspropRule>,
                                     apply_on_aten<aten::LionRule>,
                                     apply_on_aten<aten::AdamWRule>,
                                     apply_on_aten<aten::AdemamixRule>,
                                     apply_on_aten<aten::GrokAdamWRule>,
                                     apply_on_aten<aten::ScheduleFreeSgdRule>,
                                     apply_on_aten<aten::ScheduleFreeAdamWRule>};
  static_assert(std::size(kApply) == kUpdateRules);
  kApply[static_cast<int>(rule)](updated, factors);
}

}  // namespace

void update(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
            const RuleFactors<double>& factors) {
  const torch::NoGradGuard no_grad;
  for (const UpdatedTensor& updated : tensors) check_tensors(rule, updated);
  std::vector<Loop> loops;
  std::vector<UpdatedTensor> on_gpu;
  for (const UpdatedTensor& updated : tensors) {
    if (has_cpu_kernels(updated.parameter) && is_dense(updated)) {
      loops.push_back(loop_of(rule, updated));
    } else if (has_cuda_kernels(updated.parameter) && is_dense(updated)) {
      on_gpu.push_back({updated.parameter, updated.gradient.contiguous(), updated.states});
    } else {
      run_on_aten(rule, updated, factors);
    }
  }
  run_loops(loops, factors.as<float>());
#if SFTBENCH_CUDA
  update_cuda(rule, on_gpu, factors.as<float>());
#endif
}

void repeatable_update(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
                       const Tensor& factors) {
  require(factors.defined() && factors.scalar_type() == torch::kFloat32 &&
              factors.is_contiguous() && factors.numel() == kRuleFactors,
          "update", "factors must be float32 [" + std::to_string(kRuleFactors) + "]",
          describe(factors));
  std::vector<UpdatedTensor> on_gpu;
  for (const UpdatedTensor& updated : tensors) {
    check_tensors(rule, updated);
    require(has_cuda_kernels(updated.parameter) && is_dense(updated), "update",
            "factors on a device need tensors that a kernel there updates",
            describe(updated.parameter));
    on_gpu.push_back({updated.parameter, updated.gradient.contiguous(), updated.states});
  }
#if SFTBENCH_CUDA
  update_cuda(rule, on_gpu, {}, factors);
#endif
}

}  // namespace sftbench::ops
