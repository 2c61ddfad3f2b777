#include "model/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

using torch::Tensor;

// theta^(2i/D), Su et al. 2021.
Tensor base_powers(double theta, int64_t head_dim) {
  const Tensor exponents =
      torch::arange(0, head_dim, 2, torch::kFloat32) / static_cast<double>(head_dim);
  return torch::pow(theta, exponents);
}

Tensor base_frequencies(double theta, int64_t head_dim) {
  return 1.0 / base_powers(theta, head_dim);
}

// NTK-aware scaling: the base grows so that the slowest pair is stretched by the factor and the
// fastest is kept.
double dynamic_theta(const RopeConfig& rope, int64_t head_dim, int64_t max_position_embeddings,
                     int64_t sequence_length) {
  const auto maximum = static_cast<double>(max_position_embeddings);
  const double length = std::max(maximum, static_cast<double>(sequence_length));
  const auto dim = static_cast<double>(head_dim);
  return rope.theta *
         std::pow(rope.factor * length / maximum - (rope.factor - 1.0), dim / (dim - 2.0));
}

// Llama 3.1: long wavelengths are stretched, short ones kept, those between blended.
Tensor llama3_frequencies(const RopeConfig& rope, int64_t head_dim) {
  const auto original_length = static_cast<double>(rope.original_max_position_embeddings);
  const Tensor frequencies = base_frequencies(rope.theta, head_dim);
  const Tensor wavelengths = 2.0 * std::numbers::pi / frequencies;
  const Tensor kept_share = (original_length / wavelengths - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
  const Tensor blended = (1.0 - kept_share) * frequencies / rope.factor + kept_share * frequencies;
  const Tensor is_long = wavelengths > original_length / rope.low_freq_factor;
  const Tensor is_short = wavelengths < original_length / rope.high_freq_factor;
  return torch::where(is_long, frequencies / rope.factor,
                      torch::where(is_short, frequencies, blended));
}

// The (fractional) pair that turns `rotations` times within the original length.
double yarn_correction_dim(const RopeConfig& rope, int64_t head_dim, double rotations) {
  const auto original_length = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) *
         std::log(original_length / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

// YaRN (Peng et al. 2023): pairs that turn often are kept, those that turn seldom are interpolated,
// a ramp between.
Tensor yarn_frequencies(const RopeConfig& rope, int64_t head_dim) {
  double low = yarn_correction_dim(rope, head_dim, rope.beta_fast);
  double high = yarn_correction_dim(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // no division by zero, as in Hugging Face

  const Tensor kept = base_frequencies(rope.theta, head_dim);
  const Tensor ramp =
      ((torch::arange(head_dim / 2, torch::kFloat32) - low) / (high - low)).clamp(0.0, 1.0);
  return kept / rope.factor * ramp + kept * (1.0 - ramp);
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

Tensor long_frequencies(const RopeConfig& rope, int64_t sequence_length) {
  const bool is_long = sequence_length > rope.original_max_position_embeddings;
  const std::vector<double>& factors = is_long ? rope.long_factors : rope.short_factors;
  return 1.0 / (torch::tensor(factors, torch::kFloat32) * base_powers(rope.theta, rope.dim));
}

double long_factor(const RopeConfig& rope) {
  if (rope.factor <= 1.0) return 1.0;
  const auto original_length = static_cast<double>(rope.original_max_position_embeddings);
  return std::sqrt(1.0 + std::log(rope.factor) / std::log(original_length));
}

// A temperature on the attention scores, applied to cosines and sines (its square reaches the
// scores).
double attention_factor(const RopeConfig& rope) {
  if (rope.type != RopeType::kYarn && rope.type != RopeType::kLong) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.type == RopeType::kLong) return long_factor(rope);
  if (rope.mscale && rope.mscale_all_dim) {
    return yarn_mscale(rope.factor, *rope.mscale) / yarn_mscale(rope.factor, *rope.mscale_all_dim);
  }
  return yarn_mscale(rope.factor, 1.0);
}

}  // namespace

Tensor positions_of(const ops::PackedSequences& packed) {
  Tensor positions = torch::arange(packed.offsets.back());
  for (size_t i = 0; i + 1 < packed.offsets.size(); ++i) {
    positions.slice(0, packed.offsets[i], packed.offsets[i + 1]).sub_(packed.offsets[i]);
  }
  return positions;
}

Tensor own_positions(int64_t row_length, const ops::PackedSequences& packed,
                     const std::shared_ptr<const ContextPart>& part, torch::Device device) {
  const Tensor positions = packed.empty() ? torch::arange(row_length, torch::TensorOptions(device))
                                          : positions_of(packed).to(device);
  return part ? positions.index_select(0, part->positions) : positions;
}

Tensor rotary_frequencies(const RopeConfig& rope, int64_t max_position_embeddings,
                          int64_t sequence_length) {
  const int64_t head_dim = rope.dim;
  switch (rope.type) {
    case RopeType::kDefault:
      return base_frequencies(rope.theta, head_dim);
    case RopeType::kLinear:
      return base_frequencies(rope.theta, head_dim) / rope.factor;
    case RopeType::kDynamic:
      return base_frequencies(
          dynamic_theta(rope, head_dim, max_position_embeddings, sequence_length), head_dim);
    case RopeType::kLlama3:
      return llama3_frequencies(rope, head_dim);
    case RopeType::kYarn:
      return yarn_frequencies(rope, head_dim);
    case RopeType::kLong:
      return long_frequencies(rope, sequence_length);
  }
  return {};
}

RotaryEmbedding::RotaryEmbedding(const RopeConfig& rope, int64_t max_position_embeddings)
    : rope_(rope),
      max_position_embeddings_(max_position_embeddings),
      frequencies_(rotary_frequencies(rope_, max_position_embeddings_, max_position_embeddings_)),
      attention_factor_(attention_factor(rope_)),
      dynamic_length_(max_position_embeddings_) {}

RotaryTables RotaryEmbedding::tables(int64_t row_length, const torch::TensorOptions& options,
                                     const ops::PackedSequences& packed,
                                     const std::shared_ptr<const ContextPart>& part,
                                     int64_t before) {
  const torch::NoGradGuard no_grad;
  const int64_t sequence_length = packed.empty() ? row_length : packed.longest;
  if (rope_.type == RopeType::kDynamic || rope_.type == RopeType::kLong)
    follow_length(sequence_length);
  const bool usable = kept_.cos.defined() && kept_.cos.size(0) >= sequence_length &&
                      kept_.cos.dtype() == options.dtype() &&
                      kept_.cos.device() == options.device();
  if (!usable) rebuild(sequence_length, options);
  const bool grows =
      rope_.query_growth > 0 && sequence_length > rope_.original_max_position_embeddings;
  RotaryTables tables;
  if (packed.empty() && !part) {
    tables = {kept_.cos.slice(0, before, row_length), kept_.sin.slice(0, before, row_length)};
    if (grows) tables.query_scale = kept_.query_scale.slice(0, before, row_length);
  } else {
    const Tensor positions = own_positions(row_length, packed, part, options.device());
    tables = {kept_.cos.index_select(0, positions), kept_.sin.index_select(0, positions), packed,
              part};
    if (grows) tables.query_scale = kept_.query_scale.index_select(0, positions);
  }
  return tables;
}

void RotaryEmbedding::follow_length(int64_t sequence_length) {
  if (rope_.type == RopeType::kLong) {
    const int64_t original_length = rope_.original_max_position_embeddings;
    if ((sequence_length > original_length) == (dynamic_length_ > original_length)) return;
    dynamic_length_ = sequence_length;
    frequencies_ = rotary_frequencies(rope_, max_position_embeddings_, dynamic_length_);
    kept_ = {};
    return;
  }
  const bool grows = sequence_length > dynamic_length_;
  const bool resets =
      sequence_length < max_position_embeddings_ && dynamic_length_ > max_position_embeddings_;
  if (!grows && !resets) return;
  dynamic_length_ = grows ? sequence_length : max_position_embeddings_;
  frequencies_ = rotary_frequencies(rope_, max_position_embeddings_, dynamic_length_);
  kept_ = {};
}

void RotaryEmbedding::rebuild(int64_t length, const torch::TensorOptions& options) {
  const Tensor positions = torch::arange(length, torch::kFloat32).unsqueeze(1);
  const Tensor angles = positions * frequencies_;
  const auto finish = [&](const Tensor& values) {
    return (values * attention_factor_)
        .to(options.device(), c10::typeMetaToScalarType(options.dtype()));
  };
  kept_ = {finish(angles.cos()), finish(angles.sin())};
  if (rope_.query_growth == 0) return;
  const Tensor lengths =
      (positions / static_cast<double>(rope_.original_max_position_embeddings)).floor();
  kept_.query_scale = (1.0 + rope_.query_growth * lengths.log1p())
                          .unsqueeze(1)
                          .to(kept_.cos.device(), kept_.cos.scalar_type());
}

}  // namespace sftbench
