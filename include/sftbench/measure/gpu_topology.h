// How the GPUs of a machine are connected: what `nvidia-smi topo -m` shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sftbench {

// What a transfer between two GPUs crosses, from the least to the most.
enum class GpuPath {
  kUnknown,
  kSelf,
  kNvlink,
  kPix,   // at most one PCIe bridge
  kPxb,   // several PCIe bridges, no host bridge
  kPhb,   // a PCIe host bridge
  kNode,  // several host bridges of one NUMA node
  kSys,   // the link between NUMA nodes
};

struct GpuLink {
  GpuPath path = GpuPath::kUnknown;
  int nvlinks = 0;           // under kNvlink; 0: their number is not known
  std::optional<bool> peer;  // whether one reads the other's memory without the host; none: unknown
};

// "NV18", "NV", "PIX", "X" for a GPU itself, "unknown".
std::string to_string(const GpuLink& link);

// How a GPU is attached to its host. 0 and empty lists: unknown.
struct GpuSlot {
  int pcie_generation = 0;  // that GPU and slot reach; an idle GPU is slower
  int pcie_lanes = 0;       // now
  int pcie_full_lanes = 0;  // of GPU and slot
  std::vector<int> cpus;    // near it
  std::vector<int> numa_nodes;
};

struct GpuTopology {
  std::vector<GpuSlot> slots;
  std::vector<std::vector<GpuLink>> links;  // [i][j], symmetric
};

// "0-3,8" for {0, 1, 2, 3, 8}.
std::string ranges_text(const std::vector<int>& rising);

}  // namespace sftbench
