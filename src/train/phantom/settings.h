// The GPUs that the phantom device pretends to have. A process tells it in the environment variable
// SFTBENCH_PHANTOM, a JSON object with these names.
#pragma once

#include <cstdint>
#include <string>

namespace sftbench::phantom {

struct Settings {
  int count = 1;
  std::string name = "NVIDIA H100 80GB HBM3";
  int64_t memory_bytes = 85'520'809'984;  // as the driver reports it, 79.65 GiB
  int multiprocessors = 132;
  int major = 9, minor = 0;  // compute capability
  // A library that is loaded at the first allocation and computes libtorch's operators on the host:
  // a kernel that is launched all the same is an error. Without one, kernels and large copies are
  // counted and left out: memory and the host's time are real, numbers are not.
  std::string operators;
  bool computes() const { return !operators.empty(); }

  // The synchronization of the whole device, counted from 1, that reports an illegal access; the
  // device is broken from there on, as a real one. 0: none.
  int64_t illegal_access_at = 0;

  // With a seed, work of side streams is held back until somebody waits for it, now and then.
  uint64_t seed = 0;
};

// Read once. A text that is not such an object ends the process with a line on stderr: the device
// would otherwise be another one than the caller believes.
const Settings& settings();

}  // namespace sftbench::phantom
