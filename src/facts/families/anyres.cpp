// Sizes in doubles and rounded where transformers rounds them: a row of features more or less
// follows from the last bit (select_best_resolution, get_patch_output_size and unpad_image;
// Idefics3ImageProcessorPil).
#include <algorithm>
#include <cmath>
#include <limits>

#include "sftbench/base/error.h"
#include "sftbench/families/vision_config.h"

namespace sftbench {
namespace {

PixelSize best_pinpoint(const VisionConfig& config, const PixelSize& image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  PixelSize best;
  int64_t most_kept = 0, least_wasted = std::numeric_limits<int64_t>::max();
  for (const PixelSize& pinpoint : config.pinpoints) {
    const double scale = std::min(static_cast<double>(pinpoint.width) / width,
                                  static_cast<double>(pinpoint.height) / height);
    const auto scaled_width = static_cast<int64_t>(width * scale);
    const auto scaled_height = static_cast<int64_t>(height * scale);
    const int64_t kept = std::min(scaled_width * scaled_height, image.width * image.height);
    const int64_t wasted = pinpoint.width * pinpoint.height - kept;
    if (kept < most_kept || (kept == most_kept && wasted >= least_wasted)) continue;
    most_kept = kept;
    least_wasted = wasted;
    best = pinpoint;
  }
  // Of an image so long that each pinpoint leaves it no side.
  return best.width > 0 ? best : config.pinpoints.front();
}

PixelSize fitted(const PixelSize& image, const PixelSize& target) {
  const double scale_width = static_cast<double>(target.width) / static_cast<double>(image.width);
  const double scale_height =
      static_cast<double>(target.height) / static_cast<double>(image.height);
  const auto scaled = [](int64_t side, double scale, int64_t most) {
    return std::min(static_cast<int64_t>(std::ceil(static_cast<double>(side) * scale)), most);
  };
  if (scale_width < scale_height) {
    return {scaled(image.height, scale_width, target.height), target.width};
  }
  return {target.height, scaled(image.width, scale_height, target.width)};
}

// --- Idefics3 ------------------------------------------------------------------------------------

// The longer side becomes `longest`; the shorter one keeps the shape, made even where `to_even`
// says so.
PixelSize with_longest_side(const PixelSize& image, int64_t longest, bool to_even) {
  const double aspect = static_cast<double>(image.width) / static_cast<double>(image.height);
  const auto shorter = [to_even](double side) {
    const auto whole = static_cast<int64_t>(side);
    return std::max<int64_t>(whole + (to_even ? whole % 2 : 0), 1);
  };
  const auto side = static_cast<double>(longest);
  if (image.width >= image.height) return {shorter(side / aspect), longest};
  return {longest, shorter(side * aspect)};
}

TileGrid squares_grid(const VisionConfig& config, const PixelSize& image) {
  constexpr int64_t kMostPixels = 4096;  // of a side, whatever the file says
  TileGrid grid;
  grid.scaled = with_longest_side(image, config.longest_side, true);
  if (std::max(grid.scaled.width, grid.scaled.height) > kMostPixels)
    grid.scaled = with_longest_side(grid.scaled, kMostPixels, false);
  const int64_t tile = config.image_size;
  const auto tiles = [tile](int64_t side) { return (side + tile - 1) / tile; };
  const int64_t longest = tiles(std::max(grid.scaled.width, grid.scaled.height));
  const PixelSize filled = with_longest_side(grid.scaled, longest * tile, false);
  grid.target = {tiles(filled.height) * tile, tiles(filled.width) * tile};
  if (!config.cuts) grid.target = {tile, tile};
  if (config.cuts && longest > 1) {
    grid.rows = grid.target.height / tile;
    grid.columns = grid.target.width / tile;
  }
  return grid;
}

// Python's int(round(value, 7)).
int64_t whole(double value) {
  constexpr double kDigits = 1e7;
  return static_cast<int64_t>(std::nearbyint(value * kDigits) / kDigits);
}

}  // namespace

int64_t VisionConfig::used_layers() const {
  return feature_layers.empty() ? 0
                                : *std::max_element(feature_layers.begin(), feature_layers.end());
}

TileGrid tile_grid(const VisionConfig& config, const PixelSize& image) {
  check(image.width > 0 && image.height > 0, "an image has pixels");
  if (config.connector == VisionConnector::kSquares) return squares_grid(config, image);
  TileGrid grid;
  grid.target = best_pinpoint(config, image);
  grid.scaled = fitted(image, grid.target);
  grid.rows = grid.target.height / config.image_size;
  grid.columns = grid.target.width / config.image_size;
  return grid;
}

FeatureWindow feature_window(const VisionConfig& config, const PixelSize& image) {
  const TileGrid grid = tile_grid(config, image);
  FeatureWindow window;
  window.rows = grid.rows * config.grid();
  window.columns = grid.columns * config.grid();
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  const auto rows = static_cast<double>(window.rows), columns = static_cast<double>(window.columns);
  if (width / height > columns / rows) {
    window.first_row = (window.rows - whole(height * (columns / width))) / 2;
    window.rows -= 2 * window.first_row;
  } else {
    window.first_column = (window.columns - whole(width * (rows / height))) / 2;
    window.columns -= 2 * window.first_column;
  }
  return window;
}

int64_t image_positions(const VisionConfig& config, const PixelSize& image) {
  if (config.connector == VisionConnector::kSquares)
    return tile_grid(config, image).tiles() * config.tile_features();
  const FeatureWindow window = feature_window(config, image);
  return config.tile_features() + window.rows * (window.columns + 1);
}

}  // namespace sftbench
