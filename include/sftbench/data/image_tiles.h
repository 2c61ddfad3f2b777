// An image as a model reads it: the whole of it and its parts, fitted into tiles
// (LlavaNextImageProcessorPil, Idefics3ImageProcessorPil). Resizing is that of Pillow 13: a filter
// that widens with the reduction, in fixed point, first along rows, then along columns; of some
// tall images along columns first. Older versions round a level of 255 otherwise there.
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

enum class ImageFilter { kLanczos = 1, kBicubic = 3 };  // Pillow's numbers
inline ImageFilter filter_of(const VisionConfig& config) {
  return config.connector == VisionConnector::kSquares ? ImageFilter::kLanczos
                                                       : ImageFilter::kBicubic;
}

Image resized(const Image& image, const PixelSize& size, ImageFilter filter);

// [tiles, 3, side, side], not scaled yet: the whole image as one tile, and its parts row by row, in
// the order and number that tile_grid() says.
std::vector<uint8_t> tiles_of(const Image& image, const VisionConfig& config);

}  // namespace sftbench
