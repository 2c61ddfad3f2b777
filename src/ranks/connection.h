// TCP as ranks use it: sockets that do not block, and on each the messages that were read from it
// and those that wait to be written. For one thread.
#pragma once

#include <string>
#include <vector>

#include "ranks/message.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

// Listens on all interfaces; port 0: any that is free. RunError(kNccl) when the port is taken.
OwnedFd listen_on(int port);
// On this machine alone.
OwnedFd listen_on_loopback();
int port_of(int listening_fd);

// Connects within `timeout_s`; none when that failed, for the reason in `why`.
OwnedFd connect_to(const std::string& address, int port, double timeout_s, std::string& why);

class Connection {
 public:
  explicit Connection(OwnedFd socket, size_t most_bytes = kMostFrameBytes);

  int fd() const { return socket_.get(); }
  bool has_to_write() const { return begin_ < unsent_.size(); }
  void set_most_bytes(size_t most_bytes) { reader_.set_most_bytes(most_bytes); }

  void send(const Message& message);
  // Writes what the socket takes. False when the other side is gone.
  bool flush();
  // The same until all is written or `timeout_s` is over.
  void flush_within(double timeout_s);
  // Appends the messages that came. False when the other side is gone: no more will come.
  // RunError(kNccl) when it sends what is no message.
  bool receive(std::vector<Message>& messages);

 private:
  OwnedFd socket_;
  MessageReader reader_;
  std::string unsent_;
  size_t begin_ = 0;  // of what was not sent yet
};

}  // namespace sftbench
