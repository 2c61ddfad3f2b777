// What a job takes on a GPU that is not there: a child process runs its first steps with the real
// engine and libtorch's real allocator on the phantom device (src/train/phantom). Kernels, products
// and large copies are counted and left out. So memory is that of a run, to the byte, and no loss,
// norm or time of a step is. Of several ranks only the first runs, and stands for all.
//
// Only a build for GPUs has that device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/measure/events.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct RehearsedGpu {
  std::string name;                // as NVML would say it
  int64_t memory_bytes = 0;        // that the allocator can have
  int64_t multiprocessors = 0;     // both decide which kernels libtorch takes, and their workspaces
  std::string compute_capability;  // "9.0"
};

struct Rehearsal {
  std::optional<ErrorClass> failure;  // OOM_GPU: it does not fit
  int64_t allocated_peak_bytes = 0;   // of tensors, as libtorch's allocator rounds them
  int64_t reserved_peak_bytes = 0;    // that the allocator took from the device
  MemoryPeak peak;
  // Of the last step:
  int64_t launches = 0;     // kernels and library calls; a graph is one
  int64_t graph_nodes = 0;  // of the graphs among them: kernels, library calls and copies
  int64_t copies = 0;
  double host_s = 0;              // what the host needed to launch them, on this machine
  Json kernels = Json::object();  // name -> launches
};

// The library of the phantom device, beside the program or installed. RunError(kUnsupported) when
// this build has none.
std::filesystem::path phantom_library();

// REQUIRES: job.device.kind is "cuda"; its dataset is there. Weights are drawn, whatever the job
// says. RunError(kUnsupported) as phantom_library(); std::system_error when no process can be
// started.
Rehearsal rehearse(const TrainingJob& job, const RehearsedGpu& gpu,
                   const std::filesystem::path& executable = "/proc/self/exe");

// The hidden subcommand that the child is started with, and what it does.
inline constexpr const char* kRehearseCommand = "rehearse";
int rehearse_for_parent();

}  // namespace sftbench
