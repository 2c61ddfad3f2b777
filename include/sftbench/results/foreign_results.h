// Measurements that others made, as rows of a report beside own ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/results/scan.h"

namespace sftbench {

struct ForeignMeasurement {
  std::string source;  // "a100_80gb.csv:12"
  std::string stack;   // what was measured, of config/stacks.yaml
  std::string experiment;
  Json inputs = Json::object();
  Status status = Status::kFailed;
  std::optional<Reason> reason = std::nullopt;
  std::optional<double> padded_tokens_per_second = std::nullopt;  // of all devices
  std::optional<double> device_peak_allocated_bytes = std::nullopt;
};

// Behind the scan's own results. The inputs `origin` and `stack` tell them apart, and each is a row
// of its own: no median mixes them with own measurements, nor with each other.
void add_foreign_results(const std::vector<ForeignMeasurement>& measurements, StoreScan& scan);

}  // namespace sftbench
