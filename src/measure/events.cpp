#include "sftbench/measure/events.h"

#include <algorithm>

#include "sftbench/base/quantity_text.h"

namespace sftbench {

std::string load_text(const LoadEvent& load) {
  std::string text = load.phase;
  if (load.weight_bytes_total > 0) {
    const int64_t done = std::min(load.weight_bytes, load.weight_bytes_total);
    const auto total = static_cast<double>(load.weight_bytes_total);
    const auto percent = static_cast<int64_t>(100 * (static_cast<double>(done) / total));
    text += ", weights " + std::to_string(percent) + " % of " + bytes_text(total);
  }
  if (load.entries_total > 0) {
    text += ", " + std::to_string(load.entries) + " of " +
            counted(load.entries_total, "entry", "entries") + " tokenized";
  }
  return text;
}

}  // namespace sftbench
