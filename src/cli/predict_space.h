// Predictions of all entities of a space, ranked and filtered.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/selection.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/results/table.h"

namespace sftbench {

struct SpacePrediction {
  std::string sort;                   // a column; empty: the space's order
  std::vector<std::string> verdicts;  // that are shown; empty: all
  std::optional<int64_t> limit;       // rows
};

void add_space_prediction_options(CLI::App& command, SpacePrediction& wanted);

// Prints a row for each entity and experiment, sharpened by the folder `evidence` unless that is
// empty. InputError for an unknown column or verdict, and for
// a space of more entities than anybody waits for.
void predict_space(const LoadedSpace& loaded, const ResolveOptions& options,
                   const MachineOverrides& overrides, const SpacePrediction& wanted,
                   const std::string& evidence, OutputFormat format);

}  // namespace sftbench
