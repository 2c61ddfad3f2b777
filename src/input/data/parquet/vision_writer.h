// VisionParquetWriter on Arrow.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "sftbench/data/parquet_library.h"

namespace sftbench {

std::unique_ptr<VisionParquetWriter> make_vision_writer(
    std::string image_jpeg, std::function<void(std::string_view)> write);

}  // namespace sftbench
