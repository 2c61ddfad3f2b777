// Shapes: B batch, S sequence, H hidden, T tiles, G patches along a tile's side.
#include "model/vision_lm.h"

#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

// Squares of patches side by side: [T, G * G, D] -> [T, G * G / side^2, side^2 * D].
torch::Tensor in_squares(const torch::Tensor& features, int64_t side) {
  if (side == 1) return features;
  const int64_t T = features.size(0), D = features.size(2);
  const auto G = static_cast<int64_t>(std::llround(std::sqrt(features.size(1))));
  return features.view({T, G / side, side, G / side, side, D})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({T, G * G / (side * side), side * side * D});
}

}  // namespace

VisionLm::VisionLm(const ModelConfig& config, const ops::KernelChoice& kernels,
                   torch::TensorOptions options)
    : Llama(config, kernels, options), tower_(*config.vision, options) {
  for (const LinearShape& linear : projector_linears(config)) {
    projector_.push_back(
        make_dense_group(linear.in, {{linear.name, linear.out}}, vision().projector_bias, options));
  }
  if (vision().connector == VisionConnector::kNewlines)
    newline_ = torch::empty({config.hidden_size}, options);
}

// tiles [1 + rows * columns, G * G, H] of one image -> [positions, H]: the whole image's, then
// those of its parts as one picture, without the padding of the fitted image, a newline behind each
// row.
torch::Tensor VisionLm::with_newlines(const torch::Tensor& tiles, const PixelSize& image) const {
  const int64_t G = vision().grid(), H = tiles.size(2);
  const TileGrid grid = tile_grid(vision(), image);
  const FeatureWindow window = feature_window(vision(), image);
  const torch::Tensor picture = tiles.slice(0, 1)
                                    .reshape({grid.rows, grid.columns, G, G, H})
                                    .permute({0, 2, 1, 3, 4})
                                    .reshape({grid.rows * G, grid.columns * G, H})
                                    .narrow(0, window.first_row, window.rows)
                                    .narrow(1, window.first_column, window.columns);
  const torch::Tensor newlines = newline_.to(tiles.scalar_type()).expand({window.rows, 1, H});
  return torch::cat({tiles.select(0, 0), torch::cat({picture, newlines}, 1).flatten(0, 1)});
}

torch::Tensor VisionLm::projected(torch::Tensor features) const {
  for (size_t i = 0; i < projector_.size(); ++i) {
    if (i > 0) features = vision_activation(features, vision().projector_activation);
    features = projector_[i].forward(features)[0];
  }
  return features;
}

torch::Tensor VisionLm::image_features(const ImageRows& images) const {
  const torch::Tensor features =
      tower_.features(images.pixels, [this](const torch::Tensor& x) { return to_stream_dtype(x); });
  const torch::Tensor tiles = projected(in_squares(features, vision().square));
  if (!newline_.defined()) return tiles.flatten(0, 1);
  std::vector<torch::Tensor> of_images;
  int64_t first = 0;
  for (const PixelSize& image : images.sizes) {
    const int64_t count = tile_grid(vision(), image).tiles();
    of_images.push_back(with_newlines(tiles.narrow(0, first, count), image));
    first += count;
  }
  check(first == tiles.size(0), "every tile belongs to an image");
  return torch::cat(of_images);
}

torch::Tensor VisionLm::begin(const torch::Tensor& x_BSH, const TokenRows& rows) {
  if (!rows.images.pixels.defined()) return Llama::begin(x_BSH, rows);
  const torch::Tensor features = image_features(rows.images).to(x_BSH.scalar_type());
  // Virtual tokens, where there are any, stand in front of each row.
  const torch::Tensor placeholders = torch::constant_pad_nd(
      rows.input_ids == rows.images.token, {x_BSH.size(1) - rows.input_ids.size(1), 0}, false);
  const torch::Tensor places = placeholders.flatten().nonzero().squeeze(1);
  if (places.size(0) != features.size(0)) {
    throw RunError(ReasonCode::kData, "the images of a batch have " +
                                          std::to_string(features.size(0)) +
                                          " features, and its texts have " +
                                          std::to_string(places.size(0)) + " places for them");
  }
  const torch::Tensor merged = x_BSH.flatten(0, 1).index_copy(0, places, features);
  return Llama::begin(merged.view(x_BSH.sizes()), rows);
}

void VisionLm::append_first_parameters(std::vector<NamedParameter>& parameters) {
  tower_.append_parameters(vision().tower, parameters);
  for (LinearGroup& linear : projector_) linear.append_parameters(vision().projector, parameters);
  if (!newline_.defined()) return;
  parameters.push_back({"model.image_newline", &newline_});
  parameters.back().stddev = 1.0 / std::sqrt(static_cast<double>(config().hidden_size));
}

void VisionLm::append_first_groups(std::vector<NamedLinearGroup>& groups) {
  tower_.append_groups(vision().tower, groups);
  for (LinearGroup& linear : projector_)
    groups.push_back({&linear, linear.named_linears(vision().projector)});
}

void VisionLm::follow_compute_dtype(torch::Dtype dtype) {
  Llama::follow_compute_dtype(dtype);
  tower_.set_compute_dtype(dtype);
}

}  // namespace sftbench
