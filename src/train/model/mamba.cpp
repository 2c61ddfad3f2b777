// Shapes: B batch, S sequence, H hidden, N heads, P head, G groups, K state.
#include "model/mamba.h"

#include <cmath>

#include "model/context_mamba.h"
#include "model/decoding.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/causal_convolution.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/state_space_scan.h"

namespace sftbench {

using torch::Tensor;

namespace {

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const RotaryTables& positions) {
  constexpr auto kActivation = ops::ConvolutionActivation::kSilu;
  if (positions.state != nullptr)
    return decode_convolution(*positions.state, x, weight, bias, kActivation);
  if (positions.part) return context_convolution(*positions.part, x, weight, bias, kActivation);
  return ops::causal_convolution(x, weight, bias, kActivation, positions.packed);
}

struct ScanOperands {
  Tensor x, dt, a, b, c, d;
};

Tensor scan(const ScanOperands& in, const RotaryTables& positions) {
  if (positions.state != nullptr)
    return decode_scan(*positions.state, in.x, in.dt, in.a, in.b, in.c, in.d);
  if (positions.part) return context_scan(*positions.part, in.x, in.dt, in.a, in.b, in.c, in.d);
  return ops::state_space_scan(in.x, in.dt, in.a, in.b, in.c, in.d, positions.packed);
}

}  // namespace

Mamba::Mamba(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : config_(*config.mamba),
      epsilon_(config.norm_eps),
      gated_rms_norm_(kernels.gated_rms_norm),
      in_(make_linear_group(config.hidden_size, {{"in_proj", config_.projected()}},
                            config_.projection_bias, config, options)),
      out_(make_linear_group(config_.inner(), {{"out_proj", config.hidden_size}},
                             config_.projection_bias, config, options)),
      convolution_(torch::empty({config_.convolved(), 1, config_.kernel}, options)),
      convolution_bias_(config_.convolution_bias ? torch::empty({config_.convolved()}, options)
                                                 : Tensor()),
      step_bias_(torch::empty({config_.heads}, options)),
      decay_log_(torch::empty({config_.heads}, options)),
      skip_(torch::empty({config_.heads}, options)),
      norm_(torch::empty({config_.inner()}, options)) {}

// In the dtype of the projection, as Hugging Face has them; the scan widens them.
Tensor Mamba::step_sizes(const Tensor& dt) const {
  const Tensor steps = torch::softplus(dt + step_bias_.to(dt.scalar_type()));
  if (config_.least_step == 0 && std::isinf(config_.most_step)) return steps;
  return steps.clamp(config_.least_step, config_.most_step);
}

Tensor Mamba::forward(const Tensor& x_BSH, const RotaryTables& positions) const {
  const int64_t B = x_BSH.size(0), S = x_BSH.size(1), N = config_.heads, P = config_.head_dim;
  const int64_t inner = config_.inner(), shared = config_.groups * config_.state;
  const Tensor projected = in_.forward(x_BSH)[0];
  const torch::Dtype dtype = projected.scalar_type();
  const torch::Dtype wide = torch::promote_types(dtype, torch::kFloat32);
  // Split rather than sliced: the backward then puts gradients side by side in one pass.
  const auto inputs =
      projected.split_with_sizes({inner, config_.convolved(), config_.heads}, /*dim=*/-1);
  const Tensor bias = convolution_bias_.defined() ? convolution_bias_.to(dtype) : convolution_bias_;
  const auto scanned = convolve(inputs[1], convolution_.to(dtype), bias, positions)
                           .split_with_sizes({inner, shared, shared}, /*dim=*/-1);
  const auto matrices = [&](const Tensor& of_groups) {
    return of_groups.view({B, S, config_.groups, config_.state});
  };
  const Tensor y =
      scan({scanned[0].view({B, S, N, P}), step_sizes(inputs[2]), -torch::exp(decay_log_.to(wide)),
            matrices(scanned[1]), matrices(scanned[2]), skip_.to(wide)},
           positions);
  return out_.forward(
      gated_rms_norm_(y.flatten(-2), inputs[0], norm_.to(wide), config_.groups, epsilon_))[0];
}

void Mamba::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  groups.push_back({&in_, in_.named_linears(name + ".mamba")});
  groups.push_back({&out_, out_.named_linears(name + ".mamba")});
}

void Mamba::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  const std::string module = name + ".mamba";
  in_.append_parameters(module, parameters);
  parameters.push_back({module + ".conv1d.weight", &convolution_});
  if (convolution_bias_.defined()) {
    parameters.push_back({module + ".conv1d.bias", &convolution_bias_, ParameterStart::kZeros});
  }
  parameters.push_back({module + ".dt_bias", &step_bias_, ParameterStart::kOnes});
  parameters.push_back({module + ".A_log", &decay_log_, ParameterStart::kLogOfPlace});
  parameters.push_back({module + ".D", &skip_, ParameterStart::kOnes});
  parameters.push_back({module + ".norm.weight", &norm_, ParameterStart::kOnes});
  out_.append_parameters(module, parameters);
}

}  // namespace sftbench
