#include "sftbench/measure/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sftbench/measure/system_source.h"

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

TEST_F(FakeNvmlTest, ALostDeviceIsLeftOut) {
  setenv("FAKE_NVML_GPUS", "lost;Tesla T4", 1);
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  ASSERT_EQ(nvml->gpus().size(), 1u);
  EXPECT_EQ(nvml->gpus()[0].uuid, "GPU-01-fake");
}

TEST_F(FakeNvmlTest, MemoryThatADeviceDoesNotTellIsAbsent) {
  setenv("FAKE_NVML_GPUS", "mute;empty;Tesla T4", 1);
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  ASSERT_EQ(nvml->gpus().size(), 3u);
  for (const size_t gpu : {0, 1}) {
    EXPECT_EQ(nvml->gpus()[gpu].memory_bytes, 0);
    EXPECT_FALSE(nvml->read(gpu).memory_percent.has_value()) << gpu;
    EXPECT_TRUE(nvml->read(gpu).utilization_percent.has_value()) << gpu;
  }
}

TEST_F(FakeNvmlTest, EndsWhatItBegan) {
  unsetenv("FAKE_NVML_ENDED");
  Nvml::load(nullptr, SFTBENCH_FAKE_NVML).reset();
  EXPECT_STREQ(std::getenv("FAKE_NVML_ENDED"), "yes");
  unsetenv("FAKE_NVML_ENDED");
  unsetenv("FAKE_NVML_GPUS");
  EXPECT_EQ(Nvml::load(nullptr, SFTBENCH_FAKE_NVML), nullptr);
  EXPECT_EQ(std::getenv("FAKE_NVML_ENDED"), nullptr) << "it never began";
}

TEST_F(FakeNvmlTest, AMachinesGpusAreSampledUpToAsManyAsAreVisible) {
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const SystemReading reading = make_system_source(nvml.get(), 3)->read();
  ASSERT_EQ(reading.gpus.size(), 3u);
  EXPECT_DOUBLE_EQ(reading.gpus[2].utilization_percent.value(), 70);
  EXPECT_EQ(make_system_source(nvml.get(), 2)->read().gpus.size(), 2u);
  EXPECT_THROW(make_system_source(nvml.get(), 4), std::logic_error);
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
  EXPECT_THAT(visible_devices("0,3,1", uuids), ElementsAre(0));
  EXPECT_THAT(visible_devices("0,1x,1", uuids), ElementsAre(0));
  EXPECT_THAT(visible_devices("0,-1,1", uuids), ElementsAre(0));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
