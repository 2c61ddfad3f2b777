// What each update rule does to one value: `V` is a vector of floats or a tensor, `factors` are
// RuleFactors of float or double. The gradient `g` comes scaled. Included into a namespace of its
// own per instruction set (and "aten"), where square_root(V) and sign_of(V) must be known, so that
// no two compilations share a function.
#pragma once

#include "sftbench/ops/update_rule.h"

namespace sftbench::ops::SFTBENCH_ISA {

#ifndef SFTBENCH_RULE  // CUDA has its own
#define SFTBENCH_RULE static inline __attribute__((always_inline)) void
#endif

struct SgdRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V*, const Factors& f) {
    p = p * f.decay - (g + p * f.l2) * f.step_size;
  }
};

// torch.optim.RMSprop (epsilon outside the root, no bias correction) and torch.optim.Adagrad.
struct RmspropRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& squares = state[0];
    const V slope = g + p * f.l2;
    squares = squares * f.beta2 + slope * slope * f.one_minus_beta2;
    p = p - slope * f.step_size / (square_root(squares) * f.root_factor + f.epsilon);
  }
};

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms".
struct LionRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& mean = state[0];
    const V direction = sign_of(mean * f.beta1 + g * f.one_minus_beta1);
    p = p * f.decay - direction * f.step_size;
    mean = mean * f.beta2 + g * f.one_minus_beta2;
  }
};

// Loshchilov and Hutter 2019.
struct AdamWRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& mean = state[0];
    V& squares = state[1];
    mean = mean * f.beta1 + g * f.one_minus_beta1;
    squares = squares * f.beta2 + g * g * f.one_minus_beta2;
    const V denominator = square_root(squares) * f.root_factor + f.epsilon;
    p = p * f.decay - mean * f.step_size / denominator;
  }
};

// Pagliardini et al. 2024, "The AdEMAMix Optimizer": AdamW with a second, slow mean.
struct AdemamixRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& fast = state[0];
    V& slow = state[1];
    V& squares = state[2];
    fast = fast * f.beta1 + g * f.one_minus_beta1;
    slow = slow * f.beta3 + g * f.one_minus_beta3;
    squares = squares * f.beta2 + g * g * f.one_minus_beta2;
    const V denominator = square_root(squares) * f.root_factor + f.epsilon;
    p = p * f.decay - (fast * f.mean_factor + slow * f.alpha) * f.step_size / denominator;
  }
};

// AdamW on a gradient in which the slow mean of the gradients is amplified (Grokfast, Lee et al.
// 2024).
struct GrokAdamWRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& slow = state[2];
    slow = slow * f.beta3 + g * f.one_minus_beta3;
    const V amplified = g + slow * f.alpha;
    AdamWRule::apply(p, amplified, state, f);
  }
};

// Defazio et al. 2024, "The Road Less Scheduled": the parameter is y, between z and the average x.
struct ScheduleFreeSgdRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& z = state[0];
    const V direction = g + p * f.l2;
    p = p + (z - p) * f.mix + direction * f.mixed_step;
    z = z - direction * f.step_size;
  }
};

struct ScheduleFreeAdamWRule {
  template <class V, class Factors>
  SFTBENCH_RULE apply(V& p, const V& g, V* state, const Factors& f) {
    V& squares = state[1];
    squares = squares * f.beta2 + g * g * f.one_minus_beta2;
    const V normalized = g / (square_root(squares) * f.root_factor + f.epsilon);
    ScheduleFreeSgdRule::apply(p, normalized, state, f);
  }
};

#undef SFTBENCH_RULE

}  // namespace sftbench::ops::SFTBENCH_ISA
