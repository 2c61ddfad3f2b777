// Rows of Parquet and Arrow files as JSON.
#pragma once

#include <filesystem>
#include <memory>

#include "sftbench/data/parquet_library.h"

namespace sftbench {

std::unique_ptr<ParquetRows> make_row_reader(const std::filesystem::path& path);

}  // namespace sftbench
