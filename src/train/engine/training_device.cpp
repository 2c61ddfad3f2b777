#include "engine/training_device.h"

#include <ATen/Parallel.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include "engine/host_memory.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/ops/device_code.h"
#include "sftbench/ops/vector_math.h"
#include "sftbench/ranks/gpu_sharing.h"

namespace sftbench {
namespace {

// Work is done when its call returns.
class HostClock : public DeviceClock {
 public:
  void mark() override { marks_.push_back(steady_seconds()); }
  std::vector<double> seconds() override {
    std::vector<double> seconds;
    for (size_t i = 1; i < marks_.size(); ++i) seconds.push_back(marks_[i] - marks_[i - 1]);
    return seconds;
  }

 private:
  std::vector<double> marks_;
};

class CpuDevice : public TrainingDevice {
 public:
  torch::Device device() const override { return torch::kCPU; }
  void synchronize() const override {}
  std::unique_ptr<DeviceClock> clock() const override { return std::make_unique<HostClock>(); }
  int64_t allocated_bytes() const override { return host_memory_statistics().allocated_bytes; }
  std::vector<int64_t> peak_allocated_bytes() const override { return {}; }
  std::vector<int64_t> peak_reserved_bytes() const override { return {}; }
  int64_t allocation_retries() const override { return -1; }
};

#if SFTBENCH_CUDA
// Events of the stream that computes, which waits for what other streams communicate.
class EventClock : public DeviceClock {
 public:
  explicit EventClock(c10::DeviceIndex index) : index_(index) {}
  void mark() override {
    marks_.emplace_back(cudaEventDefault);
    marks_.back().record(c10::cuda::getCurrentCUDAStream(index_));
  }
  std::vector<double> seconds() override {
    constexpr double kMillisecond = 1e-3;
    std::vector<double> seconds;
    for (size_t i = 1; i < marks_.size(); ++i)
      seconds.push_back(kMillisecond * marks_[i - 1].elapsed_time(marks_[i]));
    return seconds;
  }

 private:
  c10::DeviceIndex index_;
  std::vector<at::cuda::CUDAEvent> marks_;
};

class CudaDevice : public TrainingDevice {
 public:
  explicit CudaDevice(c10::DeviceIndex index) : index_(index) {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // sets up the allocator, too
    c10::cuda::set_device(index);
    torch::empty({1}, device());  // the context's start-up is no part of the first step
    c10::cuda::CUDACachingAllocator::resetPeakStats(index);
  }
  torch::Device device() const override { return {torch::kCUDA, index_}; }
  void synchronize() const override { torch::cuda::synchronize(index_); }
  std::unique_ptr<DeviceClock> clock() const override {
    return std::make_unique<EventClock>(index_);
  }
  int64_t allocated_bytes() const override { return statistics().allocated_bytes[0].current; }
  std::vector<int64_t> peak_allocated_bytes() const override {
    return {statistics().allocated_bytes[0].peak};
  }
  std::vector<int64_t> peak_reserved_bytes() const override {
    return {statistics().reserved_bytes[0].peak};
  }
  int64_t allocation_retries() const override { return statistics().num_alloc_retries; }

 private:
  c10::CachingDeviceAllocator::DeviceStats statistics() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
  }

  c10::DeviceIndex index_;
};
#endif

#if SFTBENCH_CUDA
// Of the current device.
void require_device_code() {
  if (ops::has_device_code()) return;
  const cudaDeviceProp& gpu = *at::cuda::getCurrentDeviceProperties();
  const std::string capability = std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
  throw RunError(ReasonCode::kUnsupported,
                 std::string(gpu.name) + " has compute capability " + capability +
                     ", and this build has no code for it; one with TORCH_CUDA_ARCH_LIST=" +
                     capability + " has (docs/internals/building.md)");
}
#endif

std::unique_ptr<TrainingDevice> make_cuda_device([[maybe_unused]] int local_rank) {
#if SFTBENCH_CUDA
  // As NVML counts, whose samples are to be of the devices that train.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) {
    throw RunError(ReasonCode::kUnsupported, "a GPU is asked for, but CUDA finds none");
  }
  // A launcher may show each rank one GPU only, which is then number 0.
  if (count > 1 && local_rank >= count && !ranks_may_share_gpus()) {
    throw RunError(ReasonCode::kUnsupported, "rank " + std::to_string(local_rank) +
                                                 " of this node has no GPU: CUDA finds " +
                                                 std::to_string(count));
  }
  auto device = std::make_unique<CudaDevice>(static_cast<c10::DeviceIndex>(local_rank % count));
  require_device_code();
  return device;
#else
  throw RunError(
      ReasonCode::kUnsupported,
      "a GPU is asked for, but this build of sftbench is for CPUs; `bash experiments/setup.sh "
      "--cuda` builds the one for GPUs");
#endif
}

// Where a launcher has bound each rank to cores of its own, those are this rank's; where it has
// not, the ranks of a node share all of them.
int thread_count(const DevicePlan& plan, const RankPlace& place) {
  if (plan.threads > 0) return static_cast<int>(plan.threads);
  const int usable = read_host_info().cores;
  const bool bound = usable < ::sysconf(_SC_NPROCESSORS_ONLN);
  return bound ? usable : std::max(1, usable / place.local_size);
}

}  // namespace

std::unique_ptr<TrainingDevice> make_training_device(const DevicePlan& plan,
                                                     const RankPlace& place) {
  if (plan.kind != "cpu" && plan.kind != "cuda") {
    throw unsupported_choice("device", plan.kind, {"cpu", "cuda"});
  }
  install_host_memory();
  at::set_num_threads(thread_count(plan, place));
  ops::settle_vector_math();  // with a GPU, too: what is offloaded is computed here
  if (plan.kind == "cuda") return make_cuda_device(place.local_rank);
  return std::make_unique<CpuDevice>();
}

}  // namespace sftbench
