// The picture of the synthetic vision datasets, as a JPEG: a red disc of radius 200 and on it a
// blue one of radius 100, at the center of a white image that may be smaller than they are.
//
// Drawn and encoded as Pillow does it (ImageDraw.ellipse; quality 75, 4:2:0, accurate DCT), to the
// same bytes.
#pragma once

#include <cstdint>
#include <string>

namespace sftbench {

inline constexpr int64_t kLargestImageSide = 8192;  // pixels; the picture is drawn in memory

// REQUIRES: 1 <= width, height <= kLargestImageSide.
std::string vision_image_jpeg(int64_t width, int64_t height);

}  // namespace sftbench
