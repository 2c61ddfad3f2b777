// Shapes: T tiles, C colors, G patches along a side, P positions, D width of the tower, N heads.
#include "model/vision_tower.h"

#include <cmath>

#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

LinearGroup linear(const char* name, int64_t in, int64_t out, torch::TensorOptions options) {
  return make_dense_group(in, {{name, out}}, /*bias=*/true, options);
}

// The same projection of each patch: a convolution whose step is its size.
torch::Tensor patches_of(const torch::Tensor& pixels, int64_t grid, int64_t side) {
  const int64_t tiles = pixels.size(0), colors = pixels.size(1), covered = grid * side;
  const torch::Tensor whole = pixels.narrow(2, 0, covered).narrow(3, 0, covered);
  return whole.reshape({tiles, colors, grid, side, grid, side})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({tiles, grid * grid, colors * side * side});
}

// What transformers' initializers draw from; a uniform distribution is replaced by a normal one of
// its deviation.
double xavier(int64_t in, int64_t out) {
  return std::sqrt(2.0 / static_cast<double>(in + out));
}

void set_deviation(std::vector<NamedParameter>& parameters, size_t first, double deviation) {
  for (size_t i = first; i < parameters.size(); ++i) {
    NamedParameter& parameter = parameters[i];
    if (parameter.start == ParameterStart::kNormal) parameter.stddev = deviation;
  }
}

void mark_unused(std::vector<NamedParameter>& parameters, size_t first) {
  for (size_t i = first; i < parameters.size(); ++i) parameters[i].unused = true;
}

}  // namespace

torch::Tensor vision_activation(const torch::Tensor& x, VisionActivation activation) {
  if (activation == VisionActivation::kQuickGelu) return x * torch::sigmoid(x * 1.702);
  return ops::gelu(x, activation == VisionActivation::kGelu ? ops::Gelu::kError : ops::Gelu::kTanh);
}

VisionTower::VisionTower(const VisionConfig& config, torch::TensorOptions options)
    : config_(config), post_norm_(config.hidden_size, config.norm_eps, options) {
  const int64_t width = config.hidden_size, inner = config.intermediate_size;
  patch_weight_ =
      torch::empty({width, config.channels, config.patch_size, config.patch_size}, options);
  positions_ = torch::empty({config.positions(), width}, options);
  const auto norm = [&] { return LayerNorm(width, config.norm_eps, options); };
  if (config.clip) {
    class_embedding_ = torch::empty({width}, options);
    pre_norm_ = norm();
  } else {
    patch_bias_ = torch::empty({width}, options);
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    layers_.push_back(
        {norm(),
         make_dense_group(width, {{"q_proj", width}, {"k_proj", width}, {"v_proj", width}}, true,
                          options),
         linear("out_proj", width, width, options), norm(), linear("fc1", width, inner, options),
         linear("fc2", inner, width, options)});
  }
  if (config.head) head_ = make_head(options);
}

VisionTower::PoolingHead VisionTower::make_head(torch::TensorOptions options) const {
  const int64_t width = config_.hidden_size, inner = config_.intermediate_size;
  const auto empty = [&](std::vector<int64_t> sizes) { return torch::empty(sizes, options); };
  return {empty({1, 1, width}),  empty({3 * width, width}),
          empty({3 * width}),    empty({width, width}),
          empty({width}),        LayerNorm(width, config_.norm_eps, options),
          empty({inner, width}), empty({inner}),
          empty({width, inner}), empty({width})};
}

torch::Tensor VisionTower::embed(const torch::Tensor& pixels) const {
  const torch::Dtype dtype = compute_dtype_.value_or(patch_weight_.scalar_type());
  const int64_t grid = pixels.size(2) / config_.patch_size;
  const torch::Tensor patches = patches_of(pixels.to(dtype), grid, config_.patch_size);
  torch::Tensor x_TPD = ops::linear(patches, patch_weight_.flatten(1).to(dtype),
                                    patch_bias_.defined() ? patch_bias_.to(dtype) : patch_bias_)
                            .to(positions_.scalar_type());
  if (class_embedding_.defined()) {
    const torch::Tensor token = class_embedding_.expand({x_TPD.size(0), 1, -1});
    x_TPD = torch::cat({token, x_TPD}, 1);
  }
  return x_TPD + (config_.any_resolution ? positions_.index_select(0, places(grid, x_TPD.device()))
                                         : positions_);
}

// Of grid x grid patches each one's row of positions_: that of its fraction of a side among those
// that were learned. In float32 and by these operators, as transformers has it: the last bit may
// put a fraction into the place before.
torch::Tensor VisionTower::places(int64_t grid, const torch::Device& device) const {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  const double step = 1.0 / static_cast<double>(config_.grid());
  const torch::Tensor boundaries = torch::arange(step, 1.0, step, options);
  const torch::Tensor fractions =
      (torch::arange(grid, options) * (1.0F / static_cast<float>(grid))).clamp_max(1.0 - 1e-6);
  const torch::Tensor along = torch::bucketize(fractions, boundaries, false, /*right=*/true);
  return (along.unsqueeze(1) * config_.grid() + along).flatten();
}

torch::Tensor VisionTower::attend(const Layer& layer, const torch::Tensor& x) const {
  const std::vector<torch::Tensor> qkv = layer.qkv.forward(x);
  const auto heads = [&](const torch::Tensor& projected) {
    return projected.view({x.size(0), x.size(1), config_.heads, config_.head_dim()});
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim()));
  const torch::Tensor mixed =
      ops::full_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), scale);
  return layer.out.forward(mixed.reshape({x.size(0), x.size(1), -1}))[0];
}

torch::Tensor VisionTower::run_layer(const Layer& layer, const torch::Tensor& x) const {
  const torch::Tensor h = x + attend(layer, layer.norm1.forward(x));
  const torch::Tensor inner = layer.fc1.forward(layer.norm2.forward(h))[0];
  return h + layer.fc2.forward(vision_activation(inner, config_.activation))[0];
}

torch::Tensor VisionTower::features(
    const torch::Tensor& pixels,
    const std::function<torch::Tensor(const torch::Tensor&)>& to_stream) const {
  torch::Tensor x = to_stream(embed(pixels));
  if (pre_norm_) x = pre_norm_->forward(x);
  std::vector<torch::Tensor> states = {x};
  for (int64_t i = 0; i < config_.used_layers(); ++i) {
    x = run_layer(layers_[static_cast<size_t>(i)], x);
    states.push_back(x);
  }
  std::vector<torch::Tensor> chosen;
  for (const int64_t layer : config_.feature_layers)
    chosen.push_back(states[static_cast<size_t>(layer)]);
  torch::Tensor side_by_side = chosen.size() == 1 ? chosen.front() : torch::cat(chosen, -1);
  if (config_.final_norm) side_by_side = post_norm_.forward(side_by_side);
  return config_.clip ? side_by_side.slice(1, 1) : side_by_side;
}

void VisionTower::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const std::string prefix = name + ".encoder.layers." + std::to_string(i);
    groups.push_back({&layer.qkv, layer.qkv.named_linears(prefix + ".self_attn")});
    groups.push_back({&layer.out, layer.out.named_linears(prefix + ".self_attn")});
    groups.push_back({&layer.fc1, layer.fc1.named_linears(prefix + ".mlp")});
    groups.push_back({&layer.fc2, layer.fc2.named_linears(prefix + ".mlp")});
  }
}

void VisionTower::append_embedding(const std::string& name,
                                   std::vector<NamedParameter>& parameters) {
  const auto add = [&](const char* leaf, torch::Tensor& tensor, double deviation) {
    parameters.push_back({name + "." + leaf, &tensor});
    parameters.back().stddev = deviation;
  };
  const auto width = static_cast<double>(config_.hidden_size);
  if (config_.clip) {
    add("class_embedding", class_embedding_, 1.0 / std::sqrt(width));
    add("patch_embedding.weight", patch_weight_, config_.initializer_range);
    add("position_embedding.weight", positions_, config_.initializer_range);
    return;
  }
  const auto fan_in = static_cast<double>(patch_weight_.numel()) / width;
  add("patch_embedding.weight", patch_weight_, 1.0 / std::sqrt(fan_in));
  parameters.push_back({name + ".patch_embedding.bias", &patch_bias_, ParameterStart::kZeros});
  add("position_embedding.weight", positions_, 1.0 / std::sqrt(width));
}

void VisionTower::append_layer(Layer& layer, const std::string& name,
                               std::vector<NamedParameter>& parameters) {
  const int64_t width = config_.hidden_size, inner = config_.intermediate_size;
  const auto wide = static_cast<double>(width);
  // CLIP's: the deeper the tower, the smaller what a branch adds.
  const double branch = 1.0 / std::sqrt(wide * 2.0 * static_cast<double>(config_.layers));
  const auto add = [&](LinearGroup& group, const std::string& module, double of_clip,
                       double else_) {
    const size_t first = parameters.size();
    group.append_parameters(name + module, parameters);
    set_deviation(parameters, first, config_.clip ? of_clip : else_);
  };
  layer.norm1.append_parameters(name + ".layer_norm1", parameters);
  add(layer.qkv, ".self_attn", branch, xavier(width, width));
  add(layer.out, ".self_attn", 1.0 / std::sqrt(wide), xavier(width, width));
  layer.norm2.append_parameters(name + ".layer_norm2", parameters);
  add(layer.fc1, ".mlp", 1.0 / std::sqrt(2.0 * wide), xavier(width, inner));
  add(layer.fc2, ".mlp", branch, xavier(inner, width));
}

void VisionTower::append_head(const std::string& name, std::vector<NamedParameter>& parameters) {
  PoolingHead& head = *head_;
  const int64_t width = config_.hidden_size, inner = config_.intermediate_size;
  const auto weight = [&](const char* leaf, torch::Tensor& tensor, double deviation) {
    parameters.push_back({name + "." + leaf, &tensor});
    parameters.back().stddev = deviation;
  };
  const auto bias = [&](const char* leaf, torch::Tensor& tensor) {
    parameters.push_back({name + "." + leaf, &tensor, ParameterStart::kZeros});
  };
  weight("probe", head.probe, xavier(width, width));
  weight("attention.in_proj_weight", head.in_weight, xavier(width, 3 * width));
  bias("attention.in_proj_bias", head.in_bias);
  weight("attention.out_proj.weight", head.out_weight, 1.0 / std::sqrt(width));
  bias("attention.out_proj.bias", head.out_bias);
  head.norm.append_parameters(name + ".layernorm", parameters);
  weight("mlp.fc1.weight", head.fc1_weight, xavier(width, inner));
  bias("mlp.fc1.bias", head.fc1_bias);
  weight("mlp.fc2.weight", head.fc2_weight, xavier(inner, width));
  bias("mlp.fc2.bias", head.fc2_bias);
}

void VisionTower::append_parameters(const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  const size_t begin = parameters.size();
  append_embedding(name + ".embeddings", parameters);
  if (pre_norm_) pre_norm_->append_parameters(name + ".pre_layrnorm", parameters);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t first = parameters.size();
    append_layer(layers_[i], name + ".encoder.layers." + std::to_string(i), parameters);
    if (static_cast<int64_t>(i) >= config_.used_layers()) mark_unused(parameters, first);
  }
  const size_t first = parameters.size();
  post_norm_.append_parameters(name + ".post_layernorm", parameters);
  if (head_) append_head(name + ".head", parameters);
  if (!config_.final_norm) mark_unused(parameters, first);
  if (config_.plain_start) set_deviation(parameters, begin, config_.initializer_range);
}

}  // namespace sftbench
