// Does one input matter? Configurations that differ in it alone, pair by pair, and what each of its
// values does on the whole.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/results/compare.h"
#include "sftbench/results/report_table.h"
#include "sftbench/results/scan.h"

namespace sftbench {

struct VaryOptions {
  std::string input;  // its name among the inputs, or "experiment"
  std::string
      baseline;  // value that the others stand beside; empty: the one that most configurations have
  CompareOptions compare;
};

// What a value does in comparison with the baseline, over all configurations that were measured
// with both.
struct MainEffect {
  std::string value;
  size_t pairs = 0, judged = 0;     // judged: with a ratio that has an interval
  size_t higher = 0, lower = 0;     // of the judged ones, beyond their noise
  double ratio = 1;                 // geometric mean over the judged pairs
  std::optional<double> low, high;  // its 95 % interval; of one pair: that of the pair
};

struct Variation {
  std::string baseline;
  std::vector<MainEffect> effects;  // by value
  // A row per pair: the inputs that tell pairs apart, the input's value, then the columns of
  // compare_results.
  ReportTable table;
  // Why there is no pair, where there is none: the two closest configurations and what else they
  // differ in.
  std::string why_empty;
};

// `scan` outlives the result. InputError, with the nearest spelling, for an input that no result
// has, for one that has the same value in all of them, and for a baseline that is no value of it.
Variation vary(const StoreScan& scan, const VaryOptions& options);

}  // namespace sftbench
