// sweep SPACE --on slurm|ray|kubernetes|local: the same sweep by workers that an engine starts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/selection.h"
#include "sftbench/results/table.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

struct EngineOptions {
  std::string engine;                    // --on; empty: no engine
  int64_t workers = 0;                   // --workers; 0: as the engine does unasked
  int64_t nodes = 1;                     // --nodes, of cells on the CPU
  bool submit = false;                   // --submit
  std::vector<std::string> slurm;        // --slurm KEY=VALUE
  std::vector<std::string> kubernetes;   // --kubernetes KEY=VALUE
  std::string ray_address;               // --ray-address
  std::string program;                   // --program; empty: the engine's default
  std::vector<std::string> environment;  // --env NAME=VALUE or NAME
};

void add_engine_options(CLI::App& command, EngineOptions& options);

// What the engines need to know of the sweep.
struct EngineSweep {
  const Selection& selection;
  std::string backend;
  std::string operation_path;
  std::optional<uint64_t> seed;
  bool retry_failed = true;
  bool repeats = false;  // valid cells may want more samples
  std::string output;
  bool dry_run = false;
  const DevicePrices& prices;  // of what is best
};

// InputError for options of one engine beside another, or without any.
void check_engine_options(const EngineOptions& options);

// REQUIRES: options.engine is given, and both were checked. Returns the exit status.
int sweep_on_engine(const CLI::App& command, const EngineOptions& options, const EngineSweep& sweep,
                    OutputFormat format);

}  // namespace sftbench
