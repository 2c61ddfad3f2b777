// Which form of an operator a model calls: the fused one, or Hugging Face's sequence of library
// operators (plain.h). One member for each switch of `fast_kernels` and `flash_attn`, chosen once
// and handed to the model when it is built.
#pragma once

#include "sftbench/ops/attention.h"
#include "sftbench/ops/linear_cross_entropy.h"
#include "sftbench/ops/rms_norm.h"
#include "sftbench/ops/rope.h"

namespace sftbench::ops {

struct KernelChoice {
  decltype(&ops::linear_cross_entropy) linear_cross_entropy = ops::linear_cross_entropy;
  decltype(&ops::rms_norm) rms_norm = ops::rms_norm;
  decltype(&ops::apply_rope) apply_rope = ops::apply_rope;
  decltype(&ops::causal_attention) causal_attention = ops::causal_attention;
};

}  // namespace sftbench::ops
