// ParquetTexts on Arrow.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "sftbench/data/parquet_library.h"

namespace sftbench {

std::unique_ptr<ParquetTexts> make_text_reader(const std::filesystem::path& path,
                                               const std::string& column);

}  // namespace sftbench
