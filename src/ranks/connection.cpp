#include "ranks/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr int kReadsAtATime = 16;
constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

[[noreturn]] void cannot_listen(int port, int error) {
  const std::string number = std::to_string(port);
  throw RunError(ReasonCode::kNccl,
                 error == EADDRINUSE
                     ? "port " + number +
                           ", where ranks are to meet, is taken by another process of this "
                           "machine; choose another one"
                     : "ranks cannot meet at port " + number + ": " + std::strerror(error));
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

OwnedFd listen_on_loopback() {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  OwnedFd socket = bound(AF_INET, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback);
  if (!socket) cannot_listen(0, errno);
  return socket;
}

int port_of(int listening_fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  ::getsockname(listening_fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
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

Connection::Connection(OwnedFd socket, size_t most_bytes)
    : socket_(std::move(socket)), reader_(most_bytes) {
  set_option(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

void Connection::send(const Message& message) {
  unsent_ += encode(message);
}

bool Connection::flush() {
  while (has_to_write()) {
    const ssize_t sent = ::send(socket_.get(), unsent_.data() + begin_, unsent_.size() - begin_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    begin_ += static_cast<size_t>(sent);
  }
  unsent_.clear();
  begin_ = 0;
  return true;
}

void Connection::flush_within(double timeout_s) {
  const double until_s = steady_seconds() + timeout_s;
  while (flush() && has_to_write()) {
    const double left_ms = std::ceil((until_s - steady_seconds()) * 1000);
    if (left_ms <= 0) return;
    pollfd entry = {socket_.get(), POLLOUT, 0};
    ::poll(&entry, 1, static_cast<int>(left_ms));
  }
}

bool Connection::receive(std::vector<Message>& messages) {
  std::array<char, 65536> buffer;
  bool open = true;
  // Who never stops sending does not keep this thread from the others.
  for (int reads = 0; reads < kReadsAtATime; ++reads) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    open = got > 0;
    if (!open) break;
    reader_.append(buffer.data(), static_cast<size_t>(got));
    while (std::optional<Message> message = reader_.next()) {
      messages.push_back(std::move(*message));
    }
  }
  return open;
}

}  // namespace sftbench
