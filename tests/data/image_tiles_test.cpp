// How pictures become tiles, on pictures so small that the values follow by hand. tests/engine has
// whole ones of transformers.
#include "sftbench/data/image_tiles.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

uint8_t value(int64_t y, int64_t x, int64_t color) {
  return static_cast<uint8_t>(40 * y + 8 * x + color + 1);
}

Image picture(const PixelSize& size) {
  Image image = {size, {}};
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t color = 0; color < 3; ++color) image.rgb.push_back(value(y, x, color));
    }
  }
  return image;
}

// The square at (top, left) of a picture that stands in black, color by color.
std::vector<uint8_t> square(const PixelSize& size, int64_t top, int64_t left, int64_t side) {
  std::vector<uint8_t> values;
  for (int64_t color = 0; color < 3; ++color) {
    for (int64_t y = top; y < top + side; ++y) {
      for (int64_t x = left; x < left + side; ++x) {
        const bool inside = y >= 0 && y < size.height && x >= 0 && x < size.width;
        values.push_back(inside ? value(y, x, color) : 0);
      }
    }
  }
  return values;
}

using Bytes = std::vector<uint8_t>;

TEST(ImageTilesTest, ColorsAreMixedEachForItself) {
  const Bytes two = {0, 10, 200, 100, 20, 0}, mean = {50, 15, 100};
  for (const ImageFilter filter : {ImageFilter::kBicubic, ImageFilter::kLanczos}) {
    EXPECT_EQ(resized({{1, 2}, two}, {1, 1}, filter).rgb, mean) << "both count the same";
    EXPECT_EQ(resized({{2, 1}, two}, {1, 1}, filter).rgb, mean);
    const Image plain = {{4, 6}, [] {
                           Bytes rgb;
                           for (int i = 0; i < 24; ++i) rgb.insert(rgb.end(), {10, 20, 255});
                           return rgb;
                         }()};
    const Image other = resized(plain, {5, 3}, filter);
    EXPECT_EQ(other.size, (PixelSize{5, 3}));
    ASSERT_EQ(other.rgb.size(), 5u * 3 * 3);
    for (size_t i = 0; i < other.rgb.size(); ++i) EXPECT_EQ(other.rgb[i], plain.rgb[i % 3]) << i;
  }
}

// Behind the whole picture its parts, and what a picture leaves of them is black on both sides.
TEST(ImageTilesTest, PartsStandBehindTheWholeAndInTheMiddle) {
  VisionConfig vision;
  vision.image_size = 2;
  const auto part = [&](const PixelSize& size, const PixelSize& pinpoint, size_t number) {
    vision.pinpoints = {pinpoint};
    const Bytes tiles = tiles_of(picture(size), vision);
    EXPECT_EQ(tiles.size(), 12u * 3);
    return Bytes(tiles.begin() + static_cast<std::ptrdiff_t>(12 * number),
                 tiles.begin() + static_cast<std::ptrdiff_t>(12 * (number + 1)));
  };
  const PixelSize small = {2, 2}, wide = {2, 4}, tall = {4, 2};
  EXPECT_EQ(part(wide, wide, 1), square(wide, 0, 0, 2));
  EXPECT_EQ(part(wide, wide, 2), square(wide, 0, 2, 2));
  EXPECT_EQ(part(tall, tall, 1), square(tall, 0, 0, 2));
  EXPECT_EQ(part(tall, tall, 2), square(tall, 2, 0, 2));
  EXPECT_EQ(part(small, wide, 0), square(small, 0, 0, 2));
  EXPECT_EQ(part(small, wide, 1), square(small, 0, -1, 2));
  EXPECT_EQ(part(small, wide, 2), square(small, 0, 1, 2));
  EXPECT_EQ(part(small, tall, 1), square(small, -1, 0, 2));
  EXPECT_EQ(part(small, tall, 2), square(small, 1, 0, 2));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
