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

// --- topology ------------------------------------------------------------------------------------

using Rows = std::vector<std::vector<std::string>>;

GpuTopology topology_of(const char* links, size_t gpus, const char* library = SFTBENCH_FAKE_NVML) {
  std::string names = "a";
  for (size_t i = 1; i < gpus; ++i) names += ";a";
  setenv("FAKE_NVML_GPUS", names.c_str(), 1);
  setenv("FAKE_NVML_LINKS", links, 1);
  const auto nvml = Nvml::load(nullptr, library);
  EXPECT_NE(nvml, nullptr);
  GpuTopology topology = nvml->topology();
  unsetenv("FAKE_NVML_LINKS");
  return topology;
}

Rows rows_of(const GpuTopology& topology) {
  Rows rows;
  for (const std::vector<GpuLink>& row : topology.links) {
    rows.emplace_back();
    for (const GpuLink& link : row) rows.back().push_back(to_string(link));
  }
  return rows;
}

TEST_F(FakeNvmlTest, GpusBehindSwitchesHaveAllTheirNvlinksForEachOther) {
  const GpuTopology topology = topology_of("switch", 3);
  EXPECT_EQ(rows_of(topology),
            (Rows{{"X", "NV18", "NV18"}, {"NV18", "X", "NV18"}, {"NV18", "NV18", "X"}}));
  EXPECT_EQ(topology.links[0][1].peer, true);
}

TEST_F(FakeNvmlTest, NvlinksBetweenGpusAreCountedForEachPair) {
  EXPECT_EQ(rows_of(topology_of("direct", 4)), (Rows{{"X", "NV2", "NV1", "NODE"},
                                                     {"NV2", "X", "NODE", "NV1"},
                                                     {"NV1", "NODE", "X", "NV2"},
                                                     {"NODE", "NV1", "NV2", "X"}}));
  setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);  // linked to devices that are not looked at, not to it
  EXPECT_EQ(rows_of(topology_of("direct", 4)), (Rows{{"X", "NODE"}, {"NODE", "X"}}));
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  EXPECT_EQ(rows_of(topology_of("direct", 4)), (Rows{{"X", "NV1"}, {"NV1", "X"}}));
}

TEST_F(FakeNvmlTest, WithoutNvlinksThePathOverPcieIsNamed) {
  const GpuTopology topology = topology_of("pcie", 5);
  EXPECT_THAT(rows_of(topology)[0], ElementsAre("X", "PIX", "NODE", "NODE", "SYS"));
  EXPECT_EQ(topology.links[0][3].peer, true);
  EXPECT_EQ(topology.links[0][4].peer, false);
  EXPECT_EQ(topology.links[4][0].peer, false);
  EXPECT_EQ(topology.slots[0].pcie_generation, 5);
  EXPECT_EQ(topology.slots[1].pcie_lanes, 8);
  EXPECT_EQ(topology.slots[1].pcie_full_lanes, 16);
  EXPECT_THAT(topology.slots[0].cpus, ElementsAre(0, 1, 2, 3, 64));
  EXPECT_THAT(topology.slots[4].cpus, ElementsAre(4, 5, 6, 7, 65));
  EXPECT_THAT(topology.slots[4].numa_nodes, ElementsAre(1));
}

// A driver that refuses every question, and one that does not have the functions.
TEST_F(FakeNvmlTest, WhatADriverDoesNotTellIsUnknown) {
  for (const char* library : {SFTBENCH_FAKE_NVML, SFTBENCH_FAKE_OLD_NVML}) {
    SCOPED_TRACE(library);
    const GpuTopology topology = topology_of("", 2, library);
    EXPECT_EQ(rows_of(topology), (Rows{{"X", "unknown"}, {"unknown", "X"}}));
    EXPECT_FALSE(topology.links[0][1].peer.has_value());
    ASSERT_EQ(topology.slots.size(), 2u);
    EXPECT_EQ(topology.slots[0].pcie_generation, 0);
    EXPECT_EQ(topology.slots[0].pcie_lanes, 0);
    EXPECT_THAT(topology.slots[0].cpus, IsEmpty());
    EXPECT_THAT(topology.slots[0].numa_nodes, IsEmpty());
  }
}

TEST(RangesTextTest, JoinsNeighbors) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({3}), "3");
  EXPECT_EQ(ranges_text({0, 1}), "0-1");
  EXPECT_EQ(ranges_text({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
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
