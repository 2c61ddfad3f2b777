#include "sftbench/measure/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeNvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FAKE_NVML_GPUS", "NVIDIA H100 80GB HBM3;NVIDIA H100 80GB HBM3;Tesla T4", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void TearDown() override {
    unsetenv("FAKE_NVML_GPUS");
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
};

TEST_F(FakeNvmlTest, ReadsIdentitiesAndFiguresInTheirUnits) {
  std::string why_not;
  const auto nvml = Nvml::load(&why_not, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr) << why_not;
  EXPECT_EQ(nvml->driver_version(), "570.00");
  ASSERT_EQ(nvml->gpus().size(), 3u);
  EXPECT_EQ(nvml->gpus()[2].name, "Tesla T4");
  EXPECT_EQ(nvml->gpus()[2].uuid, "GPU-02-fake");
  EXPECT_EQ(nvml->gpus()[0].memory_bytes, int64_t{80} << 30);
  const GpuReading reading = nvml->read(1);
  EXPECT_DOUBLE_EQ(reading.utilization_percent.value(), 60);
  EXPECT_DOUBLE_EQ(reading.memory_percent.value(), 50);
  EXPECT_DOUBLE_EQ(reading.power_watts.value(), 351.5);
  EXPECT_DOUBLE_EQ(reading.power_limit_watts.value(), 700);
  EXPECT_DOUBLE_EQ(reading.temperature_celsius.value(), 41);
  EXPECT_DOUBLE_EQ(reading.energy_joules.value(), 123.456);
}

TEST_F(FakeNvmlTest, WhatADeviceDoesNotSupportIsAbsent) {
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  EXPECT_FALSE(nvml->read(2).energy_joules.has_value());
  EXPECT_TRUE(nvml->read(2).power_watts.has_value());
}

TEST_F(FakeNvmlTest, CudaVisibleDevicesSelectsAndOrders) {
  setenv("CUDA_VISIBLE_DEVICES", "2,GPU-00", 1);
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  ASSERT_EQ(nvml->gpus().size(), 2u);
  EXPECT_EQ(nvml->gpus()[0].uuid, "GPU-02-fake");
  EXPECT_EQ(nvml->gpus()[1].uuid, "GPU-00-fake");
  EXPECT_DOUBLE_EQ(nvml->read(0).utilization_percent.value(), 70);
}

TEST(NvmlTest, AMissingLibraryIsAReasonNotAnError) {
  std::string why_not;
  EXPECT_EQ(Nvml::load(&why_not, "libno-such-nvml.so.1"), nullptr);
  EXPECT_THAT(why_not, HasSubstr("libno-such-nvml.so.1"));
}

TEST(NvmlTest, ADriverThatIsNotLoadedIsAReason) {
  unsetenv("FAKE_NVML_GPUS");
  std::string why_not;
  EXPECT_EQ(Nvml::load(&why_not, SFTBENCH_FAKE_NVML), nullptr);
  EXPECT_THAT(why_not, HasSubstr("Driver Not Loaded"));
}

TEST(NvmlTest, ALibraryThatIsNotNvmlIsAReason) {
  std::string why_not;
  EXPECT_EQ(Nvml::load(&why_not, "libm.so.6"), nullptr);
  EXPECT_EQ(why_not, "libm.so.6 has no function nvmlInit_v2");
}

TEST(VisibleDevicesTest, FollowsCudasRules) {
  const std::vector<std::string> uuids = {"GPU-aa1", "GPU-aa2", "GPU-b"};
  EXPECT_THAT(visible_devices(nullptr, uuids), ElementsAre(0, 1, 2));
  EXPECT_THAT(visible_devices("", uuids), IsEmpty());
  EXPECT_THAT(visible_devices("1", uuids), ElementsAre(1));
  EXPECT_THAT(visible_devices("2,0", uuids), ElementsAre(2, 0));
  EXPECT_THAT(visible_devices("GPU-b,GPU-aa1", uuids), ElementsAre(2, 0));
  EXPECT_THAT(visible_devices("GPU-aa,2", uuids), IsEmpty());  // ambiguous: the list ends there
  EXPECT_THAT(visible_devices("0,7,1", uuids), ElementsAre(0));
  EXPECT_THAT(visible_devices("0,-1,1", uuids), ElementsAre(0));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
