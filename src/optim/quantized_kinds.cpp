// The names with 8-bit, 4-bit and paged states: which rule, how its states are stored, and the
// rule's factors with the settings that transformers passes. Weight decay shrinks the parameter
// before the update, as in bitsandbytes' CPU kernels and in torchao; its CUDA kernels for AdamW do
// it after, which differs by a factor 1 - lr * weight_decay on the update.
#include "optim/quantized_kinds.h"

#include <cmath>
#include <utility>

#include "optim/quantized.h"

namespace sftbench {
namespace {

using ops::RuleFactors;
using ops::StateBits;
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

QuantizedKind adamw(const char* name, const OptimizerOptions& options) {
  return {name, UpdateRule::kAdamW, StateBits::k8, [options](const StepInfo& info) {
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
QuantizedKind ademamix(const char* name, const OptimizerOptions& options) {
  return {name, UpdateRule::kAdemamix, StateBits::k8, [options](const StepInfo& info) {
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
QuantizedKind lion(const char* name, const OptimizerOptions& options) {
  return {name, UpdateRule::kLion, StateBits::k8, [betas = options.betas](const StepInfo& info) {
            return decoupled(info, betas[0], betas[1]);
          }};
}

// The library's alpha and epsilon: transformers passes neither. Weight decay is coupled.
QuantizedKind rmsprop(const char* name) {
  return {name, UpdateRule::kRmsprop, StateBits::k8, [](const StepInfo& info) {
            RuleFactors<double> factors;
            factors.l2 = info.weight_decay;
            factors.step_size = info.learning_rate;
            factors.beta2 = 0.99;
            factors.one_minus_beta2 = 1.0 - factors.beta2;
            factors.epsilon = 1e-8;
            return factors;
          }};
}

QuantizedKind paged(QuantizedKind kind) {
  kind.paged = true;
  return kind;
}

QuantizedKind paged_32bit(QuantizedKind kind) {
  kind.bits.reset();
  return paged(std::move(kind));
}

}  // namespace

#define SFTBENCH_QUANTIZED(FACTORY, KIND)                                                \
  std::unique_ptr<Optimizer> FACTORY(std::vector<ParameterGroup> groups,                 \
                                     [[maybe_unused]] const OptimizerOptions& options) { \
    return make_quantized(std::move(groups), KIND);                                      \
  }

SFTBENCH_QUANTIZED(make_adamw_8bit, adamw("adamw_8bit", options))
SFTBENCH_QUANTIZED(make_ademamix_8bit, ademamix("ademamix_8bit", options))
SFTBENCH_QUANTIZED(make_lion_8bit, lion("lion_8bit", options))
SFTBENCH_QUANTIZED(make_rmsprop_8bit, rmsprop("rmsprop_bnb_8bit"))
SFTBENCH_QUANTIZED(make_paged_adamw_32bit, paged_32bit(adamw("paged_adamw_32bit", options)))
SFTBENCH_QUANTIZED(make_paged_adamw_8bit, paged(adamw("paged_adamw_8bit", options)))
SFTBENCH_QUANTIZED(make_paged_ademamix_32bit,
                   paged_32bit(ademamix("paged_ademamix_32bit", options)))
SFTBENCH_QUANTIZED(make_paged_ademamix_8bit, paged(ademamix("paged_ademamix_8bit", options)))
SFTBENCH_QUANTIZED(make_paged_lion_32bit, paged_32bit(lion("paged_lion_32bit", options)))
SFTBENCH_QUANTIZED(make_paged_lion_8bit, paged(lion("paged_lion_8bit", options)))

// transformers asks for blocks of 256; without bfloat16 stochastic rounding.
std::unique_ptr<Optimizer> make_adamw_4bit(std::vector<ParameterGroup> groups,
                                           const OptimizerOptions& options) {
  QuantizedKind kind = adamw("adamw_torch_4bit", options);
  kind.bits = StateBits::k4;
  kind.wide_dtype = StateDtype::kAsParameter;
  kind.embeddings_stay_wide = false;
  kind.whole_blocks_only = true;
  return make_quantized(std::move(groups), std::move(kind));
}

}  // namespace sftbench
