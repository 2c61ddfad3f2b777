// What RankedEngine hands a rank that it starts (`sftbench rank`): on its standard input, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_place.h"

namespace sftbench {

// The hidden subcommand that reads it.
inline constexpr const char* kRankCommand = "rank";

struct RankRequest {
  TrainingJob job;
  RankPlace place;
  std::vector<int> cpus;          // that it may use; empty: those of its parent
  int64_t host_memory_bytes = 0;  // 0: no limit
  int events_fd = -1;             // write end of a pipe (rank_reply.h)
  int control_fd = -1;            // read end of one
};

Json to_json(const RankRequest& request);

// InputError naming `origin` and the key when one is missing or of the wrong type.
RankRequest rank_request_from_json(const Json& json, const std::string& origin);

}  // namespace sftbench
