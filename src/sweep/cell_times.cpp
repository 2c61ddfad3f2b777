#include "sweep/cell_times.h"

#include <algorithm>
#include <array>

namespace sftbench {
namespace {

// From the narrowest to all.
std::array<std::string, 3> groups_of(const Cell& cell) {
  const std::string& experiment = cell.request.experiment;
  const auto model = cell.inputs.find("model_name");
  const bool named = model != cell.inputs.end() && model->is_string();
  return {experiment + " " + (named ? model->get<std::string>() : ""), experiment, ""};
}

}  // namespace

void CellTimes::took(const Cell& cell, double seconds) {
  for (const std::string& group : groups_of(cell)) {
    double& longest = longest_s_[group];
    longest = std::max(longest, seconds);
  }
}

std::optional<double> CellTimes::longest(const Cell& cell) const {
  for (const std::string& group : groups_of(cell)) {
    if (const auto found = longest_s_.find(group); found != longest_s_.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace sftbench
