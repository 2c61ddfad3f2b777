// The transports that NCCL really chose. It has no call that tells; its log does (NCCL_DEBUG=INFO),
// and asking for RoCE is no proof of it: where its devices cannot be used, NCCL goes on over
// sockets. Source of the lines: NCCL, src/init.cc, src/transport/*.cc.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/cluster/launcher_environment.h"

namespace sftbench {

struct NcclTransport {
  std::set<std::string> networks;       // "IB", "Socket": one, unless ranks differ
  std::set<std::string> devices;        // "mlx5_0:1/RoCE", "eth0:10.0.0.1<0>"
  std::map<std::string, int> channels;  // "NET/IB/GDRDMA", "P2P/CUMEM", "SHM/direct": how many

  bool uses_sockets() const { return networks.count("Socket") != 0; }
  bool uses_roce() const;
  void merge(const NcclTransport& other);  // another rank's
};

NcclTransport parse_nccl_log(std::string_view log);

// {network, devices, channels, gdrdma}: gdrdma says whether all, some or none of the channels
// between nodes go from the network's device to the GPU's memory without the host's; null where
// there are none.
Json to_json(const NcclTransport& transport);
NcclTransport nccl_transport_from_json(const Json& json);

// Has NCCL write its log into a folder that is this process's own, unless the user has NCCL log
// elsewhere. Removes it at its end.
class NcclLog {
 public:
  explicit NcclLog(const Environment& environment);
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  // What has been written so far; empty where it went elsewhere.
  std::string read() const;

 private:
  std::filesystem::path folder_;  // empty: elsewhere
};

}  // namespace sftbench
