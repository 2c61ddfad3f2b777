// The operators that `fast_kernels` and `flash_attn` switch off: the operator sequences of Hugging
// Face's models, each a chain of library operators under autograd that keeps what autograd keeps.
// Same shapes, dtypes and errors as the fused forms of the same names in sftbench/ops, same results
// up to rounding; what differs is memory and time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <tuple>

#include "sftbench/ops/attention.h"
#include "sftbench/ops/linear_cross_entropy.h"
#include "sftbench/ops/logit_form.h"
#include "sftbench/ops/loss_denominator.h"
#include "sftbench/ops/rms_norm.h"

namespace sftbench::ops::plain {

// ForCausalLMLoss: all logits in hidden's dtype, a copy of them in float32, their cross-entropy.
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& labels, const LogitForm& form,
                                   const LossDenominator& denominator,
                                   const LogitAddend& addend = {});

// LlamaRMSNorm.forward: x in float32, its square, the mean, rsqrt, and two products.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);
NormedSum add_rms_norm(const torch::Tensor& x, const torch::Tensor& addend, double scale,
                       const torch::Tensor& weight, double epsilon);

// MambaRMSNormGated.forward: both in float32, their product, and what rms_norm does with it.
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& gate,
                             const torch::Tensor& weight, int64_t groups, double epsilon);

// apply_rotary_pos_emb: cosines and sines of whole heads, halves exchanged by rotate_half's
// concatenation.
std::tuple<torch::Tensor, torch::Tensor> apply_rope(const torch::Tensor& q, const torch::Tensor& k,
                                                    const torch::Tensor& cos,
                                                    const torch::Tensor& sin);

// eager_attention_forward: keys and values repeated for every query head, the S x S scores of all
// heads, a mask added to them, softmax in float32 rounded to q's dtype, and the product with the
// values. ALiBi is added to the scores before the mask, a sink is a column more.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, double scale, int64_t window = 0,
                               const PackedSequences& packed = {}, const Dropout& dropout = {},
                               const ScoreTerms& terms = {});

}  // namespace sftbench::ops::plain
