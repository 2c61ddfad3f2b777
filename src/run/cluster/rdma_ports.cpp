#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "sftbench/base/error.h"
#include "sftbench/cluster/roce.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int kCapIpcLock = 14;  // linux/capability.h

// First line of a file of sysfs; empty where there is none, or where the kernel refuses to read it,
// as it does for the type of a GID that is not in use.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int> numbered_entries_of(const fs::path& folder) {
  std::vector<int> numbers;
  for (const std::string& name : entries_of(folder)) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
      numbers.push_back(std::stoi(name));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// "0000:0000:0000:0000:0000:ffff:0a00:0001" -> "10.0.0.1".
std::string ipv4_of(const std::string& gid) {
  constexpr std::string_view kMapped = "0000:0000:0000:0000:0000:ffff:";
  if (gid.rfind(kMapped, 0) != 0 || gid.size() != kMapped.size() + 9) return {};
  const auto byte = [&gid](size_t at) {
    return std::to_string(std::stoi(gid.substr(at, 2), nullptr, 16));
  };
  const size_t begin = kMapped.size();
  return byte(begin) + "." + byte(begin + 2) + "." + byte(begin + 5) + "." + byte(begin + 7);
}

std::vector<RdmaGid> read_gids(const fs::path& port) {
  constexpr std::string_view kNone = "0000:0000:0000:0000:0000:0000:0000:0000";
  std::vector<RdmaGid> gids;
  for (const int index : numbered_entries_of(port / "gids")) {
    const std::string number = std::to_string(index);
    RdmaGid gid;
    gid.index = index;
    gid.address = line_of(port / "gids" / number);
    gid.type = line_of(port / "gid_attrs/types" / number);
    gid.interface = line_of(port / "gid_attrs/ndevs" / number);
    if (gid.address.empty() || gid.address == kNone) continue;
    gid.ipv4 = ipv4_of(gid.address);
    gids.push_back(std::move(gid));
  }
  return gids;
}

// "4: ACTIVE" -> "ACTIVE".
std::string after_colon(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

bool may_lock_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("CapEff:", 0) != 0) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> kCapIpcLock & 1) != 0;
  }
  return false;
}

}  // namespace

std::vector<RdmaPort> read_rdma_ports(const fs::path& class_folder) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : entries_of(class_folder)) {
    for (const int number : numbered_entries_of(class_folder / device / "ports")) {
      const fs::path folder = class_folder / device / "ports" / std::to_string(number);
      RdmaPort port;
      port.device = device;
      port.port = number;
      port.link_layer = line_of(folder / "link_layer");
      port.state = after_colon(line_of(folder / "state"));
      port.rate = line_of(folder / "rate");
      port.gids = read_gids(folder);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::string memory_lock_problem() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (may_lock_memory()) return {};
  return "this process may lock no more than " + std::to_string(limit.rlim_cur) +
         " bytes of memory, and RDMA locks whole buffers: ulimit -l unlimited, or the capability "
         "IPC_LOCK";
}

}  // namespace sftbench
