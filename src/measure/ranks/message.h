// What ranks say to each other: a kind and some texts. On the wire a frame: 4 bytes that hold the
// length of what follows (little-endian), 1 byte for the kind, then each text behind 4 bytes of its
// own length. Numbers are texts in decimal. Texts are any bytes. Once both sides have keys
// (handshake.h) each frame is followed by its seal.
//
// Frames come from the network: a reader takes none that is longer than it was told to expect, and
// its memory grows with the bytes that came, not with what a length promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sftbench/ranks/rank_group.h"

namespace sftbench {

enum class MessageKind : uint8_t {
  // rendezvous
  kHello = 1,  // to rank 0: who I am (rendezvous.h)
  kAccepted,   // from it: you belong here; wait for the others
  kRefused,    // code (none: a rank's usage error), message: go
  kWelcome,    // four texts per rank: all are there
  // afterwards; `from` and `to` are rank 0's coordinator
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
  // handshake (handshake.h), before all else
  kChallenge,  // from who listens
  kAnswer,     // to it
};
inline constexpr MessageKind kLastMessageKind = MessageKind::kAnswer;

struct Message {
  MessageKind kind = MessageKind::kAlive;
  std::vector<std::string> parts;
};

inline constexpr size_t kMostStrangerBytes = 256;  // of who has proved nothing yet
inline constexpr size_t kMostHelloBytes = 16384;
inline constexpr size_t kMostFrameBytes = size_t{1} << 30;

// RunError(kInternal) when it would be longer than kMostFrameBytes.
std::string encode(const Message& message);

// The seals of one direction of a connection: each depends on the key, on the frame, and on how
// many came before it, so that none can be changed, left out or sent again.
class Sealer {
 public:
  explicit Sealer(std::string key) : key_(std::move(key)) {}
  std::string next(std::string_view frame);

  static constexpr size_t kBytes = 16;

 private:
  std::string key_;
  uint64_t count_ = 0;
};

// Puts frames together from pieces as they come.
class MessageReader {
 public:
  explicit MessageReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  void set_most_bytes(size_t most_bytes) { most_bytes_ = most_bytes; }
  // From the next frame on each has a seal.
  void expect_seals(std::string key) { sealer_.emplace(std::move(key)); }
  void append(const char* bytes, size_t count) { buffer_.append(bytes, count); }
  // The next whole message. RunError(kNccl) when what came is none: nothing after it can be read.
  std::optional<Message> next();
  // At least so many bytes are to come before next() has one; none of them is after its end.
  size_t missing_bytes() const;
  bool empty() const { return begin_ == buffer_.size(); }

 private:
  // Of the next frame with its seal; nothing while its length is not known.
  std::optional<size_t> frame_bytes() const;

  size_t most_bytes_;
  std::optional<Sealer> sealer_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not taken yet
};

// A whole number. RunError(kNccl) when the text is none.
int64_t number_of(const std::string& text);

Message failure_message(MessageKind kind, const RankFailure& failure);
// RunError(kNccl) when the message holds none.
RankFailure failure_of(const Message& message);

}  // namespace sftbench
