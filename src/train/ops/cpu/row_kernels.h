// The element-wise and row-wise loops: one pass over memory each. See simd.h for how this file
// is compiled.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd.h"

namespace sftbench::ops::SFTBENCH_ISA {

#define SFTBENCH_LAMBDA __attribute__((always_inline))

template <class T>
void rms_norm_forward(const void* x_all, const void* weight, void* y_all, float* rstd, int64_t rows,
                      int64_t width, float epsilon) {
  const T* w = static_cast<const T*>(weight);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(x_all) + row * width;
    T* y = static_cast<T*>(y_all) + row * width;
    F squares = splat(0);
    sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F v = load(x + i, n);
      squares += v * v;
    });
    const float scale = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(width) + epsilon);
    rstd[row] = scale;
    sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      T rounded[kLanes];
      store(rounded, load(x + i, n) * scale);
      store(y + i, load(rounded) * load(w + i, n), n);
    });
  }
}

template <class T>
void rms_norm_backward(const void* dy_all, const void* x_all, const void* weight, const float* rstd,
                       void* dx_all, float* weight_gradient, int64_t rows, int64_t width) {
  const T* w = static_cast<const T*>(weight);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(x_all) + row * width;
    const T* dy = static_cast<const T*>(dy_all) + row * width;
    T* dx = static_cast<T*>(dx_all) + row * width;
    const float scale = rstd[row];
    F dots = splat(0);
    sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F normalized = load(x + i, n) * scale;
      const F g = load(dy + i, n);
      dots += g * load(w + i, n) * normalized;
      if (weight_gradient != nullptr) {
        store(weight_gradient + i, load(weight_gradient + i, n) + g * normalized, n);
      }
    });
    const float mean = sum(dots) / static_cast<float>(width);
    sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F normalized = load(x + i, n) * scale;
      store(dx + i, (load(dy + i, n) * load(w + i, n) - normalized * mean) * scale, n);
    });
  }
}

template <class T>
void rope(const void* x_all, const void* cos_row, const void* sin_row, void* y_all, int64_t heads,
          int64_t dim, float sign) {
  const T* cos = static_cast<const T*>(cos_row);
  const T* sin = static_cast<const T*>(sin_row);
  const int64_t half = dim / 2;
  for (int64_t head = 0; head < heads; ++head) {
    const T* x = static_cast<const T*>(x_all) + head * dim;
    T* y = static_cast<T*>(y_all) + head * dim;
    sweep(half, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F c = load(cos + i, n), s = load(sin + i, n) * sign;
      const F first = load(x + i, n), second = load(x + half + i, n);
      store(y + i, first * c - second * s, n);
      store(y + half + i, second * c + first * s, n);
    });
  }
}

SFTBENCH_INLINE F sigmoid(F x) {
  return 1.0f / (1.0f + exponential(-x));
}

// Both gates are x sigmoid(argument(x)); slope: of the argument.
struct SiluGate {
  static SFTBENCH_INLINE F argument(F x) { return x; }
  static SFTBENCH_INLINE F slope(F) { return splat(1.0f); }
};

struct GeluTanhGate {
  static constexpr float kLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = kLinear * 0.044715f;
  static SFTBENCH_INLINE F argument(F x) { return x * (kLinear + kCubic * x * x); }
  static SFTBENCH_INLINE F slope(F x) { return kLinear + 3.0f * kCubic * x * x; }
};

template <class T, class Gate>
void gated_forward(const void* gate_all, const void* up_all, void* y_all, int64_t count) {
  const T* gate = static_cast<const T*>(gate_all);
  const T* up = static_cast<const T*>(up_all);
  T* y = static_cast<T*>(y_all);
  sweep(count, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    const F g = load(gate + i, n);
    store(y + i, g * sigmoid(Gate::argument(g)) * load(up + i, n), n);
  });
}

template <class T>
void swiglu_forward(const void* gate, const void* up, void* y, int64_t count, bool gelu) {
  gelu ? gated_forward<T, GeluTanhGate>(gate, up, y, count)
       : gated_forward<T, SiluGate>(gate, up, y, count);
}

template <class T, class Gate>
void gated_backward(const void* dy_all, const void* gate_all, const void* up_all, void* d_gate_all,
                    void* d_up_all, int64_t count) {
  const T* dy = static_cast<const T*>(dy_all);
  const T* gate = static_cast<const T*>(gate_all);
  const T* up = static_cast<const T*>(up_all);
  T* d_gate = static_cast<T*>(d_gate_all);
  T* d_up = static_cast<T*>(d_up_all);
  sweep(count, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    const F g = load(gate + i, n), d = load(dy + i, n);
    const F s = sigmoid(Gate::argument(g));
    store(d_gate + i, d * load(up + i, n) * s * (1.0f + g * Gate::slope(g) * (1.0f - s)), n);
    store(d_up + i, d * g * s, n);
  });
}

template <class T>
void swiglu_backward(const void* dy, const void* gate, const void* up, void* d_gate, void* d_up,
                     int64_t count, bool gelu) {
  gelu ? gated_backward<T, GeluTanhGate>(dy, gate, up, d_gate, d_up, count)
       : gated_backward<T, SiluGate>(dy, gate, up, d_gate, d_up, count);
}

template <class T>
void gated_norm_forward(const GatedNormRows& p, float epsilon, void* out_all) {
  for (int64_t at = 0; at < p.rows * p.groups; ++at) {
    const int64_t row = at / p.groups, group = at % p.groups;
    const T* y = static_cast<const T*>(p.y) + at * p.width;
    const T* gate = static_cast<const T*>(p.gate) + row * p.gate_stride + group * p.width;
    const float* weight = p.weight + group * p.width;
    T* out = static_cast<T*>(out_all) + at * p.width;
    F squares = splat(0);
    sweep(p.width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F g = load(gate + i, n), v = load(y + i, n) * g * sigmoid(g);
      squares += v * v;
    });
    const float scale =
        1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(p.width) + epsilon);
    p.rstd[at] = scale;
    sweep(p.width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F g = load(gate + i, n), v = load(y + i, n) * g * sigmoid(g);
      store(out + i, v * scale * load(weight + i, n), n);
    });
  }
}

template <class T>
void gated_norm_backward(const GatedNormRows& p, const void* d_out_all, void* dy_all,
                         void* d_gate_all, float* weight_gradient) {
  for (int64_t at = 0; at < p.rows * p.groups; ++at) {
    const int64_t row = at / p.groups, group = at % p.groups;
    const T* y = static_cast<const T*>(p.y) + at * p.width;
    const T* gate = static_cast<const T*>(p.gate) + row * p.gate_stride + group * p.width;
    const T* d_out = static_cast<const T*>(d_out_all) + at * p.width;
    const float* weight = p.weight + group * p.width;
    float* d_weight = weight_gradient + group * p.width;
    T* dy = static_cast<T*>(dy_all) + at * p.width;
    T* d_gate = static_cast<T*>(d_gate_all) + at * p.width;
    const float scale = p.rstd[at];
    F dots = splat(0);
    sweep(p.width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F g = load(gate + i, n), d = load(d_out + i, n);
      const F normalized = load(y + i, n) * g * sigmoid(g) * scale;
      dots += d * load(weight + i, n) * normalized;
      store(d_weight + i, load(d_weight + i, n) + d * normalized, n);
    });
    const float mean = sum(dots) / static_cast<float>(p.width);
    sweep(p.width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F g = load(gate + i, n), v = load(y + i, n), s = sigmoid(g);
      const F normalized = v * g * s * scale;
      const F dv = (load(d_out + i, n) * load(weight + i, n) - normalized * mean) * scale;
      store(dy + i, dv * g * s, n);
      store(d_gate + i, dv * v * s * (1.0f + g * (1.0f - s)), n);
    });
  }
}

template <class T>
void add_rows(void* target_row, const void* rows_all, const int64_t* positions, int64_t count,
              int64_t width) {
  T* target = static_cast<T*>(target_row);
  const T* rows = static_cast<const T*>(rows_all);
  sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    F total = load(target + i, n);
    for (int64_t p = 0; p < count; ++p) total += load(rows + positions[p] * width + i, n);
    store(target + i, total, n);
  });
}

// out = sum of weights[j] * rows[positions[j]]; no weights: all are 1.
template <class T>
void combine_rows(const void* rows_all, const int64_t* positions, const float* weights,
                  int64_t count, void* out_row, int64_t width) {
  const T* rows = static_cast<const T*>(rows_all);
  T* out = static_cast<T*>(out_row);
  sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    F total = splat(0);
    for (int64_t j = 0; j < count; ++j) {
      const F v = load(rows + positions[j] * width + i, n);
      total += weights == nullptr ? v : v * weights[j];
    }
    store(out + i, total, n);
  });
}

// The rows' gradients in their places, and the weights': d_weights[j] = d_out rows[positions[j]].
template <class T>
void combine_rows_backward(const void* d_out_row, const void* rows_all, const int64_t* positions,
                           const float* weights, int64_t count, void* d_rows_all, float* d_weights,
                           int64_t width) {
  const T* d_out = static_cast<const T*>(d_out_row);
  for (int64_t j = 0; j < count; ++j) {
    const T* row = static_cast<const T*>(rows_all) + positions[j] * width;
    T* d_row = static_cast<T*>(d_rows_all) + positions[j] * width;
    F dot = splat(0);
    sweep(width, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
      const F d = load(d_out + i, n);
      dot += d * load(row + i, n);
      store(d_row + i, d * weights[j], n);
    });
    d_weights[j] = sum(dot);
  }
}

// logits * logit_scale as the model's dtype holds it.
template <class T>
SFTBENCH_INLINE F scaled(const T* logits, int64_t n, float logit_scale) {
  F v = n == kLanes ? load(logits) : load(logits, n);
  if (logit_scale == 1.0f) return v;
  T rounded[kLanes];
  store(rounded, v * logit_scale);
  return load(rounded);
}

template <class T>
float cross_entropy(void* row, int64_t width, int64_t label, float logit_scale,
                    float gradient_scale) {
  T* logits = static_cast<T*>(row);
  const int64_t whole = width / kLanes * kLanes, rest = width - whole;
  const F lowest = splat(-__builtin_inff());
  I lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  const I inside = lane < static_cast<int32_t>(rest);
  F largest = lowest;
  for (int64_t i = 0; i < whole; i += kLanes)
    largest = maximum(largest, scaled(logits + i, kLanes, logit_scale));
  if (rest > 0)
    largest = maximum(largest, inside ? scaled(logits + whole, rest, logit_scale) : lowest);
  const float top = maximum(largest);
  F total = splat(0);
  for (int64_t i = 0; i < whole; i += kLanes)
    total += exponential(scaled(logits + i, kLanes, logit_scale) - top);
  if (rest > 0)
    total += inside ? exponential(scaled(logits + whole, rest, logit_scale) - top) : splat(0);
  const float denominator = sum(total);
  float at_label[kLanes];
  store(at_label, scaled(logits + label, 1, logit_scale));
  const float loss = __builtin_logf(denominator) + top - at_label[0];
  if (gradient_scale == 0.0f) return loss;

  const float factor = gradient_scale * logit_scale / denominator;
  // The label's own gradient is p - 1, taken before the row is overwritten and rounded once.
  const F label_gradient =
      exponential(splat(at_label[0] - top)) * factor - gradient_scale * logit_scale;
  for (int64_t i = 0; i < whole; i += kLanes) {
    store(logits + i, exponential(scaled(logits + i, kLanes, logit_scale) - top) * factor);
  }
  if (rest > 0) {
    store(logits + whole, exponential(scaled(logits + whole, rest, logit_scale) - top) * factor,
          rest);
  }
  store(logits + label, label_gradient, 1);
  return loss;
}

template <class T>
float sum_of_squares(const void* all, int64_t count) {
  const T* x = static_cast<const T*>(all);
  F total[4] = {splat(0), splat(0), splat(0), splat(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t j = 0; j < 4; ++j) {
      const F v = load(x + i + j * kLanes);
      total[j] += v * v;
    }
  }
  sweep(count - i, [&](int64_t j, auto n) SFTBENCH_LAMBDA {
    const F v = load(x + i + j, n);
    total[0] += v * v;
  });
  return sum((total[0] + total[1]) + (total[2] + total[3]));
}

}  // namespace sftbench::ops::SFTBENCH_ISA
