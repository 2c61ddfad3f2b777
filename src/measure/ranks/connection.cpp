#include "ranks/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr int kReadsAtATime = 16;

}  // namespace

Connection::Connection(OwnedFd socket, size_t most_bytes)
    : socket_(std::move(socket)), reader_(most_bytes) {
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

OwnedFd Connection::release() {
  check(!has_to_write() && reader_.empty(), "a socket is given away between two messages");
  return std::move(socket_);
}

void Connection::seal(const std::string& send_key, const std::string& receive_key) {
  sealer_.emplace(send_key);
  reader_.expect_seals(receive_key);
}

void Connection::send(const Message& message) {
  const std::string frame = encode(message);
  unsent_ += frame;
  if (sealer_) unsent_ += sealer_->next(frame);
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

ssize_t Connection::read_some(size_t most) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got =
        ::recv(socket_.get(), buffer.data(), std::min(most, buffer.size()), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got <= 0) return -1;
    reader_.append(buffer.data(), static_cast<size_t>(got));
    return got;
  }
}

bool Connection::receive(std::vector<Message>& messages) {
  // Who never stops sending does not keep this thread from the others.
  for (int reads = 0; reads < kReadsAtATime; ++reads) {
    const ssize_t got = read_some(std::numeric_limits<size_t>::max());
    if (got <= 0) return got == 0;
    while (std::optional<Message> message = reader_.next()) {
      messages.push_back(std::move(*message));
    }
  }
  return true;
}

std::optional<Message> Connection::receive_next(bool& open) {
  open = true;
  for (;;) {
    if (std::optional<Message> message = reader_.next()) return message;
    const ssize_t got = read_some(reader_.missing_bytes());
    open = got >= 0;
    if (got <= 0) return std::nullopt;
  }
}

}  // namespace sftbench
