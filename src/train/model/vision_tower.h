// The tower of a model that reads images: CLIP's (Radford et al. 2021) or SigLIP's (Zhai et al.
// 2023) transformer over the patches of tiles (CLIPVisionModel, SiglipVisionModel,
// Idefics3VisionTransformer). Layers that no feature comes from are not computed; their parameters
// are there all the same.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/layers.h"
#include "sftbench/families/vision_config.h"
#include "sftbench/model/linear.h"

namespace sftbench {

torch::Tensor vision_activation(const torch::Tensor& x, VisionActivation activation);

class VisionTower {
 public:
  VisionTower(const VisionConfig& config, torch::TensorOptions options);

  // pixels [T, C, side, side] -> features [T, patches, width]: the states of the feature layers
  // side by side, without the class token. A side other than image_size takes any_resolution.
  // to_stream gives the residual stream its dtype.
  torch::Tensor features(const torch::Tensor& pixels,
                         const std::function<torch::Tensor(const torch::Tensor&)>& to_stream) const;

  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups);
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);
  void set_compute_dtype(torch::Dtype dtype) { compute_dtype_ = dtype; }

 private:
  struct Layer {
    LayerNorm norm1;
    LinearGroup qkv, out;
    LayerNorm norm2;
    LinearGroup fc1, fc2;
  };
  // SigLIP's, of which nothing is computed.
  struct PoolingHead {
    torch::Tensor probe, in_weight, in_bias, out_weight, out_bias;
    LayerNorm norm;
    torch::Tensor fc1_weight, fc1_bias, fc2_weight, fc2_bias;
  };

  torch::Tensor embed(const torch::Tensor& pixels) const;
  torch::Tensor places(int64_t grid, const torch::Device& device) const;
  torch::Tensor attend(const Layer& layer, const torch::Tensor& x) const;
  torch::Tensor run_layer(const Layer& layer, const torch::Tensor& x) const;
  void append_embedding(const std::string& name, std::vector<NamedParameter>& parameters);
  void append_layer(Layer& layer, const std::string& name, std::vector<NamedParameter>& parameters);
  void append_head(const std::string& name, std::vector<NamedParameter>& parameters);
  PoolingHead make_head(torch::TensorOptions options) const;

  VisionConfig config_;
  torch::Tensor class_embedding_;  // [D], or undefined
  torch::Tensor patch_weight_;     // [D, C, patch, patch]
  torch::Tensor patch_bias_;       // [D], or undefined
  torch::Tensor positions_;        // [positions, D]
  std::optional<LayerNorm> pre_norm_;
  std::vector<Layer> layers_;
  LayerNorm post_norm_;
  std::optional<PoolingHead> head_;
  std::optional<torch::Dtype> compute_dtype_;
};

}  // namespace sftbench
