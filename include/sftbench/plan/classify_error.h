// What the text of an exception says about how a measurement ended. Works on texts alone, because
// they come from both libtorch generations, from other processes' logs and from the system.
//
//   OOM_GPU   "CUDA out of memory" (torch::OutOfMemoryError), "CUDA error: out of memory", and
//             "CUDA error: an illegal memory access was encountered": invalid, by the documents
//   NCCL      any NCCL error, also one that names memory: failed, by the documents
//   OOM_HOST  std::bad_alloc, libtorch's CPU allocator, mmap
//   INTERNAL  anything else
// Source: documentation of the SFTTrainer actuator, "is_valid logic".
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct ErrorClass {
  ReasonCode code = ReasonCode::kInternal;
  std::string message;   // one sentence
  std::string evidence;  // the line of the text that proves it
};

ErrorClass classify_error(std::string_view what);

// The same for any exception that ended a run of `job`: a RunError keeps its own code; an
// InputError is DATA or WEIGHTS, by the file that it names.
ErrorClass classify_exception(const std::exception& error, const TrainingJob& job);

// Invalid outcomes are never measured again; failed ones may be repeated.
bool makes_invalid(ReasonCode code);

}  // namespace sftbench
