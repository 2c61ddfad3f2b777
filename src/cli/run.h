// sftbench run [SPACE]: measures one entity and prints its measured properties.
//
// The way: options -> one MeasurementRequest (selection.h) -> static rules -> TrainingJob (resolve)
// -> the key's lock -> dataset, if it can be generated -> measure_job ->
// DIR/<experiment>/<key>.json and stdout.
#pragma once

#include <CLI/CLI.hpp>

#include "sftbench/cli/app.h"

namespace sftbench {

inline constexpr int kBusyExitCode = 5;

// Registers the subcommand; its callback sets `exit_code`: 0 valid, 3 invalid, 4 failed,
// 130 interrupted; or throws KeyBusy, for kBusyExitCode.
void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace sftbench
