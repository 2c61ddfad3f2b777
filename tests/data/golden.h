// The golden files that tests/reference/data.py made.
#pragma once

#include <filesystem>
#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

inline Json golden(const std::string& name) {
  return read_json_file((std::filesystem::path(SFTBENCH_TEST_DATA) / "data" / name).string());
}

}  // namespace sftbench
