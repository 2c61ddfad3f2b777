// NVML has no matrix. It tells for two GPUs what they have in common, and for each NVLink where it ends:
// at another GPU, or at a switch that connects all of them.
#include <algorithm>
#include <map>
#include <tuple>

#include "measure/nvml_library.h"
#include "sftbench/measure/gpu_topology.h"

namespace sftbench {
namespace {

using Library = Nvml::Library;
using Handle = Library::Handle;

// nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t
constexpr int kCapRead = 0, kCapNvlink = 2;
constexpr int kP2pOk = 0, kP2pUnknown = 6;
constexpr int kEnabled = 1;            // nvmlEnableState_t
constexpr int kRemoteSwitch = 2;       // nvmlIntNvLinkDeviceType_t
constexpr unsigned kMostNvlinks = 36;  // more than any GPU has: NVML refuses the rest
constexpr int kScopeNode = 0;          // nvmlAffinityScope_t
constexpr unsigned kMaskWords = 64;    // 4096 processors

using Address = std::tuple<unsigned, unsigned, unsigned>;  // domain, bus, device

// Where the active NVLinks of a GPU end.
struct NvlinkEnds {
  std::map<Address, int> at;  // how many at each address
  int at_switches = 0;        // of these, as their type says
};

template <typename Function, typename Value, typename... Arguments>
bool read(Function function, Value* value, Arguments... arguments) {
  return function != nullptr && function(arguments..., value) == Library::kSuccess;
}

Address address_of(const Library::PciInfo& info) {
  return {info.domain, info.bus, info.device};
}

NvlinkEnds ends_of(const Library& library, Handle gpu) {
  NvlinkEnds ends;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    int state = 0;
    if (!read(library.nvlink_state, &state, gpu, link) || state != kEnabled) continue;
    Library::PciInfo remote{};
    if (!read(library.nvlink_remote, &remote, gpu, link)) continue;
    ++ends.at[address_of(remote)];
    int type = 0;
    if (read(library.nvlink_remote_type, &type, gpu, link) && type == kRemoteSwitch) {
      ++ends.at_switches;
    }
  }
  return ends;
}

GpuPath path_of(int level) {
  // nvmlGpuTopologyLevel_t. Two GPUs of one board (0) are as near as PCIe gets.
  switch (level) {
    case 0:
    case 10:
      return GpuPath::kPix;
    case 20:
      return GpuPath::kPxb;
    case 30:
      return GpuPath::kPhb;
    case 40:
      return GpuPath::kNode;
    case 50:
      return GpuPath::kSys;
    default:
      return GpuPath::kUnknown;
  }
}

// Nothing where the driver cannot tell.
std::optional<bool> p2p(const Library& library, Handle from, Handle to, int capability) {
  int status = kP2pUnknown;
  if (library.p2p_status == nullptr ||
      library.p2p_status(from, to, capability, &status) != Library::kSuccess ||
      status == kP2pUnknown) {
    return std::nullopt;
  }
  return status == kP2pOk;
}

class Reader {
 public:
  Reader(const Library& library, const std::vector<void*>& gpus) : library_(library), gpus_(gpus) {
    for (Handle gpu : gpus_) {
      Library::PciInfo info{};
      addresses_.push_back(read(library_.pci_info, &info, gpu) ? std::optional(address_of(info))
                                                               : std::nullopt);
      ends_.push_back(ends_of(library_, gpu));
    }
  }

  GpuTopology topology() const {
    GpuTopology topology;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      topology.slots.push_back(slot(gpus_[i]));
      topology.links.emplace_back(gpus_.size(), GpuLink{GpuPath::kSelf, 0, {}});
      for (size_t j = 0; j < i; ++j) topology.links[i][j] = topology.links[j][i] = link(j, i);
    }
    return topology;
  }

 private:
  // NVLinks between two GPUs. 0: their number is not known. Nothing: there are none.
  std::optional<int> nvlinks(size_t i, size_t j) const {
    const int direct = std::max(ends_at(i, j), ends_at(j, i));
    if (direct > 0) return direct;
    const bool switched = ends_[i].at_switches > 0 && ends_[j].at_switches > 0;
    if (!p2p(library_, gpus_[i], gpus_[j], kCapNvlink).value_or(switched)) return std::nullopt;
    return std::min(ends_elsewhere(i), ends_elsewhere(j));
  }

  int ends_at(size_t from, size_t to) const {
    if (!addresses_[to]) return 0;
    const auto found = ends_[from].at.find(*addresses_[to]);
    return found == ends_[from].at.end() ? 0 : found->second;
  }

  // At no GPU: at a switch.
  int ends_elsewhere(size_t from) const {
    int count = 0;
    for (const auto& [address, links] : ends_[from].at) {
      if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end()) {
        count += links;
      }
    }
    return count;
  }

  GpuLink link(size_t i, size_t j) const {
    GpuLink link;
    link.peer = p2p(library_, gpus_[i], gpus_[j], kCapRead);
    if (const std::optional<int> count = nvlinks(i, j)) {
      link.path = GpuPath::kNvlink;
      link.nvlinks = *count;
      return link;
    }
    int level = -1;
    if (read(library_.common_ancestor, &level, gpus_[i], gpus_[j])) link.path = path_of(level);
    return link;
  }

  GpuSlot slot(Handle gpu) const {
    GpuSlot slot;
    unsigned value = 0;
    if (read(library_.pcie_generation, &value, gpu)) {
      slot.pcie_generation = static_cast<int>(value);
    }
    if (read(library_.pcie_width, &value, gpu)) slot.pcie_lanes = static_cast<int>(value);
    if (read(library_.pcie_full_width, &value, gpu)) slot.pcie_full_lanes = static_cast<int>(value);
    std::vector<unsigned long> mask(kMaskWords);
    if (read(library_.cpus, mask.data(), gpu, kMaskWords)) slot.cpus = bits_of(mask);
    std::fill(mask.begin(), mask.end(), 0);
    if (library_.numa_nodes != nullptr &&
        library_.numa_nodes(gpu, kMaskWords, mask.data(), kScopeNode) == Library::kSuccess) {
      slot.numa_nodes = bits_of(mask);
    }
    return slot;
  }

  static std::vector<int> bits_of(const std::vector<unsigned long>& mask) {
    constexpr size_t kBits = 8 * sizeof(unsigned long);
    std::vector<int> bits;
    for (size_t bit = 0; bit < mask.size() * kBits; ++bit) {
      if (((mask[bit / kBits] >> (bit % kBits)) & 1U) != 0) bits.push_back(static_cast<int>(bit));
    }
    return bits;
  }

  const Library& library_;
  const std::vector<void*>& gpus_;
  std::vector<std::optional<Address>> addresses_;
  std::vector<NvlinkEnds> ends_;
};

}  // namespace

GpuTopology Nvml::topology() const {
  return Reader(*library_, handles_).topology();
}

std::string to_string(const GpuLink& link) {
  switch (link.path) {
    case GpuPath::kSelf:
      return "X";
    case GpuPath::kNvlink:
      return link.nvlinks > 0 ? "NV" + std::to_string(link.nvlinks) : "NV";
    case GpuPath::kPix:
      return "PIX";
    case GpuPath::kPxb:
      return "PXB";
    case GpuPath::kPhb:
      return "PHB";
    case GpuPath::kNode:
      return "NODE";
    case GpuPath::kSys:
      return "SYS";
    case GpuPath::kUnknown:
      break;
  }
  return "unknown";
}

std::string ranges_text(const std::vector<int>& rising) {
  std::string text;
  for (size_t i = 0; i < rising.size();) {
    size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(rising[i]);
    if (last > i) text += "-" + std::to_string(rising[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace sftbench
