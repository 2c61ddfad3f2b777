// The element-wise update rules of the optimizers: each a function of one parameter element, its
// gradient and its states. The text of the rules (src/train/ops/update_rules.h) is written once and
// runs on vector registers, on ATen tensors, and inside kernels that keep their states quantized.
#pragma once

namespace sftbench::ops {

enum class UpdateRule {
  kSgd,                // no state
  kRmsprop,            // mean of squares; with beta2 = one_minus_beta2 = 1 Adagrad's sum of squares
  kLion,               // mean
  kAdamW,              // mean, mean of squares
  kAdemamix,           // fast mean, slow mean, mean of squares
  kGrokAdamW,          // mean, mean of squares, slow mean of the gradient
  kScheduleFreeSgd,    // z
  kScheduleFreeAdamW,  // z, mean of squares
};
inline constexpr int kUpdateRules = 8;

constexpr int state_count(UpdateRule rule) {
  constexpr int kCounts[kUpdateRules] = {0, 1, 1, 2, 3, 3, 1, 2};
  return kCounts[static_cast<int>(rule)];
}

// The factors of all rules, the same for every element of a tensor; a rule reads those that it
// names. What depends on the step (bias corrections, schedules) is worked out beforehand, in
// double.
template <class Real>
struct RuleFactors {
  Real gradient_scale = 1;  // on the gradient, before anything else: clipping, loss scaling
  Real decay = 1;           // on the parameter: decoupled weight decay
  Real l2 = 0;              // of the parameter, added to the gradient: coupled weight decay
  Real step_size = 0;
  Real beta1 = 0, one_minus_beta1 = 1;
  Real beta2 = 0, one_minus_beta2 = 1;
  Real beta3 = 0, one_minus_beta3 = 1;  // of the slow mean
  Real root_factor = 1;                 // on the root of the mean of squares
  Real epsilon = 0;                     // added after that
  Real mean_factor = 1;                 // on the fast mean
  Real alpha = 0;                       // on the slow mean
  Real mix = 0;                         // schedule-free: the share of z in the parameter
  Real mixed_step = 0;                  // schedule-free: the parameter's own step

  template <class Other>
  RuleFactors<Other> as() const {
    const auto to = [](Real value) { return static_cast<Other>(value); };
    return {to(gradient_scale), to(decay),           to(l2),          to(step_size),
            to(beta1),          to(one_minus_beta1), to(beta2),       to(one_minus_beta2),
            to(beta3),          to(one_minus_beta3), to(root_factor), to(epsilon),
            to(mean_factor),    to(alpha),           to(mix),         to(mixed_step)};
  }
};

}  // namespace sftbench::ops
