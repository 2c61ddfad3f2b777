// Shapes: B batch, S sequence, H hidden, T tiles, G patches along a tile's side.
#include "model/llava_next.h"

#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

constexpr const char* kProjector = "model.multi_modal_projector";

LinearGroup projection(const char* name, int64_t in, int64_t out, bool bias,
                       torch::TensorOptions options) {
  return make_dense_group(in, {{name, out}}, bias, options);
}

}  // namespace

LlavaNext::LlavaNext(const ModelConfig& config, const ops::KernelChoice& kernels,
                     torch::TensorOptions options)
    : Llama(config, kernels, options),
      tower_(*config.vision, options),
      linear_1_(projection("linear_1", config.vision->feature_width(), config.hidden_size,
                           config.vision->projector_bias, options)),
      linear_2_(projection("linear_2", config.hidden_size, config.hidden_size,
                           config.vision->projector_bias, options)),
      newline_(torch::empty({config.hidden_size}, options)) {}

// tiles [1 + rows * columns, G * G, H] of one image -> [positions, H]: the whole image's, then those of its parts as one
// picture, without the padding of the fitted image, a newline behind each row.
torch::Tensor LlavaNext::packed(const torch::Tensor& tiles, const PixelSize& image) const {
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

torch::Tensor LlavaNext::image_features(const ImageRows& images) const {
  const torch::Tensor features =
      tower_.features(images.pixels, [this](const torch::Tensor& x) { return to_stream_dtype(x); });
  const torch::Tensor inner = linear_1_.forward(features)[0];
  const torch::Tensor projected =
      linear_2_.forward(vision_activation(inner, vision().projector_activation))[0];
  std::vector<torch::Tensor> packed_images;
  int64_t first = 0;
  for (const PixelSize& image : images.sizes) {
    const int64_t tiles = tile_grid(vision(), image).tiles();
    packed_images.push_back(packed(projected.narrow(0, first, tiles), image));
    first += tiles;
  }
  check(first == projected.size(0), "every tile belongs to an image");
  return torch::cat(packed_images);
}

torch::Tensor LlavaNext::begin(const torch::Tensor& x_BSH, const TokenRows& rows) {
  if (rows.images.sizes.empty()) return Llama::begin(x_BSH, rows);
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

void LlavaNext::append_first_parameters(std::vector<NamedParameter>& parameters) {
  tower_.append_parameters("model.vision_tower", parameters);
  linear_1_.append_parameters(kProjector, parameters);
  linear_2_.append_parameters(kProjector, parameters);
  parameters.push_back({"model.image_newline", &newline_});
  parameters.back().stddev = 1.0 / std::sqrt(static_cast<double>(config().hidden_size));
}

void LlavaNext::append_first_groups(std::vector<NamedLinearGroup>& groups) {
  tower_.append_groups("model.vision_tower", groups);
  groups.push_back({&linear_1_, linear_1_.named_linears(kProjector)});
  groups.push_back({&linear_2_, linear_2_.named_linears(kProjector)});
}

void LlavaNext::follow_compute_dtype(torch::Dtype dtype) {
  Llama::follow_compute_dtype(dtype);
  tower_.set_compute_dtype(dtype);
}

}  // namespace sftbench
