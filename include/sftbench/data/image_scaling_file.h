// What preprocessor_config.json says of images, held against what config.json says of the model
// that reads them.
#pragma once

#include <filesystem>
#include <optional>

#include "sftbench/data/image_tiles.h"

namespace sftbench {

// Of preprocessor_config.json, or of the image processor within processor_config.json; nothing
// where a folder has neither. `vision` takes what kSquares leaves to the processor: the sides of
// tiles and of the image, and whether it is cut. InputError with file, key, what was found and what
// is expected, where it describes other pixels than tiles_of() makes, or processor_config.json
// another number of features.
std::optional<ImageScaling> read_image_scaling(const std::filesystem::path& directory,
                                               VisionConfig& vision);

}  // namespace sftbench
