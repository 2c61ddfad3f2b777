// What a parent hands a child that measures (child_measurement.h): on its standard input, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// The hidden subcommand that reads it.
inline constexpr const char* kMeasureCommand = "measure";

struct ChildRequest {
  TrainingJob job;
  bool generate_dataset = false;
  std::string command;                // that repeats the measurement
  std::string log;                    // that grows, this process's standard error
  std::string final_log;              // its path afterwards
  std::string series;                 // file for what is sampled; empty: none
  std::vector<std::string> trackers;  // KIND=TARGET (trackers/spec.h), checked before
  std::vector<std::string> simulate;
  int sample = 1;
  int attempt = 1;
  std::vector<int> cpus;          // empty: all
  int64_t host_memory_bytes = 0;  // 0: no limit
  int heartbeat_fd = -1;          // write end of a pipe
  int result_fd = -1;             // file to write the outcome to (child_reply.h)
};

Json to_json(const ChildRequest& request);

// InputError naming `origin` and the key when one is missing or of the wrong type.
ChildRequest child_request_from_json(const Json& json, const std::string& origin);

}  // namespace sftbench
