// Which form of an operator a model calls: the fused one, or Hugging Face's sequence of library
// operators (plain.h). One member for each switch of `fast_kernels` and `flash_attn`, chosen once
// and handed to the model when it is built.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <tuple>

namespace sftbench::ops {

// Of the operators' own headers, which say what they do. Every model includes this file: with their
// declarations alone it is not compiled again for a change in one of them.
struct Dropout;
struct LogitAddend;
struct LogitForm;
struct LossDenominator;
struct PackedSequences;
struct ScoreTerms;
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& labels, const LogitForm& form,
                                   const LossDenominator& denominator, const LogitAddend& addend);
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);
struct NormedSum;
NormedSum add_rms_norm(const torch::Tensor& x, const torch::Tensor& addend, double scale,
                       const torch::Tensor& weight, double epsilon);
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& gate,
                             const torch::Tensor& weight, int64_t groups, double epsilon);
std::tuple<torch::Tensor, torch::Tensor> apply_rope(const torch::Tensor& q, const torch::Tensor& k,
                                                    const torch::Tensor& cos,
                                                    const torch::Tensor& sin);
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, double scale, int64_t window,
                               const PackedSequences& packed, const Dropout& dropout,
                               const ScoreTerms& terms);

struct KernelChoice {
  decltype(&ops::linear_cross_entropy) linear_cross_entropy = ops::linear_cross_entropy;
  decltype(&ops::rms_norm) rms_norm = ops::rms_norm;
  decltype(&ops::add_rms_norm) add_rms_norm = ops::add_rms_norm;  // as rms_norm is
  decltype(&ops::apply_rope) apply_rope = ops::apply_rope;
  decltype(&ops::causal_attention) causal_attention = ops::causal_attention;
  decltype(&ops::gated_rms_norm) gated_rms_norm = ops::gated_rms_norm;  // as rms_norm is
};

}  // namespace sftbench::ops
