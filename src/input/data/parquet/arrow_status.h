// What Arrow reports instead of throwing, as this program's errors.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

// "Arrow" or "Parquet", by its ending.
inline const char* table_format(const std::string& path) {
  return path.ends_with(".arrow") ? "Arrow" : "Parquet";
}

// For files that are read: what Arrow says of one is the file's fault.
inline void require_readable(const arrow::Status& status, const std::string& path) {
  if (status.ok()) return;
  throw InputError(
      {{.file = path,
        .line = 0,
        .key = {},
        .message = std::string("cannot read as ") + table_format(path) + ": " + status.message(),
        .expected = {},
        .nearest = {}}});
}

template <typename Value>
Value readable(arrow::Result<Value> result, const std::string& path) {
  require_readable(result.status(), path);
  return std::move(result).ValueUnsafe();
}

}  // namespace sftbench
