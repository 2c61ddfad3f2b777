// What ranks say to each other: a kind and some texts. On the wire a frame: 4 bytes that hold the
// length of what follows (little-endian), 1 byte for the kind, then each text behind 4 bytes of its
// own length. Numbers are texts in decimal. Texts are any bytes.
//
// Frames come from the network: a reader takes none that is longer than it was told to expect, and
// its memory grows with the bytes that came, not with what a length promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/ranks/rank_group.h"

namespace sftbench {

enum class MessageKind : uint8_t {
  // rendezvous
  kHello = 1,  // to rank 0: who I am (rendezvous.h)
  kAccepted,   // from it: you belong here; wait for the others
  kRefused,    // code (none: a rank's usage error), message: go
  kWelcome,    // four texts per rank: all are there
  // afterwards; `from` and `to` are rank 0's hub
  kAlive,     // to: where the rank is
  kGather,    // to: text
  kGathered,  // from: the texts of all ranks
  kSet,       // to: key, value
  kGet,       // to: number of the question, key
  kValue,     // from: number of the question, value
  kFail,      // to: a failure; without texts: nothing that was not heard of
  kAlert,     // from: a failure, the first that was heard of
  kVerdict,   // from: a failure, the one that is agreed on
  kLeave,     // to
  kFarewell,  // from: all leave
};
inline constexpr MessageKind kLastMessageKind = MessageKind::kFarewell;

struct Message {
  MessageKind kind = MessageKind::kAlive;
  std::vector<std::string> parts;
};

inline constexpr size_t kMostHelloBytes = 16384;
inline constexpr size_t kMostFrameBytes = size_t{1} << 30;

// RunError(kInternal) when it would be longer than kMostFrameBytes.
std::string encode(const Message& message);

// Puts frames together from pieces as they come.
class MessageReader {
 public:
  explicit MessageReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  void set_most_bytes(size_t most_bytes) { most_bytes_ = most_bytes; }
  void append(const char* bytes, size_t count) { buffer_.append(bytes, count); }
  // The next whole message. RunError(kNccl) when what came is none: nothing after it can be read.
  std::optional<Message> next();

 private:
  size_t most_bytes_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not taken yet
};

// A whole number. RunError(kNccl) when the text is none.
int64_t number_of(const std::string& text);

Message failure_message(MessageKind kind, const RankFailure& failure);
// RunError(kNccl) when the message holds none.
RankFailure failure_of(const Message& message);

}  // namespace sftbench
