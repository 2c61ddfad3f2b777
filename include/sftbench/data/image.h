// Pictures of a dataset: JPEG and PNG to pixels, as Pillow's convert("RGB") has them, turned as
// their Exif orientation says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/families/vision_config.h"

namespace sftbench {

// Pillow refuses more as a decompression bomb.
inline constexpr int64_t kMostImagePixels = 178'956'970;

struct Image {
  PixelSize size;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// Reads no more than the header. Both throw InputError that says what is wrong with the picture:
// neither JPEG nor PNG, no pixels or too many, damaged or cut off, colors that are not read.
PixelSize image_size(std::string_view bytes);
Image decode_image(std::string_view bytes);

}  // namespace sftbench
