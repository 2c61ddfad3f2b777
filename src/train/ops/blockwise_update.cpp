#include "sftbench/ops/blockwise_update.h"

#include <algorithm>

#include "ops/blockwise_quantize_impl.h"
#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kRangeNumel = 64 * kQuantBlockNumel;

StateBits bits_of(const BlockwiseTensor& tensor) {
  return has_four_bits(tensor.states.front().map) ? StateBits::k4 : StateBits::k8;
}

bool is_supported(UpdateRule rule, StateBits bits) {
  if (bits == StateBits::k4) return rule == UpdateRule::kAdamW;
  return rule == UpdateRule::kRmsprop || rule == UpdateRule::kLion || rule == UpdateRule::kAdamW ||
         rule == UpdateRule::kAdemamix;
}

QuantMap map_of(UpdateRule rule, size_t state, StateBits bits) {
  const auto count = static_cast<size_t>(state_count(rule));
  const bool has_sign = count == 1 || state + 1 < count;
  if (bits == StateBits::k4) return has_sign ? QuantMap::kSigned4 : QuantMap::kUnsigned4;
  return has_sign ? QuantMap::kSigned8 : QuantMap::kUnsigned8;
}

void check_state(const QuantizedTensor& state, QuantMap map, int64_t numel) {
  const int64_t bytes = has_four_bits(map) ? (numel + 1) / 2 : numel;
  const int64_t blocks = (numel + kQuantBlockNumel - 1) / kQuantBlockNumel;
  const bool fits = state.map == map && state.codes.scalar_type() == torch::kUInt8 &&
                    state.codes.numel() == bytes && state.scales.scalar_type() == torch::kFloat32 &&
                    state.scales.numel() == blocks;
  require(fits, "blockwise_update",
          "a state must be zero_states() of the parameter, with " + std::to_string(bytes) +
              " bytes of codes and " + std::to_string(blocks) + " scales",
          describe(state.codes) + " and " + describe(state.scales));
}

void check_tensor(UpdateRule rule, const BlockwiseTensor& tensor) {
  const Tensor& parameter = tensor.parameter;
  require_float(parameter, "blockwise_update", "parameter");
  require(parameter.scalar_type() != torch::kFloat64, "blockwise_update",
          "parameter must be float32, bfloat16 or float16", describe(parameter));
  require_like(tensor.gradient, "blockwise_update", "gradient", parameter.sizes().vec(), parameter);
  const auto count = static_cast<size_t>(state_count(rule));
  require(tensor.states.size() == count, "blockwise_update",
          "there must be " + std::to_string(count) + " states",
          std::to_string(tensor.states.size()));
  const StateBits bits = bits_of(tensor);
  require(is_supported(rule, bits), "blockwise_update", "the rule must have quantized states",
          "rule " + std::to_string(static_cast<int>(rule)));
  for (size_t k = 0; k < count; ++k) {
    check_state(tensor.states[k], map_of(rule, k, bits), parameter.numel());
  }
}

bool runs_on_kernels(const BlockwiseTensor& tensor) {
  return has_cpu_kernels(tensor.parameter) && tensor.parameter.is_contiguous() &&
         tensor.gradient.is_contiguous();
}

BlockwiseLoop loop_of(UpdateRule rule, const BlockwiseTensor& tensor) {
  const auto dtype = tensor.parameter.scalar_type();
  const int type = dtype == torch::kBFloat16 ? 1 : dtype == torch::kFloat16 ? 2 : 0;
  const BlockwiseKernels& kernels = blockwise_kernels();
  if (bits_of(tensor) == StateBits::k4) return kernels.update4[type];
  return kernels.update8[type][static_cast<int>(rule)];
}

BlockwiseRange range_of(const BlockwiseTensor& tensor, int64_t begin) {
  BlockwiseRange range{};
  range.parameter = element(tensor.parameter, begin);
  range.gradient = element(tensor.gradient, begin);
  range.numel = std::min(kRangeNumel, tensor.parameter.numel() - begin);
  for (size_t k = 0; k < tensor.states.size(); ++k) {
    const QuantizedTensor& state = tensor.states[k];
    range.codes[k] =
        state.codes.data_ptr<uint8_t>() + (has_four_bits(state.map) ? begin / 2 : begin);
    range.scales[k] = state.scales.data_ptr<float>() + begin / kQuantBlockNumel;
  }
  return range;
}

// Many tensors as one sequence of ranges, so that threads share the work by elements.
void run_loops(UpdateRule rule, const std::vector<BlockwiseTensor>& tensors,
               const RuleFactors<float>& factors) {
  struct Work {
    const BlockwiseTensor* tensor;
    int64_t begin;
  };
  std::vector<Work> work;
  for (const BlockwiseTensor& tensor : tensors) {
    for (int64_t begin = 0; begin < tensor.parameter.numel(); begin += kRangeNumel) {
      work.push_back({&tensor, begin});
    }
  }
  at::parallel_for(0, static_cast<int64_t>(work.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      loop_of(rule, *work[i].tensor)(range_of(*work[i].tensor, work[i].begin), factors);
    }
  });
}

void update_elsewhere(UpdateRule rule, const BlockwiseTensor& tensor,
                      const RuleFactors<double>& factors) {
#ifdef SFTBENCH_CUDA
  if (bits_of(tensor) == StateBits::k8 && tensor.parameter.is_cuda() &&
      tensor.parameter.is_contiguous() && tensor.gradient.is_contiguous()) {
    blockwise_update_cuda(rule, tensor, factors.as<float>());
    return;
  }
#endif
  blockwise_update_aten(rule, tensor, factors);
}

}  // namespace

std::vector<QuantizedTensor> zero_states(UpdateRule rule, StateBits bits, const Tensor& parameter) {
  require(is_supported(rule, bits), "zero_states", "the rule must have quantized states",
          "rule " + std::to_string(static_cast<int>(rule)));
  std::vector<QuantizedTensor> states;
  for (int k = 0; k < state_count(rule); ++k) {
    states.push_back(zero_quantized(map_of(rule, static_cast<size_t>(k), bits), parameter.numel(),
                                    parameter.device()));
  }
  return states;
}

void blockwise_update(UpdateRule rule, const std::vector<BlockwiseTensor>& tensors,
                      const RuleFactors<double>& factors) {
  const torch::NoGradGuard no_grad;
  for (const BlockwiseTensor& tensor : tensors) check_tensor(rule, tensor);
  if (std::all_of(tensors.begin(), tensors.end(), runs_on_kernels)) {
    run_loops(rule, tensors, factors.as<float>());
    return;
  }
  for (const BlockwiseTensor& tensor : tensors) update_elsewhere(rule, tensor, factors);
}

}  // namespace sftbench::ops
