// Pictures: whatever the bytes, an InputError or as many pixels as the header says; and tiles of
// what decodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/data/image_tiles.h"

namespace {

constexpr int64_t kMostPixels = 1 << 20;  // more takes time and finds nothing

sftbench::VisionConfig small_tiles() {
  sftbench::VisionConfig config;
  config.image_size = 12;
  config.patch_size = 4;
  config.pinpoints = {{12, 12}, {12, 24}, {24, 12}, {24, 24}, {36, 12}};
  return config;
}

sftbench::VisionConfig squares() {
  sftbench::VisionConfig config = small_tiles();
  config.connector = sftbench::VisionConnector::kSquares;
  config.longest_side = 30;
  return config;
}

void cut(const sftbench::Image& image, const sftbench::VisionConfig& config) {
  const auto tiles = static_cast<size_t>(sftbench::tile_grid(config, image.size).tiles());
  if (sftbench::tiles_of(image, config).size() != tiles * 3 * 12 * 12) std::abort();
  if (sftbench::image_positions(config, image.size) < 9) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static const sftbench::VisionConfig kConfigs[] = {small_tiles(), squares()};
  try {
    const sftbench::PixelSize header = sftbench::image_size(bytes);
    if (header.width < 1 || header.height < 1) std::abort();
    if (header.width * header.height > kMostPixels) return 0;
    const sftbench::Image image = sftbench::decode_image(bytes);
    if (!(image.size == header)) std::abort();
    if (image.rgb.size() != static_cast<size_t>(3 * header.width * header.height)) std::abort();
    for (const sftbench::VisionConfig& config : kConfigs) cut(image, config);
  } catch (const sftbench::InputError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
