#include "ranks/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/ranks/network_interface.h"

namespace sftbench {
namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

[[noreturn]] void cannot_listen(int port, int error) {
  const std::string number = std::to_string(port);
  throw RunError(ReasonCode::kNccl,
                 error == EADDRINUSE
                     ? "port " + number +
                           ", where ranks are to meet, is taken by another process of this "
                           "machine; choose another one"
                     : "ranks cannot meet at port " + number + ": " + std::strerror(error));
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

OwnedFd bound(int family, const sockaddr* address, socklen_t bytes) {
  OwnedFd socket(::socket(family, kSocketFlags, 0));
  if (!socket) return socket;
  // Ports whose connections ended a moment ago are free; those that somebody listens on are not.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address, bytes) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    return OwnedFd();
  }
  return socket;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Whether a connection that was begun stands.
bool completed(int fd, double timeout_s) {
  pollfd entry = {fd, POLLOUT, 0};
  const double until_s = steady_seconds() + timeout_s;
  for (;;) {
    const double left_ms = std::ceil((until_s - steady_seconds()) * 1000);
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max(0.0, left_ms)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0) return false;
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    return error == 0;
  }
}

// A socket that looks for a port of its own machine where nobody listens yet may be given that very
// port as its own, and then has reached itself.
bool reached_itself(int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         own_bytes == peer_bytes && std::memcmp(&own, &peer, own_bytes) == 0;
}

}  // namespace

OwnedFd listen_on(int port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  OwnedFd socket = bound(AF_INET6, reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (!socket && errno != EADDRINUSE) {  // a machine without IPv6
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    socket = bound(AF_INET, reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  }
  if (!socket) cannot_listen(port, errno);
  return socket;
}

OwnedFd listen_at(const std::string& numeric_address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(numeric_address.c_str(), std::to_string(port).c_str(), &hints, &found);
  check(error == 0, "an interface has a numeric address");
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  OwnedFd socket = bound(found->ai_family, found->ai_addr, found->ai_addrlen);
  if (!socket) cannot_listen(port, errno);
  return socket;
}

OwnedFd listen_on_loopback() {
  return listen_at(kLoopback, 0);
}

OwnedFd listen_for(const RankPlace& place) {
  if (place.listening_fd >= 0) return OwnedFd(place.listening_fd);
  if (place.nodes == 1) return listen_at(kLoopback, place.port);
  if (place.interface.empty()) return listen_on(place.port);
  return listen_at(address_of_interface(kInterfaceVariable, place.interface), place.port);
}

OwnedFd connect_to(const std::string& address, int port, double timeout_s, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // Asked again each time: a cluster's name service may learn of a host late.
  const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    why = ::gai_strerror(error);
    return OwnedFd();
  }
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    OwnedFd socket(::socket(entry->ai_family, kSocketFlags, 0));
    if (socket && (::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 ||
                   (errno == EINPROGRESS && completed(socket.get(), timeout_s)))) {
      if (!reached_itself(socket.get())) return socket;
      errno = ECONNREFUSED;
    }
    why = std::strerror(errno);
  }
  return OwnedFd();
}

int port_of(int listening_fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  ::getsockname(listening_fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string numeric_address(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t bytes =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

std::string address_of_peer(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  const int error = ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  return error == 0 ? numeric_address(reinterpret_cast<const sockaddr*>(&address))
                    : "an unknown address";
}

}  // namespace sftbench
