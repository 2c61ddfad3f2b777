// The curves of many measurements, within a number of bytes. The newest come first: while all of
// them do not fit, every curve loses half of its places, down to kFewestPlaces, and then the oldest
// measurements are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
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

// What was read before, for a folder that is looked at again and again.
class CurveCache {
 public:
  struct Entry {
    std::vector<Curve> curves;
    bool has_series = false;
    std::string problem;
    uint64_t round = 0;  // in which it was used last
  };

  Entry* find(const std::string& id);
  Entry& put(const std::string& id, Entry entry);
  void begin_round() { ++round_; }
  void forget_unused();  // since begin_round()

  size_t places = kMostPlaces;  // as many as there was room for

 private:
  std::unordered_map<std::string, Entry> entries_;
  uint64_t round_ = 0;
};

// Of the valid measurements of the scan, which read `directory`. Reads on all cores.
CurveSet collect_curves(const StoreScan& scan, const std::filesystem::path& directory,
                        CurveCache& cache, size_t most_bytes = kMostCurveBytes);

}  // namespace sftbench::html
