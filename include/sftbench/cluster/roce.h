// RDMA over Converged Ethernet between the nodes of a job: which devices there are, which of their
// addresses (GIDs) every node has, and what NCCL is told. enable_roce means something for GPUs on
// several nodes only. Source: documentation of the SFTTrainer actuator, "Configure your RayCluster
// for RoCE"; NCCL's user guide, "Environment variables"; Linux, Documentation/ABI/stable/
// sysfs-class-infiniband.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// An address of a port. A RoCE device has one for each version and each address of its interface.
struct RdmaGid {
  int index = 0;
  std::string type;       // "RoCE v2", "IB/RoCE v1"
  std::string address;    // as sysfs spells it: "0000:...:ffff:0a00:0001"
  std::string ipv4;       // "10.0.0.1"; empty: it is none
  std::string interface;  // "net1-0"

  bool is_roce_v2() const { return type == "RoCE v2"; }
};

struct RdmaPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string link_layer;  // "Ethernet", "InfiniBand"
  std::string state;       // "ACTIVE", "DOWN"
  std::string rate;        // "200 Gb/sec (4X HDR)"
  std::vector<RdmaGid> gids;

  std::string name() const { return device + ":" + std::to_string(port); }
};

// By name and port; those without a content are left out.
std::vector<RdmaPort> read_rdma_ports(
    const std::filesystem::path& class_folder = "/sys/class/infiniband");

// Whether this process may lock as much memory as RDMA registers: no limit (ulimit -l), or the
// capability IPC_LOCK. Otherwise why not.
std::string memory_lock_problem();

// What one node has to offer.
struct RoceNode {
  std::string host;
  std::vector<RdmaPort> ports;
};

struct RoceChoice {
  int gid_index = 0;
  std::vector<std::vector<std::string>> devices;  // of each node: "mlx5_0:1", ...
};

// The index at which every node has a RoCE v2 GID on an active port, one with an IPv4 address where
// there is one: those are routed. Of several, that which leaves the poorest node most ports, then
// the lowest. RunError(kUnsupported), saying what each node has, when there is none.
RoceChoice choose_roce(const std::vector<RoceNode>& nodes);

// What NCCL is told, and what a user should know about it.
struct NcclSettings {
  std::map<std::string, std::string> variables;  // to be set: those that the user has not
  std::vector<std::string> warnings;
};

NcclSettings roce_on(const RoceChoice& choice, int node, const Environment& environment);
NcclSettings roce_off(const Environment& environment);

// Collective over a group on several nodes, before NCCL is loaded: agrees on the addresses and sets
// this process's variables.
NcclSettings set_up_roce(RankGroup& group, bool enable_roce, const Environment& environment,
                         const std::vector<RdmaPort>& ports);

}  // namespace sftbench
