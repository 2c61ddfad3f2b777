// The names with 8-bit, 4-bit and paged states: which rule, how its states are stored, and the
// rule's factors with the settings that transformers passes. Weight decay shrinks the parameter
// before the update, as in bitsandbytes' CPU kernels and in torchao; its CUDA kernels for AdamW do
// it after, which differs by a factor 1 - lr * weight_decay on the update.
#include "optim/quantized_kinds.h"

#include <cmath>
#include <utility>

#include "optim/quantized.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

using ops::RuleFactors;
using ops::UpdateRule;

RuleFactors<double> decoupled(const StepInfo& info, double beta1, double beta2) {
  RuleFactors<double> factors;
  factors.decay = 1.0 - info.learning_rate * info.weight_decay;
  factors.step_size = info.learning_rate;
  factors.beta1 = beta1;
  factors.one_minus_beta1 = 1.0 - beta1;
  factors.beta2 = beta2;
  factors.one_minus_beta2 = 1.0 - beta2;
  return factors;
}

QuantizedKind adamw(OptimizerKind kind, const OptimizerOptions& options) {
  return {kind, UpdateRule::kAdamW, [options](const StepInfo& info) {
            const auto [beta1, beta2] = options.betas;
            const auto t = static_cast<double>(info.step);
            RuleFactors<double> factors = decoupled(info, beta1, beta2);
            factors.step_size = info.learning_rate / (1.0 - std::pow(beta1, t));
            factors.root_factor = 1.0 / std::sqrt(1.0 - std::pow(beta2, t));
            factors.epsilon = options.epsilon;
            return factors;
          }};
}

// beta3 0.9999 and alpha 5 from the first step on; the slow mean has no bias correction.
QuantizedKind ademamix(OptimizerKind kind, const OptimizerOptions& options) {
  return {kind, UpdateRule::kAdemamix, [options](const StepInfo& info) {
            const auto [beta1, beta2] = options.betas;
            const auto t = static_cast<double>(info.step);
            RuleFactors<double> factors = decoupled(info, beta1, beta2);
            factors.beta3 = 0.9999;
            factors.one_minus_beta3 = 1.0 - factors.beta3;
            factors.alpha = 5.0;
            factors.mean_factor = 1.0 / (1.0 - std::pow(beta1, t));
            factors.root_factor = 1.0 / std::sqrt(1.0 - std::pow(beta2, t));
            factors.epsilon = options.epsilon;
            return factors;
          }};
}

// The betas of Adam, not the 0.9 and 0.99 of the library.
QuantizedKind lion(OptimizerKind kind, const OptimizerOptions& options) {
  return {kind, UpdateRule::kLion, [betas = options.betas](const StepInfo& info) {
            return decoupled(info, betas[0], betas[1]);
          }};
}

// The library's alpha and epsilon: transformers passes neither. Weight decay is coupled.
QuantizedKind rmsprop(OptimizerKind kind) {
  return {kind, UpdateRule::kRmsprop, [](const StepInfo& info) {
            RuleFactors<double> factors;
            factors.l2 = info.weight_decay;
            factors.step_size = info.learning_rate;
            factors.beta2 = 0.99;
            factors.one_minus_beta2 = 1.0 - factors.beta2;
            factors.epsilon = 1e-8;
            return factors;
          }};
}

QuantizedKind quantized_kind(OptimizerKind kind, const OptimizerOptions& options) {
  switch (kind) {
    case OptimizerKind::kAdamw8bit:
    case OptimizerKind::kAdamwBnb8bit:
    case OptimizerKind::kAdamwTorch4bit:  // transformers asks torchao for blocks of 256
    case OptimizerKind::kPagedAdamw32bit:
    case OptimizerKind::kPagedAdamw8bit:
      return adamw(kind, options);
    case OptimizerKind::kAdemamix8bit:
    case OptimizerKind::kPagedAdemamix32bit:
    case OptimizerKind::kPagedAdemamix8bit:
      return ademamix(kind, options);
    case OptimizerKind::kLion8bit:
    case OptimizerKind::kPagedLion32bit:
    case OptimizerKind::kPagedLion8bit:
      return lion(kind, options);
    case OptimizerKind::kRmspropBnb8bit:
      return rmsprop(kind);
    default:
      break;
  }
  check(false, "only kinds with quantized or paged states come here");
  return {};
}

}  // namespace

std::unique_ptr<Optimizer> make_quantized(OptimizerKind kind, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options, int64_t paged_at_once) {
  QuantizedKind quantized = quantized_kind(kind, options);
  quantized.paged_at_once = paged_at_once;
  return make_quantized(std::move(groups), std::move(quantized));
}

}  // namespace sftbench
