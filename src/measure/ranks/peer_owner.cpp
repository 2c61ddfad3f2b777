#include "ranks/peer_owner.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace sftbench {
namespace {

// As the kernel's table of connections spells it.
std::string spelled(const sockaddr_in& address) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08X:%04X", address.sin_addr.s_addr,
                ntohs(address.sin_port));
  return text.data();
}

}  // namespace

bool may_be_own_process(int connected_fd) {
  sockaddr_in own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  if (::getsockname(connected_fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
      ::getpeername(connected_fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0 ||
      own.sin_family != AF_INET || peer.sin_family != AF_INET) {
    return true;
  }
  const std::string theirs = spelled(peer) + " " + spelled(own) + " ";
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    const size_t at = line.find(theirs);
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + theirs.size()));
    std::string state, queues, timer, retransmits;
    uid_t user = 0;
    if (words >> state >> queues >> timer >> retransmits >> user) return user == ::geteuid();
  }
  return true;
}

}  // namespace sftbench
