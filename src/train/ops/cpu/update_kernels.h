// The table of one instruction set: the last include of each update_*.cpp.
#pragma once

#include "ops/cpu/simd.h"
#include "ops/cpu/update.h"

namespace sftbench::ops::SFTBENCH_ISA {

SFTBENCH_INLINE F sign_of(F v) {
  const F one = splat(1.0f), zero = splat(0.0f);
  return v > zero ? one : (v < zero ? -one : zero);
}

}  // namespace sftbench::ops::SFTBENCH_ISA

#include "ops/update_rules.h"

namespace sftbench::ops::SFTBENCH_ISA {

// T is the parameter's and the gradient's element, S that of the states.
template <class Rule, int kStates, class T, class S>
void update_range(void* parameter, const void* gradient, void* const* all_states, int64_t count,
                  const RuleFactors<float>& all_factors) {
  const RuleFactors<float> factors = all_factors;  // a local copy stays in registers
  T* p = static_cast<T*>(parameter);
  const T* g = static_cast<const T*>(gradient);
  S* states[kStates + 1] = {};
  for (int s = 0; s < kStates; ++s) states[s] = static_cast<S*>(all_states[s]);
  sweep(
      count, [&](int64_t i, auto n) __attribute__((always_inline)) {
        F value = load(p + i, n), state[kStates + 1];
        for (int s = 0; s < kStates; ++s) state[s] = load(states[s] + i, n);
        Rule::apply(value, load(g + i, n) * factors.gradient_scale, state, factors);
        store(p + i, value, n);
        for (int s = 0; s < kStates; ++s) store(states[s] + i, state[s], n);
      });
}

template <class T>
float factored_squares(const void* gradient, float* column_sums, int64_t count, float scale,
                       float floor) {
  const T* g = static_cast<const T*>(gradient);
  F total = splat(0);
  sweep(
      count, [&](int64_t i, auto n) __attribute__((always_inline)) {
        const F scaled = load(g + i, n) * scale;
        const F squares = scaled * scaled + floor;
        store(column_sums + i, load(column_sums + i, n) + squares, n);
        if (n == kLanes) {
          total += squares;
        } else {  // lanes behind the end hold the floor
          I lane;
          for (int l = 0; l < kLanes; ++l) lane[l] = l;
          total += lane < static_cast<int32_t>(n) ? squares : splat(0);
        }
      });
  return sum(total);
}

template <class T>
float factored_norm(const void* gradient, const float* column_factors, int64_t count) {
  const T* g = static_cast<const T*>(gradient);
  F total = splat(0);
  sweep(
      count, [&](int64_t i, auto n) __attribute__((always_inline)) {
        const F value = load(g + i, n) * load(column_factors + i, n);
        total += value * value;
      });
  return sum(total);
}

template <class T>
void factored_apply(void* parameter, const void* gradient, const float* column_factors,
                    int64_t count, float step_size, float decay) {
  T* p = static_cast<T*>(parameter);
  const T* g = static_cast<const T*>(gradient);
  sweep(
      count, [&](int64_t i, auto n) __attribute__((always_inline)) {
        const F direction = load(g + i, n) * load(column_factors + i, n);
        store(p + i, load(p + i, n) * decay - direction * step_size, n);
      });
}

#define SFTBENCH_LOOPS(S)                                                                        \
  {                                                                                              \
    update_range<SgdRule, 0, T, S>, update_range<RmspropRule, 1, T, S>,                          \
        update_range<LionRule, 1, T, S>, update_range<AdamWRule, 2, T, S>,                       \
        update_range<AdemamixRule, 3, T, S>, update_range<GrokAdamWRule, 3, T, S>,               \
        update_range<ScheduleFreeSgdRule, 1, T, S>, update_range<ScheduleFreeAdamWRule, 2, T, S> \
  }

template <class T>
constexpr CpuUpdateKernels make_update_kernels() {
  return {SFTBENCH_LOOPS(T), SFTBENCH_LOOPS(float), factored_squares<T>, factored_norm<T>,
          factored_apply<T>};
}

extern const CpuUpdateKernels kUpdateKernels[3];  // by CpuType
const CpuUpdateKernels kUpdateKernels[3] = {
    make_update_kernels<float>(), make_update_kernels<BFloat16>(), make_update_kernels<Float16>()};

}  // namespace sftbench::ops::SFTBENCH_ISA
