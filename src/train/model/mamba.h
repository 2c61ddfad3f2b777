// Mamba-2 (Dao & Gu 2024; GraniteMoeHybridMambaLayer): a projection, a short convolution, a state
// that is carried from position to position, and a gated RMSNorm before the projection back.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "model/layers.h"
#include "model/rotary_embedding.h"

namespace sftbench {

class Mamba : public Mixer {
 public:
  Mamba(const ModelConfig& config, const ops::KernelChoice& kernels, torch::TensorOptions options);

  // Of `positions` only the sequences of a packed row matter: each starts from an empty state.
  torch::Tensor forward(const torch::Tensor& x, const RotaryTables& positions) const override;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) override;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;

 private:
  torch::Tensor step_sizes(const torch::Tensor& dt) const;

  MambaConfig config_;
  double epsilon_;
  decltype(ops::KernelChoice::gated_rms_norm) gated_rms_norm_;
  LinearGroup in_, out_;
  torch::Tensor convolution_, convolution_bias_;  // [C, 1, kernel], [C] or undefined
  torch::Tensor step_bias_, decay_log_, skip_;    // [heads]: dt_bias, A_log, D
  torch::Tensor norm_;                            // [inner]
};

}  // namespace sftbench
