// An image as a model reads it: the whole of it and its parts, fitted into tiles (LlavaNextImageProcessor). Resizing is Pillow's:
// a bicubic filter that widens with the reduction, in fixed point, first along rows, then along columns. Pillow 13 takes the
// columns first for some tall images, and then a color may differ by one level of 255.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/data/image.h"

namespace sftbench {

// Of preprocessor_config.json: (pixel / 255 - mean) / deviation for each color.
struct ImageScaling {
  float mean[3] = {0.5F, 0.5F, 0.5F};
  float deviation[3] = {0.5F, 0.5F, 0.5F};
  bool operator==(const ImageScaling&) const = default;
};

// What a tower was trained with, where no file says it: CLIP's own, or 0.5.
ImageScaling default_scaling(const VisionConfig& config);

Image resized(const Image& image, const PixelSize& size);

// [tiles, 3, side, side], not scaled yet: the whole image as one tile, then its parts row by row. tile_grid() says how many.
std::vector<uint8_t> tiles_of(const Image& image, const VisionConfig& config);

}  // namespace sftbench
