// Says before a measurement begins that memory cannot suffice. Only a warning: what becomes of the
// measurement is measured. It compares the least that the job takes (plan/cost_model.h,
// memory_at_least) with the most that its processes can get, so that nothing is warned of that
// could fit.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/measure/available_memory.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// What a job's processes on this machine can get.
struct MemoryRoom {
  AvailableMemory host;                                            // all of them together
  double process_bytes = std::numeric_limits<double>::infinity();  // each, by `ulimit`
  std::vector<double> gpu_bytes;  // free on each GPU that they may use
};

// `host_memory_bytes`: the limit of a sweep's --host-memory, 0: none. `gpus`: UUIDs of those that
// the job gets; empty: the first ones that this process may use. `nvml` may be nullptr.
MemoryRoom memory_room(const TrainingJob& job, const Nvml* nvml, int64_t host_memory_bytes = 0,
                       const std::vector<std::string>& gpus = {});

// "llama3-8b needs at least 45 GiB of host memory (weights 15.0 GiB, ...), and 24 GiB are
// available: ...", with what would need less. Nothing when it may fit, or when the least is not
// known.
std::optional<std::string> memory_warning(const TrainingJob& job, const MemoryRoom& room);

}  // namespace sftbench
