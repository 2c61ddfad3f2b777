// The vision part of a model that reads images: a tower of transformer layers over the patches of
// square tiles, and a connector by which its states become positions of the text model (LLaVA-NeXT,
// Liu et al. 2024; Idefics3, Laurençon et al. 2024, and SmolVLM, Marafioti et al. 2025).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace sftbench {

enum class VisionActivation { kQuickGelu, kGelu, kGeluTanh };

struct PixelSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const PixelSize&) const = default;
};

// How the states of an image's tiles become positions.
enum class VisionConnector {
  // LLaVA-NeXT: the parts as one picture, without the padding of the fitted image and with a
  // newline behind each row.
  kNewlines,
  // Idefics3: squares of patches side by side, and each tile under tokens that name its place.
  kSquares,
};

struct VisionConfig {
  VisionConnector connector = VisionConnector::kNewlines;
  const char* tower = "model.vision_tower";  // names of modules
  const char* projector = "model.multi_modal_projector";
  // CLIP (Radford et al. 2021): a class token in front of the patches and a norm before the first
  // layer. SigLIP (Zhai et al. 2023) has neither, but a bias on its patches.
  bool clip = true;
  bool head = false;  // SigLIP's pooling head, which checkpoints carry and no feature comes from
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t channels = 3;
  int64_t image_size = 0;  // side of a tile
  int64_t patch_size = 0;
  VisionActivation activation = VisionActivation::kQuickGelu;
  double norm_eps = 1e-5;
  double initializer_range = 0.02;
  bool plain_start = false;     // all matrices start from normal(0, initializer_range)
  bool final_norm = false;      // features go through the tower's last norm
  bool any_resolution = false;  // places of patches are told by their fraction of a side (NaViT,
                                // Dehghani et al. 2023)

  // States that features are made of, side by side: 0 is the embedding, k the result of layer k.
  std::vector<int64_t> feature_layers;
  VisionActivation projector_activation = VisionActivation::kGelu;
  bool projector_bias = true;
  // Sizes that an image is fitted into, multiples of a tile. Of kNewlines.
  std::vector<PixelSize> pinpoints;
  // Patches along the side of a square that becomes one position; the longer side of an image
  // before it is cut; whether it is cut at all. Of kSquares.
  int64_t square = 1;
  int64_t longest_side = 0;
  bool cuts = true;
  int64_t image_token = 0;  // whose positions the features take

  int64_t grid() const { return image_size / patch_size; }  // patches along a tile's side
  int64_t positions() const { return grid() * grid() + (clip ? 1 : 0); }
  int64_t tile_features() const { return grid() * grid() / (square * square); }
  int64_t head_dim() const { return hidden_size / heads; }
  int64_t feature_width() const {
    return hidden_size * static_cast<int64_t>(feature_layers.size()) * square * square;
  }
  // Layers that any feature comes from: the others are not computed.
  int64_t used_layers() const;
};

// How an image of some size is cut into rows times columns tiles, beside a tile of the whole image.
// kNewlines: fitted into a pinpoint; the whole image stands in front. kSquares: resized to
// `scaled`, and from there to `target`; the whole image, made of that, stands behind.
struct TileGrid {
  PixelSize target;  // of the picture that is cut: rows and columns times a tile's side
  PixelSize scaled;  // of the image before, or within it
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t tiles() const { return 1 + rows * columns; }
};

// Of the pinpoints that which keeps the most of the image, and of those the one that wastes the
// least.
TileGrid tile_grid(const VisionConfig& config, const PixelSize& image);

// Rows and columns of features that are left when the fitted image's padding is cut off.
struct FeatureWindow {
  int64_t first_row = 0, rows = 0;
  int64_t first_column = 0, columns = 0;
};
FeatureWindow feature_window(const VisionConfig& config, const PixelSize& image);

// Positions that an image's features take in a text. kNewlines: the whole image's patches, and of
// the others those of the window, with one more at the end of each row.
int64_t image_positions(const VisionConfig& config, const PixelSize& image);

}  // namespace sftbench
