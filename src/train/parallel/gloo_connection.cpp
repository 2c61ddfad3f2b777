#if SFTBENCH_GLOO

#include "parallel/gloo_connection.h"

#include <gloo/common/error.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/ranks/network_interface.h"
#include "sftbench/ranks/peer_sockets.h"

namespace sftbench {
namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

// The local end of a datagram socket that is connected there (nothing is sent); empty without one.
std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  std::string local;
  for (const addrinfo* one = found; one != nullptr && local.empty(); one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (::connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      local = numeric(reinterpret_cast<const sockaddr*>(&own), length);
    }
    ::close(fd);
  }
  ::freeaddrinfo(found);
  return local;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

std::string gloo_address(const RankGroup& group) {
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name != nullptr && *name != '\0') {
    return address_of_interface("GLOO_SOCKET_IFNAME", name);
  }
  const RankPlace& place = group.place();
  const bool one_host =
      std::all_of(group.ranks().begin(), group.ranks().end(),
                  [&](const RankInfo& rank) { return rank.host == group.ranks()[0].host; });
  if (place.nodes == 1 && one_host) return "127.0.0.1";
  if (!place.interface.empty()) return address_of_interface(kInterfaceVariable, place.interface);
  const std::string address = local_address_towards(place.address);
  if (address.empty() || (is_loopback(address) && !one_host)) {
    throw RunError(ReasonCode::kUnsupported,
                   "Gloo cannot tell by which address the other hosts reach this one (rank " +
                       std::to_string(group.rank()) + "): rank 0 is at " + place.address + ", " +
                       (address.empty() ? "to which there is no route"
                                        : "which is " + address + " from here") +
                       "; set GLOO_SOCKET_IFNAME to the network interface that connects the hosts "
                       "(there are " +
                       join(network_interfaces()) + ")");
  }
  return address;
}

std::shared_ptr<gloo::Context> connect_gloo(
    RankGroup& group, const std::string& scope, const std::vector<int>& members,
    const std::string& address, const std::shared_ptr<gloo::transport::tcp::Device>& device) {
  const std::vector<OwnedFd> sockets = connect_peers(group, scope, members, address);
  const auto own = std::find(members.begin(), members.end(), group.rank()) - members.begin();
  const double timeout_s = group.place().communication_timeout_s;
  try {
    return gloo_context_over(sockets, static_cast<int>(own),
                             std::chrono::milliseconds(static_cast<int64_t>(timeout_s * 1e3)),
                             device);
  } catch (const gloo::Exception& error) {
    if (const auto failure = group.failure()) throw error_of(*failure, group.ranks());
    throw RunError(ReasonCode::kNccl,
                   "Gloo could not use the connections of rank " + std::to_string(group.rank()) +
                       " with the other ranks of " + scope,
                   error.what());
  }
}

}  // namespace sftbench

#endif
