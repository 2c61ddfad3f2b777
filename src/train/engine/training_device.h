// The device that a rank trains on: where tensors live, when its work is done, what it holds.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_place.h"

namespace sftbench {

// When the device came to instants of what was launched for it.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  virtual void mark() = 0;  // behind all that was launched so far
  // Between each mark and the next. REQUIRES: the device has passed the last one.
  virtual std::vector<double> seconds() = 0;
};

class TrainingDevice {
 public:
  virtual ~TrainingDevice() = default;
  virtual torch::Device device() const = 0;
  virtual void synchronize() const = 0;  // returns when everything that was launched is done
  virtual std::unique_ptr<DeviceClock> clock() const = 0;
  virtual int64_t allocated_bytes() const = 0;
  // Since the device was made. Nothing on CPUs: the host's peak is counted by process.
  virtual std::vector<int64_t> peak_allocated_bytes() const = 0;
  virtual std::vector<int64_t> peak_reserved_bytes() const = 0;
  // How often the caching allocator had to give its cache back to find room; -1 on CPUs.
  virtual int64_t allocation_retries() const = 0;
};

// Chooses the device - of several GPUs that of the rank's number on its node -, sets the number of
// threads, installs the allocator. RunError(kUnsupported): a GPU where this build or machine has
// none.
std::unique_ptr<TrainingDevice> make_training_device(const DevicePlan& plan,
                                                     const RankPlace& place);

}  // namespace sftbench
