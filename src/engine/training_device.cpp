#include "engine/training_device.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#if SFTBENCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "sftbench/base/error.h"
#include "sftbench/engine/host_memory.h"
#include "sftbench/measure/host_info.h"

namespace sftbench {
namespace {

class CpuDevice : public TrainingDevice {
 public:
  torch::Device device() const override { return torch::kCPU; }
  void synchronize() const override {}
  int64_t allocated_bytes() const override { return host_memory_statistics().allocated_bytes; }
  std::vector<int64_t> peak_allocated_bytes() const override { return {}; }
  std::vector<int64_t> peak_reserved_bytes() const override { return {}; }
};

#if SFTBENCH_CUDA
class CudaDevice : public TrainingDevice {
 public:
  CudaDevice() { c10::cuda::CUDACachingAllocator::resetPeakStats(kIndex); }
  torch::Device device() const override { return {torch::kCUDA, kIndex}; }
  void synchronize() const override { torch::cuda::synchronize(kIndex); }
  int64_t allocated_bytes() const override { return statistics().allocated_bytes[0].current; }
  std::vector<int64_t> peak_allocated_bytes() const override {
    return {statistics().allocated_bytes[0].peak};
  }
  std::vector<int64_t> peak_reserved_bytes() const override {
    return {statistics().reserved_bytes[0].peak};
  }

 private:
  static constexpr c10::DeviceIndex kIndex = 0;

  static c10::CachingDeviceAllocator::DeviceStats statistics() {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(kIndex);
  }
};
#endif

std::unique_ptr<TrainingDevice> make_cuda_device() {
#if SFTBENCH_CUDA
  if (!torch::cuda::is_available()) {
    throw RunError(ReasonCode::kUnsupported, "a GPU is asked for, but CUDA finds none");
  }
  return std::make_unique<CudaDevice>();
#else
  throw RunError(
      ReasonCode::kUnsupported,
      "a GPU is asked for, but this build of sftbench is for CPUs; the README says how to "
      "build for CUDA");
#endif
}

}  // namespace

torch::Dtype gemm_dtype(torch::Dtype dtype, const torch::Device& device) {
  return dtype == torch::kFloat16 && device.is_cpu() ? torch::kFloat32 : dtype;
}

std::unique_ptr<TrainingDevice> make_training_device(const DevicePlan& plan) {
  if (plan.ranks != 1) {
    throw RunError(ReasonCode::kUnsupported, "training on " + std::to_string(plan.ranks) +
                                                 " ranks is not implemented; 1 rank is");
  }
  if (plan.kind != "cpu" && plan.kind != "cuda") {
    throw unsupported_choice("device", plan.kind, {"cpu", "cuda"});
  }
  install_host_memory();
  at::set_num_threads(plan.threads > 0 ? static_cast<int>(plan.threads) : read_host_info().cores);
  if (plan.kind == "cuda") return make_cuda_device();
  return std::make_unique<CpuDevice>();
}

}  // namespace sftbench
