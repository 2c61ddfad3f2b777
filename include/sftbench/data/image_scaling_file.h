// What preprocessor_config.json says of images, held against what config.json says of the model that reads them.
#pragma once

#include <filesystem>
#include <optional>

#include "sftbench/data/image_tiles.h"

namespace sftbench {

// Of preprocessor_config.json, or of the image processor within processor_config.json; nothing where a folder has neither.
// InputError with file, key, what was found and what is expected, where it describes other pixels than tiles_of() makes.
std::optional<ImageScaling> read_image_scaling(const std::filesystem::path& directory,
                                               const VisionConfig& vision);

}  // namespace sftbench
