#include "ranks/message.h"

#include <charconv>

#include "ranks/keyed_hash.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr size_t kLengthBytes = 4;

void append_length(std::string& frame, size_t length) {
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    frame += static_cast<char>((length >> (8 * byte)) & 0xff);
  }
}

size_t length_at(std::string_view bytes, size_t position) {
  size_t length = 0;
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    length |= size_t{static_cast<unsigned char>(bytes[position + byte])} << (8 * byte);
  }
  return length;
}

[[noreturn]] void malformed(const std::string& what) {
  throw RunError(ReasonCode::kNccl, "a rank was sent what no rank sends: " + what);
}

Message parse(std::string_view body) {
  Message message;
  const auto kind = static_cast<uint8_t>(body.front());
  if (kind < 1 || kind > static_cast<uint8_t>(kLastMessageKind)) {
    malformed("a message of kind " + std::to_string(kind));
  }
  message.kind = static_cast<MessageKind>(kind);
  for (size_t at = 1; at < body.size();) {
    if (body.size() - at < kLengthBytes) malformed("a text without its length");
    const size_t length = length_at(body, at);
    at += kLengthBytes;
    if (length > body.size() - at) malformed("a text that is longer than its message");
    message.parts.emplace_back(body.substr(at, length));
    at += length;
  }
  return message;
}

}  // namespace

std::string encode(const Message& message) {
  size_t body_bytes = 1;
  for (const std::string& part : message.parts) body_bytes += kLengthBytes + part.size();
  if (body_bytes > kMostFrameBytes) {
    throw RunError(ReasonCode::kInternal, "ranks exchange " + std::to_string(body_bytes) +
                                              " bytes at once; at most " +
                                              std::to_string(kMostFrameBytes) + " are possible");
  }
  std::string frame;
  frame.reserve(kLengthBytes + body_bytes);
  append_length(frame, body_bytes);
  frame += static_cast<char>(message.kind);
  for (const std::string& part : message.parts) {
    append_length(frame, part.size());
    frame += part;
  }
  return frame;
}

std::string Sealer::next(std::string_view frame) {
  std::string counted;
  for (size_t byte = 0; byte < sizeof count_; ++byte) {
    counted += static_cast<char>((count_ >> (8 * byte)) & 0xff);
  }
  ++count_;
  counted += frame;
  return keyed_hash(key_, counted).substr(0, kBytes);
}

std::optional<size_t> MessageReader::frame_bytes() const {
  const std::string_view bytes = std::string_view(buffer_).substr(begin_);
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const size_t length = length_at(bytes, 0);
  if (length < 1 || length > most_bytes_) {
    malformed("a message of " + std::to_string(length) + " bytes, where at most " +
              std::to_string(most_bytes_) + " are expected");
  }
  return kLengthBytes + length + (sealer_ ? Sealer::kBytes : 0);
}

size_t MessageReader::missing_bytes() const {
  const size_t have = buffer_.size() - begin_;
  const size_t want = frame_bytes().value_or(kLengthBytes);
  return want > have ? want - have : 0;
}

std::optional<Message> MessageReader::next() {
  const std::optional<size_t> total = frame_bytes();
  if (!total || buffer_.size() - begin_ < *total) return std::nullopt;
  std::string_view frame = std::string_view(buffer_).substr(begin_, *total);
  if (sealer_) {
    const std::string_view seal = frame.substr(frame.size() - Sealer::kBytes);
    frame.remove_suffix(Sealer::kBytes);
    if (!equal_in_constant_time(sealer_->next(frame), seal)) {
      malformed("a message without the seal of this connection");
    }
  }
  Message message = parse(frame.substr(kLengthBytes));
  begin_ += *total;
  // What was taken is dropped once it is the larger part: each byte is moved once on average.
  if (begin_ * 2 > buffer_.size()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return message;
}

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    malformed("'" + terminal_line(text.substr(0, 40)) + "' for a number");
  }
  return number;
}

Message failure_message(MessageKind kind, const RankFailure& failure) {
  return {kind,
          {std::to_string(failure.rank), std::to_string(static_cast<int>(failure.code)),
           failure.message, failure.evidence, failure.asked ? "asked" : ""}};
}

RankFailure failure_of(const Message& message) {
  if (message.parts.size() != 5) malformed("a failure without its parts");
  const int64_t code = number_of(message.parts[1]);
  if (code < 0 || code > static_cast<int64_t>(ReasonCode::kInternal)) {
    malformed("a reason of number " + std::to_string(code));
  }
  return {static_cast<int>(number_of(message.parts[0])), static_cast<ReasonCode>(code),
          terminal_text(message.parts[2]), terminal_text(message.parts[3]),
          !message.parts[4].empty()};
}

}  // namespace sftbench
