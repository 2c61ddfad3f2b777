// LLaVA-NeXT (Liu et al. 2024; LlavaNextForConditionalGeneration): features of an image's tiles, projected to the width of
// the text model, take the places of placeholder tokens.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "model/llama.h"
#include "model/vision_tower.h"

namespace sftbench {

class LlavaNext : public Llama {
 public:
  LlavaNext(const ModelConfig& config, const ops::KernelChoice& kernels,
            torch::TensorOptions options);

 protected:
  torch::Tensor begin(const torch::Tensor& x, const TokenRows& rows) override;
  void append_first_parameters(std::vector<NamedParameter>& parameters) override;
  void append_first_groups(std::vector<NamedLinearGroup>& groups) override;
  void follow_compute_dtype(torch::Dtype dtype) override;

 private:
  torch::Tensor image_features(const ImageRows& images) const;
  torch::Tensor packed(const torch::Tensor& tiles, const PixelSize& image) const;

  const VisionConfig& vision() const { return *config().vision; }

  VisionTower tower_;
  LinearGroup linear_1_, linear_2_;  // the projector
  torch::Tensor newline_;            // [H], at the end of each row of features
};

}  // namespace sftbench
