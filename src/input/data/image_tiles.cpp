#include "sftbench/data/image_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace sftbench {
namespace {

constexpr int64_t kColors = 3;
constexpr int kFractionBits = 22;  // Pillow's PRECISION_BITS for 8 bits

// Catmull-Rom's, with a = -0.5.
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

double sinc(double x) {
  return x == 0 ? 1.0 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

double lanczos(double x) {
  return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

// Pillow's, by a pixel's distance from a center.
struct Filter {
  double (*share)(double distance);
  double support;
};
constexpr Filter kBicubic = {bicubic, 2.0}, kLanczos = {lanczos, 3.0};

// Which pixels one of the result is made of, and their shares.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> shares;
};

std::vector<Taps> taps_of(int64_t in, int64_t out, const Filter& filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter.support * filter_scale;
  std::vector<Taps> all;
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto end = std::min(in, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      shares.push_back(
          filter.share((static_cast<double>(x) - center + 0.5) * (1.0 / filter_scale)));
      sum += shares.back();
    }
    Taps taps;
    taps.first = first;
    for (const double share : shares) {
      const double fixed = (sum != 0 ? share / sum : share) * (1 << kFractionBits);
      taps.shares.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
    all.push_back(std::move(taps));
  }
  return all;
}

uint8_t rounded(int64_t sum) {
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kFractionBits, 0, 255));
}

// Along one side: `count` lines whose pixels are `step` bytes apart and which begin `next` bytes
// one behind the other.
struct Lines {
  int64_t count, step, next;
};

void resample(const uint8_t* source, const Lines& from, uint8_t* target, const Lines& to,
              const std::vector<Taps>& taps) {
  constexpr int64_t kHalf = int64_t{1} << (kFractionBits - 1);
  for (int64_t line = 0; line < from.count; ++line) {
    for (size_t i = 0; i < taps.size(); ++i) {
      const uint8_t* first = source + line * from.next + taps[i].first * from.step;
      uint8_t* pixel = target + line * to.next + static_cast<int64_t>(i) * to.step;
      for (int64_t color = 0; color < kColors; ++color) {
        int64_t sum = kHalf;
        const uint8_t* value = first + color;
        for (const int32_t share : taps[i].shares) {
          sum += static_cast<int64_t>(share) * *value;
          value += from.step;
        }
        pixel[color] = rounded(sum);
      }
    }
  }
}

Image blank(const PixelSize& size) {
  return {size, std::vector<uint8_t>(static_cast<size_t>(size.height * size.width * kColors))};
}

Image with_width(const Image& image, int64_t width, const Filter& filter) {
  if (width == image.size.width) return image;
  Image result = blank({image.size.height, width});
  const int64_t from = image.size.width * kColors, to = width * kColors;
  resample(image.rgb.data(), {image.size.height, kColors, from}, result.rgb.data(),
           {image.size.height, kColors, to}, taps_of(image.size.width, width, filter));
  return result;
}

Image with_height(const Image& image, int64_t height, const Filter& filter) {
  if (height == image.size.height) return image;
  Image result = blank({height, image.size.width});
  const int64_t row = image.size.width * kColors;
  resample(image.rgb.data(), {image.size.width, row, kColors}, result.rgb.data(),
           {image.size.width, row, kColors}, taps_of(image.size.height, height, filter));
  return result;
}

// At the middle of a black picture; what is over goes below and to the right.
Image padded(const Image& image, const PixelSize& size) {
  Image result = blank(size);
  const int64_t top = (size.height - image.size.height) / 2;
  const int64_t left = (size.width - image.size.width) / 2;
  for (int64_t y = 0; y < image.size.height; ++y) {
    std::copy_n(image.rgb.begin() + y * image.size.width * kColors, image.size.width * kColors,
                result.rgb.begin() + ((top + y) * size.width + left) * kColors);
  }
  return result;
}

// Appends the square at (top, left), color by color.
void append_tile(const Image& image, int64_t top, int64_t left, int64_t side,
                 std::vector<uint8_t>& tiles) {
  for (int64_t color = 0; color < kColors; ++color) {
    for (int64_t y = top; y < top + side; ++y) {
      const uint8_t* row = image.rgb.data() + (y * image.size.width + left) * kColors + color;
      for (int64_t x = 0; x < side; ++x) tiles.push_back(row[x * kColors]);
    }
  }
}

void append_parts(const Image& whole, const TileGrid& grid, int64_t side,
                  std::vector<uint8_t>& tiles) {
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column)
      append_tile(whole, row * side, column * side, side, tiles);
  }
}

}  // namespace

ImageScaling default_scaling(const VisionConfig& config) {
  if (!config.clip) return {};
  return {{0.48145466F, 0.4578275F, 0.40821073F}, {0.26862954F, 0.26130258F, 0.27577711F}};
}

Image resized(const Image& image, const PixelSize& size, ImageFilter kind) {
  const Filter& filter = kind == ImageFilter::kBicubic ? kBicubic : kLanczos;
  const int64_t lower = image.size.height - size.height, narrower = image.size.width - size.width;
  if (lower > 0 && lower > 2 * narrower)
    return with_width(with_height(image, size.height, filter), size.width, filter);
  return with_height(with_width(image, size.width, filter), size.height, filter);
}

std::vector<uint8_t> tiles_of(const Image& image, const VisionConfig& config) {
  const int64_t side = config.image_size;
  const TileGrid grid = tile_grid(config, image.size);
  const ImageFilter filter = filter_of(config);
  std::vector<uint8_t> tiles;
  tiles.reserve(static_cast<size_t>(grid.tiles() * kColors * side * side));
  if (config.connector == VisionConnector::kSquares) {
    const Image whole = resized(resized(image, grid.scaled, filter), grid.target, filter);
    append_parts(whole, grid, side, tiles);
    append_tile(resized(whole, {side, side}, filter), 0, 0, side, tiles);
  } else {
    append_tile(resized(image, {side, side}, filter), 0, 0, side, tiles);
    append_parts(padded(resized(image, grid.scaled, filter), grid.target), grid, side, tiles);
  }
  return tiles;
}

}  // namespace sftbench
