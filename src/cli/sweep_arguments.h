// What `sftbench sweep` is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/backend_options.h"
#include "cli/node_options.h"
#include "cli/price_options.h"
#include "cli/save_options.h"
#include "cli/selection.h"
#include "cli/sweep_engines.h"
#include "cli/track_options.h"
#include "sftbench/results/claim.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

struct SweepArguments {
  Selection selection;
  BackendOptions backend;
  SaveOptions save;
  TrackOptions track;
  NodeOptions nodes;
  EngineOptions engine;
  PriceOptions prices;
  SweepOptions options;  // its simulate is set from `backend`
  std::string operation_path;
  std::optional<uint64_t> seed;
  std::string jobs;                    // empty: the operation says
  std::optional<int64_t> max_retries;  // else the operation's
  bool dry_run = false;
  std::string until;
  std::string claims = "auto";
  double lease_s = kLeaseSeconds;
  std::string output = "results";
  std::string format = "table";
};

}  // namespace sftbench
