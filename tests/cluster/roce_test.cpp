// RoCE from folders like sysfs.
#include "sftbench/cluster/roce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

void write(const fs::path& path, const std::string& line) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << line << "\n";
}

// As the kernel shows a port of a ConnectX-6 whose interface net1-0 has one IPv4 address.
fs::path class_folder() {
  const fs::path root = fs::path(testing::TempDir()) /
                        ("rdma-" + std::to_string(::getpid()) + "-" +
                         testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::remove_all(root);
  const fs::path port = root / "mlx5_0/ports/1";
  write(port / "link_layer", "Ethernet");
  write(port / "state", "4: ACTIVE");
  write(port / "rate", "200 Gb/sec (4X HDR)");
  const std::pair<const char*, const char*> gids[] = {
      {"fe80:0000:0000:0000:0000:60ff:fe68:d096", "IB/RoCE v1"},
      {"fe80:0000:0000:0000:0000:60ff:fe68:d096", "RoCE v2"},
      {"0000:0000:0000:0000:0000:ffff:0a01:0215", "IB/RoCE v1"},
      {"0000:0000:0000:0000:0000:ffff:0a01:0215", "RoCE v2"},
      {"0000:0000:0000:0000:0000:0000:0000:0000", ""}};
  int index = 0;
  for (const auto& [address, type] : gids) {
    const std::string number = std::to_string(index++);
    write(port / "gids" / number, address);
    if (*type == '\0') continue;  // reading those is an error
    write(port / "gid_attrs/types" / number, type);
    write(port / "gid_attrs/ndevs" / number, "net1-0");
  }
  write(root / "mlx5_1/ports/1/link_layer", "InfiniBand");
  write(root / "mlx5_1/ports/1/state", "1: DOWN");
  return root;
}

RdmaPort port(const std::string& device, const std::vector<RdmaGid>& gids,
              const std::string& state = "ACTIVE") {
  return {device, 1, "Ethernet", state, "200 Gb/sec (4X HDR)", gids};
}

RdmaGid v2(int index, const std::string& ipv4 = {}) {
  return {index, "RoCE v2", "", ipv4, "net1-0"};
}

TEST(RdmaPortsTest, SysfsTellsPortsAndTheirAddresses) {
  const std::vector<RdmaPort> ports = read_rdma_ports(class_folder());
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].name(), "mlx5_0:1");
  EXPECT_EQ(ports[0].link_layer, "Ethernet");
  EXPECT_EQ(ports[0].state, "ACTIVE");
  EXPECT_EQ(ports[0].rate, "200 Gb/sec (4X HDR)");
  ASSERT_EQ(ports[0].gids.size(), 4u);  // not the empty one
  EXPECT_FALSE(ports[0].gids[2].is_roce_v2());
  EXPECT_TRUE(ports[0].gids[3].is_roce_v2());
  EXPECT_EQ(ports[0].gids[3].ipv4, "10.1.2.21");
  EXPECT_EQ(ports[0].gids[3].interface, "net1-0");
  EXPECT_EQ(ports[0].gids[1].ipv4, "");
  EXPECT_EQ(ports[1].state, "DOWN");
  EXPECT_THAT(read_rdma_ports("/nowhere"), IsEmpty());
}

TEST(ChooseRoceTest, TheIndexIsOneThatEveryNodeHasWithAnIpv4Address) {
  const RoceNode a = {"a", {port("mlx5_0", {v2(1), v2(3, "10.0.0.1"), v2(5, "10.1.0.1")})}};
  const RoceNode b = {"b", {port("mlx5_3", {v2(1), v2(5, "10.1.0.2")})}};
  const RoceChoice choice = choose_roce({a, b});
  EXPECT_EQ(choice.gid_index, 5);
  EXPECT_THAT(choice.devices, ElementsAre(ElementsAre("mlx5_0:1"), ElementsAre("mlx5_3:1")));
}

TEST(ChooseRoceTest, WithoutOneALinkLocalAddressWillDo) {
  const RoceNode a = {"a", {port("mlx5_0", {v2(1), v2(3, "10.0.0.1")})}};
  const RoceNode b = {"b", {port("mlx5_0", {v2(1)})}};
  EXPECT_EQ(choose_roce({a, b}).gid_index, 1);
}

TEST(ChooseRoceTest, MorePortsOnThePoorestNodeCountMore) {
  const RoceNode node = {
      "a",
      {port("mlx5_0", {v2(3, "10.0.0.1"), v2(5, "10.1.0.1")}), port("mlx5_1", {v2(5, "10.2.0.1")}),
       port("mlx5_2", {v2(5, "10.3.0.1")}, "DOWN")}};
  const RoceChoice choice = choose_roce({node, node});
  EXPECT_EQ(choice.gid_index, 5);
  EXPECT_THAT(choice.devices[1], ElementsAre("mlx5_0:1", "mlx5_1:1"));
}

TEST(ChooseRoceTest, WhereThereIsNoneEachNodeIsDescribed) {
  try {
    choose_roce({{"a", {port("mlx5_0", {v2(3, "10.0.0.1")})}}, {"b", {}}});
    FAIL() << "an index was chosen";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("enable_roce 0 works"));
    EXPECT_EQ(error.evidence(), "a: mlx5_0:1 (Ethernet, ACTIVE, RoCE v2 at 3); b: no RDMA device");
  }
}

TEST(RoceSettingsTest, EachNodeIsToldItsOwnDevices) {
  const RoceChoice choice = {3, {{"mlx5_0:1"}, {"mlx5_2:1", "mlx5_3:1"}}};
  EXPECT_THAT(
      roce_on(choice, 1, {}).variables,
      UnorderedElementsAre(Pair("NCCL_IB_DISABLE", "0"), Pair("NCCL_IB_HCA", "=mlx5_2:1,mlx5_3:1"),
                           Pair("NCCL_IB_GID_INDEX", "3")));
}

TEST(RoceSettingsTest, WhatTheUserHasSetStaysAndIsSaid) {
  const NcclSettings settings =
      roce_on({3, {{"mlx5_0:1"}}}, 0, {{"NCCL_IB_HCA", "=mlx5_9"}, {"NCCL_IB_DISABLE", "0"}});
  EXPECT_THAT(settings.variables, UnorderedElementsAre(Pair("NCCL_IB_GID_INDEX", "3")));
  EXPECT_THAT(
      settings.warnings,
      testing::Contains("NCCL_IB_HCA=\"=mlx5_9\" is set and stays: \"=mlx5_0:1\" would have been"));
  EXPECT_THAT(roce_off({}).variables, ElementsAre(Pair("NCCL_IB_DISABLE", "1")));
  EXPECT_THAT(roce_off({{"NCCL_IB_DISABLE", "0"}}).warnings.size(), 1u);
}

TEST(RoceSettingsTest, AloneInAGroupTheVariablesAreSetInThisProcess) {
  ::unsetenv("NCCL_IB_GID_INDEX");
  const auto group = make_single_rank();
  set_up_roce(*group, true, {}, {port("mlx5_7", {v2(3, "10.0.0.1")})});
  EXPECT_STREQ(::getenv("NCCL_IB_GID_INDEX"), "3");
  EXPECT_STREQ(::getenv("NCCL_IB_HCA"), "=mlx5_7:1");
  for (const char* name : {"NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}) ::unsetenv(name);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
