// A model of Llama's kin that reads images (LlavaNextForConditionalGeneration,
// Idefics3ForConditionalGeneration, SmolVLMForConditionalGeneration): features of an image's tiles,
// projected to the width of the text model, take the places of placeholder tokens.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "model/llama.h"
#include "model/vision_tower.h"

namespace sftbench {

class VisionLm : public Llama {
 public:
  VisionLm(const ModelConfig& config, const ops::KernelChoice& kernels,
           torch::TensorOptions options);

 protected:
  torch::Tensor begin(const torch::Tensor& x, const TokenRows& rows) override;
  void append_first_parameters(std::vector<NamedParameter>& parameters) override;
  void append_first_groups(std::vector<NamedLinearGroup>& groups) override;
  void follow_compute_dtype(torch::Dtype dtype) override;

 private:
  torch::Tensor image_features(const ImageRows& images) const;
  torch::Tensor projected(torch::Tensor features) const;
  torch::Tensor with_newlines(const torch::Tensor& tiles, const PixelSize& image) const;

  const VisionConfig& vision() const { return *config().vision; }

  VisionTower tower_;
  std::vector<LinearGroup> projector_;
  torch::Tensor newline_;  // [H], at the end of each row of features; or undefined
};

}  // namespace sftbench
