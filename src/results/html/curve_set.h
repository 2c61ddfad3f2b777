// The curves of many measurements, within a number of bytes. The newest come first: while all of
// them do not fit, every curve loses half of its places, down to kFewestPlaces, and then the oldest
// measurements are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "results/html/curve.h"
#include "sftbench/results/scan.h"

namespace sftbench::html {

inline constexpr size_t kMostPlaces = 200;
inline constexpr size_t kFewestPlaces = 25;
inline constexpr size_t kMostCurveBytes = size_t{12} << 20;  // before they are compressed

struct CurveSet {
  std::string bytes;              // encoded(), one measurement behind the other
  std::vector<uint32_t> offsets;  // of each row, and the end: where its bytes begin
  size_t most_places = kMostPlaces;
  int64_t left_out = 0;               // measurements, for want of room
  int64_t without_series = 0;         // valid ones that have no samples over time
  std::vector<std::string> problems;  // of series that could not be read, with their paths
};

// Of the valid measurements of the scan, which read `directory`. Reads on all cores.
CurveSet collect_curves(const StoreScan& scan, const std::filesystem::path& directory,
                        size_t most_bytes = kMostCurveBytes);

}  // namespace sftbench::html
