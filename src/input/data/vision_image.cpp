#include "data/vision_image.h"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr int kJpegQuality = 75;  // Pillow's default

using Color = std::array<uint8_t, 3>;
constexpr Color kWhite = {255, 255, 255}, kRed = {255, 0, 0}, kBlue = {0, 0, 255};

// How far a disc reaches to either side of its center, at each distance from it. The border is
// walked from the side to the top, each step to that one of the next three pixels that lies nearest
// to the circle: not the same pixels as x*x + y*y <= r*r.
std::vector<int64_t> half_widths(int64_t radius) {
  std::vector<int64_t> widths(static_cast<size_t>(radius) + 1, 0);
  const auto error = [radius](int64_t x, int64_t y) {
    return std::abs(x * x + y * y - radius * radius);
  };
  int64_t x = radius, y = 0;
  widths[0] = radius;
  while (x > 0 || y < radius) {
    const int64_t up = error(x, y + 1), across = error(x - 1, y);
    const int64_t both = error(x - 1, y + 1);
    if (up > both || up > across) --x;  // of equals the outermost
    if (up <= across || both <= across) ++y;
    auto& width = widths[static_cast<size_t>(y)];
    width = std::max(width, x);
  }
  return widths;
}

class Canvas {
 public:
  Canvas(int64_t width, int64_t height)
      : width_(width), height_(height), pixels_(static_cast<size_t>(width * height), kWhite) {}

  // At the center; what lies outside of the image is cut off.
  void disc(int64_t radius, const Color& color) {
    const std::vector<int64_t> widths = half_widths(radius);
    const int64_t center_x = width_ / 2, center_y = height_ / 2;
    for (int64_t y = std::max<int64_t>(0, center_y - radius);
         y <= std::min(height_ - 1, center_y + radius); ++y) {
      const int64_t half = widths[static_cast<size_t>(std::abs(y - center_y))];
      const auto row = pixels_.begin() + y * width_;
      std::fill(row + std::max<int64_t>(0, center_x - half),
                row + std::min(width_, center_x + half + 1), color);
    }
  }

  std::string jpeg() const {
    const std::unique_ptr<void, int (*)(tjhandle)> encoder(tjInitCompress(), tjDestroy);
    check(encoder != nullptr, "libjpeg-turbo starts");
    unsigned char* bytes = nullptr;
    unsigned long size_bytes = 0;
    const int status = tjCompress2(encoder.get(), pixels_.front().data(), static_cast<int>(width_),
                                   0, static_cast<int>(height_), TJPF_RGB, &bytes, &size_bytes,
                                   TJSAMP_420, kJpegQuality, TJFLAG_ACCURATEDCT);
    const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, tjFree);
    check(status == 0, "libjpeg-turbo encodes an image of an allowed size");
    return {bytes, bytes + size_bytes};
  }

 private:
  int64_t width_, height_;
  std::vector<Color> pixels_;  // row by row
};

}  // namespace

std::string vision_image_jpeg(int64_t width, int64_t height) {
  check(width >= 1 && height >= 1 && width <= kLargestImageSide && height <= kLargestImageSide,
        "an image's sides are in range");
  Canvas canvas(width, height);
  canvas.disc(200, kRed);
  canvas.disc(100, kBlue);
  return canvas.jpeg();
}

}  // namespace sftbench
