#include "sftbench/launch/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class DevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    catalog_ = GpuCatalog::read(std::string(SFTBENCH_SOURCE_DIR) + "/config/gpus.yaml");
  }
  void TearDown() override { unsetenv("FAKE_NVML_GPUS"); }

  static std::unique_ptr<Nvml> machine_with(const char* gpus) {
    setenv("FAKE_NVML_GPUS", gpus, 1);
    return Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  }

  static TrainingJob job_for(int64_t gpus, const std::string& model, int64_t nodes = 1) {
    TrainingJob job;
    job.device.kind = gpus > 0 ? "cuda" : "cpu";
    job.device.ranks = std::max<int64_t>(1, gpus);
    job.device.nodes = nodes;
    job.device.gpu_model = model;
    return job;
  }

  std::string refusal(const TrainingJob& job, const Nvml* nvml) const {
    try {
      check_devices(job, nvml, "libnvidia-ml.so.1: not there", catalog_);
    } catch (const RunError& error) {
      EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
      return error.what() + (error.evidence().empty() ? "" : " [" + error.evidence() + "]");
    }
    return "none";
  }

  GpuCatalog catalog_;
};

TEST_F(DevicesTest, ARunOnTheCpuNeedsNoGpu) {
  EXPECT_EQ(refusal(job_for(0, ""), nullptr), "none");
}

TEST_F(DevicesTest, TheRightGpusAreAccepted) {
  const auto nvml = machine_with("NVIDIA H100 80GB HBM3;NVIDIA H100 80GB HBM3");
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(refusal(job_for(2, "NVIDIA-H100-80GB-HBM3"), nvml.get()), "none");
  EXPECT_EQ(refusal(job_for(4, "NVIDIA-H100-80GB-HBM3", 2), nvml.get()), "none");  // 2 per node
}

TEST_F(DevicesTest, AMachineWithoutADriverIsRefusedWithTheLoadersReason) {
  EXPECT_EQ(refusal(job_for(1, "NVIDIA-H100-80GB-HBM3"), nullptr),
            "number_gpus asks for 1 GPU on this machine, which has no NVIDIA driver "
            "[libnvidia-ml.so.1: not there]");
}

TEST_F(DevicesTest, TooFewGpusAreCounted) {
  const auto nvml = machine_with("NVIDIA H100 80GB HBM3;NVIDIA H100 80GB HBM3");
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(refusal(job_for(4, "NVIDIA-H100-80GB-HBM3"), nvml.get()),
            "number_gpus asks for 4 GPUs on this machine, which has 2 x NVIDIA H100 80GB HBM3 "
            "(CUDA_VISIBLE_DEVICES limits what it may use)");
}

TEST_F(DevicesTest, TooFewGpusAreEnoughForRanksThatMayShareThem) {
  const auto nvml = machine_with("NVIDIA H100 80GB HBM3");
  ASSERT_NE(nvml, nullptr);
  const TrainingJob job = job_for(2, "NVIDIA-H100-80GB-HBM3");
  EXPECT_NE(refusal(job, nvml.get()), "none");
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_EQ(refusal(job, nvml.get()), "none");
  EXPECT_EQ(gpus_in_use(job, nvml.get()), 1);
  EXPECT_EQ(
      refusal(job_for(2, "NVIDIA-L40S"), nvml.get()),
      "gpu_model asks for 'NVIDIA-L40S', but GPU 0 of this machine is 'NVIDIA H100 80GB HBM3'");
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  EXPECT_NE(refusal(job, nvml.get()), "none");
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_F(DevicesTest, AnotherGpuModelNamesBoth) {
  const auto nvml = machine_with("Tesla T4");
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(refusal(job_for(1, "NVIDIA-H100-80GB-HBM3"), nvml.get()),
            "gpu_model asks for 'NVIDIA-H100-80GB-HBM3', but GPU 0 of this machine is 'Tesla T4'");
}

TEST_F(DevicesTest, SpellingDoesNotMatterButTheProductDoes) {
  EXPECT_TRUE(same_gpu_model("NVIDIA-A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", catalog_));
  EXPECT_FALSE(same_gpu_model("NVIDIA-A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", catalog_));
  EXPECT_TRUE(same_gpu_model("Future GPU 9000", "FUTURE-GPU-9000", catalog_));
  EXPECT_FALSE(same_gpu_model("Future GPU 9000", "FUTURE-GPU-9001", catalog_));
}

TEST_F(DevicesTest, ThePeakIsTheCatalogsForTheDtypeOrAReason) {
  const auto h100 = machine_with("NVIDIA H100 80GB HBM3");
  const TrainingJob job = job_for(1, "NVIDIA-H100-80GB-HBM3");
  const DevicePeak peak = device_peak(job, h100.get(), catalog_, "bfloat16");
  ASSERT_TRUE(peak.flops_per_s.has_value());
  EXPECT_DOUBLE_EQ(*peak.flops_per_s,
                   *catalog_.find("NVIDIA-H100-80GB-HBM3")->peak_flops("bfloat16"));
  const DevicePeak no_dtype = device_peak(job, h100.get(), catalog_, "int3");
  EXPECT_FALSE(no_dtype.flops_per_s.has_value());
  EXPECT_EQ(no_dtype.reason, "config/gpus.yaml has no int3 peak of 'NVIDIA-H100-80GB-HBM3'");
  const auto unknown = machine_with("Future GPU 9000");
  EXPECT_EQ(device_peak(job_for(1, "Future GPU 9000"), unknown.get(), catalog_, "bfloat16").reason,
            "config/gpus.yaml has no 'Future GPU 9000'");
  EXPECT_EQ(device_peak(job_for(0, ""), nullptr, catalog_, "bfloat16").reason,
            "trained on the CPU; config/gpus.yaml knows peaks of GPUs only");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
