// TCP as ranks use it: sockets that do not block, and on each the messages that were read from it
// and those that wait to be written. For one thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ranks/message.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

// For the others to be told why this process ends.
inline constexpr double kGoodbyeSeconds = 1;

class Connection {
 public:
  explicit Connection(OwnedFd socket, size_t most_bytes = kMostFrameBytes);

  int fd() const { return socket_.get(); }
  // Gives the socket away, to whatever speaks over it next. REQUIRES that nothing waits to be sent
  // and that receive_next() was all that read from it.
  OwnedFd release();

  bool has_to_write() const { return begin_ < unsent_.size(); }
  void set_most_bytes(size_t most_bytes) { reader_.set_most_bytes(most_bytes); }

  // From the next frame on, each that is sent and each that comes has a seal.
  void seal(const std::string& send_key, const std::string& receive_key);

  void send(const Message& message);
  // Writes what the socket takes. False when the other side is gone.
  bool flush();
  // The same until all is written or `timeout_s` is over.
  void flush_within(double timeout_s);
  // Appends the messages that came. False when the other side is gone: no more will come.
  // RunError(kNccl) when it sends what is no message.
  bool receive(std::vector<Message>& messages);
  // The next message if it is there, without a byte of what follows it. `open` is false when no
  // more will come. RunError(kNccl) as receive().
  std::optional<Message> receive_next(bool& open);

 private:
  // The bytes that came, at most `most`: 0 when none did, -1 when none will.
  ssize_t read_some(size_t most);

  OwnedFd socket_;
  MessageReader reader_;
  std::optional<Sealer> sealer_;
  std::string unsent_;
  size_t begin_ = 0;  // of what was not sent yet
};

}  // namespace sftbench
