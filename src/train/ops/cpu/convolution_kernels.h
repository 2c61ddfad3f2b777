// The causal convolution of a block of positions and channels. See simd.h for how this file is
// compiled.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/row_kernels.h"

namespace sftbench::ops::SFTBENCH_ISA {

// What the activation sees at channel i of a position. kTaps: their number, or 0 where it is known
// at run time only.
template <int kTaps, class T, class Lanes>
SFTBENCH_INLINE F convolve(const ConvolutionProblem& p, int64_t position, int64_t i, Lanes n) {
  const int64_t taps = kTaps > 0 ? kTaps : p.tap_count;
  const int64_t first = position - taps + 1;
  const T* x = static_cast<const T*>(p.x) + i;
  F z = p.bias == nullptr ? splat(0) : load(p.bias + i, n);
#pragma GCC unroll 4
  for (int64_t j = kTaps > 0 || first >= 0 ? 0 : -first; j < taps; ++j) {
    z += load(x + (first + j) * p.x_stride, n) * load(p.taps + j * p.tap_stride + i, n);
  }
  return z;
}

template <int kTaps, class T>
SFTBENCH_INLINE void convolve_position(const ConvolutionProblem& p, int64_t position) {
  T* y = static_cast<T*>(p.y) + position * p.row_stride;
  sweep(p.channels, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    const F z = convolve<kTaps, T>(p, position, i, n);
    store(y + i, p.silu ? z * sigmoid(z) : z, n);
  });
}

constexpr int kUsualTaps = 4;  // of Mamba-2

template <class T>
void convolution_forward(const ConvolutionProblem& p) {
  for (int64_t position = p.begin; position < p.end; ++position) {
    if (p.tap_count == kUsualTaps && position >= kUsualTaps - 1) {
      convolve_position<kUsualTaps, T>(p, position);
    } else {
      convolve_position<0, T>(p, position);
    }
  }
}

// The gradient before the activation at one position, into `dz`; adds the position's part of the
// gradients of the weights where it belongs to the block.
template <int kTaps, class T>
SFTBENCH_INLINE void differentiate_position(const ConvolutionProblem& p, int64_t position,
                                            float* dz) {
  const int64_t taps = kTaps > 0 ? kTaps : p.tap_count;
  const int64_t first = position - taps + 1;
  const T* dy = static_cast<const T*>(p.y_gradient) + position * p.row_stride;
  const T* x = static_cast<const T*>(p.x);
  sweep(p.channels, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    F d = load(dy + i, n);
    if (p.silu) {
      const F z = convolve<kTaps, T>(p, position, i, n), s = sigmoid(z);
      d *= s * (1.0f + z * (1.0f - s));
    }
    store(dz + i, d, n);
    if (position >= p.end) return;
#pragma GCC unroll 4
    for (int64_t j = kTaps > 0 || first >= 0 ? 0 : -first; j < taps; ++j) {
      float* sums = p.tap_gradients + j * p.tap_stride + i;
      store(sums, load(sums, n) + d * load(x + (first + j) * p.x_stride + i, n), n);
    }
    float* bias = p.tap_gradients + taps * p.tap_stride + i;
    store(bias, load(bias, n) + d, n);
  });
}

// The last gradients before the activation stand in a ring of as many rows as there are taps: what
// reaches back to a position is complete when the ring has gone around.
template <class T>
void convolution_backward(const ConvolutionProblem& p) {
  const int64_t taps = p.tap_count;
  for (int64_t position = p.begin; position < p.end + taps - 1; ++position) {
    float* dz = p.scratch + position % taps * p.channels;
    if (position >= p.length) {
      sweep(p.channels, [&](int64_t i, auto n) SFTBENCH_LAMBDA { store(dz + i, splat(0), n); });
    } else if (taps == kUsualTaps && position >= kUsualTaps - 1) {
      differentiate_position<kUsualTaps, T>(p, position, dz);
    } else {
      differentiate_position<0, T>(p, position, dz);
    }
    const int64_t done = position - taps + 1;
    if (done < p.begin) continue;
    T* dx = static_cast<T*>(p.x_gradient) + done * p.row_stride;
    sweep(p.channels, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      F total = splat(0);
      for (int64_t j = 0; j < taps; ++j) {
        total += load(p.scratch + (done + j) % taps * p.channels + i, n) *
                 load(p.taps + (taps - 1 - j) * p.tap_stride + i, n);
      }
      store(dx + i, total, n);
    });
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
