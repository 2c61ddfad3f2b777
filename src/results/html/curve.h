// What a measurement did over time or over its steps, small enough for a page: at most so many
// places, each with the mean of what it stands for and, where that hides something, the least and
// the greatest of it. No peak is ever lost, however few places are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sftbench::html {

// The page (curves.js) knows them by these numbers.
enum class Quantity : uint8_t {
  kLoss,  // against steps, as are the next two
  kEvaluationLoss,
  kStepSeconds,
  kGpuUse,      // %, against seconds since the first step began, as are all that follow
  kGpuMemory,   // % of the device's memory
  kGpuPower,    // W
  kCpu,         // cores that are busy, of a node
  kHostMemory,  // % of a node's memory that the run holds
};

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Curve {
  Quantity quantity = Quantity::kLoss;
  std::vector<double> x;
  std::vector<double> mean;             // as many; NaN: nothing is known there
  std::vector<double> least, greatest;  // as many; empty where they are the mean everywhere
  double limit = kNone;                 // what it cannot exceed
  double mark = kNone;                  // x from which the figures of the measurement count
};

// The values in the order of x, any number of neighbors as one place so that at most `most` are
// left. REQUIRES: as many values as x.
Curve curve_of(Quantity quantity, const std::vector<double>& x, const std::vector<double>& values,
               size_t most);

// At most `most` places are left.
void coarsen(Curve& curve, size_t most);

// Readings of one device or process; `group`: those that are added up, as processes of a node are.
struct Line {
  int group = 0;
  std::vector<double> x, values;
};

// All lines as one curve: the mean, the least and the greatest of the groups at places that the
// first line gives. A line without a reading at a place has its last one there.
Curve merged(Quantity quantity, const std::vector<Line>& lines, size_t most);

// Little endian. The head: quantity and flags (8 bits each; 1: least and greatest, 2: x as the
// curve before), the number of places (16 bits), then six floats of 32 bits. They are least and
// greatest x, least and greatest value, limit and mark. The places: all x, means, least and
// greatest, 16 bits each. Such a number is a share of the way from least to greatest, and 65535 is
// none. Padded to 4 bytes.
std::string encoded(const std::vector<Curve>& curves);

}  // namespace sftbench::html
