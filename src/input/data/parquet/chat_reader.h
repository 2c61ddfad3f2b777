// ParquetChats on Arrow.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "sftbench/data/parquet_library.h"

namespace sftbench {

std::unique_ptr<ParquetChats> make_chat_reader(const std::filesystem::path& path,
                                               const std::string& text_column,
                                               const std::string& image_column);

}  // namespace sftbench
