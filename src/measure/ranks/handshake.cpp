#include "ranks/handshake.h"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include "ranks/keyed_hash.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr const char* kProtocol = "sftbench ranks 2";
constexpr size_t kNumberBytes = 32;

// The other side's random number.
std::string number_in(const Message& message, MessageKind kind) {
  if (message.kind != kind || message.parts.size() != 2 || message.parts[0] != kProtocol ||
      message.parts[1].size() != kNumberBytes) {
    throw RunError(ReasonCode::kNccl, "what came is no handshake of this version's ranks");
  }
  return message.parts[1];
}

struct DirectionKeys {
  std::string of_host;
  std::string of_guest;
};

DirectionKeys keys_from(const std::string& key, const std::string& host_number,
                        const std::string& guest_number) {
  const std::string context = std::string(kProtocol) + host_number + guest_number;
  return {keyed_hash(key, "host" + context), keyed_hash(key, "guest" + context)};
}

}  // namespace

std::string key_of_use(const std::string& secret, const std::string& use) {
  return keyed_hash(secret, std::string(kProtocol) + " " + use);
}

std::string new_number() {
  return random_bytes(kNumberBytes);
}

Message challenge_with(const std::string& number) {
  return {MessageKind::kChallenge, {kProtocol, number}};
}

void take_answer(const Message& answer, const std::string& key, const std::string& number,
                 Connection& guest) {
  const DirectionKeys keys = keys_from(key, number, number_in(answer, MessageKind::kAnswer));
  guest.seal(keys.of_host, keys.of_guest);
  guest.set_most_bytes(kMostHelloBytes);
}

std::optional<Message> wait_for_message(Connection& connection, double until_s, bool& open) {
  for (;;) {
    open = connection.flush();
    if (!open) return std::nullopt;
    if (std::optional<Message> message = connection.receive_next(open)) return message;
    const double left_ms = std::ceil((until_s - steady_seconds()) * 1000);
    if (!open || left_ms <= 0) return std::nullopt;
    const short writes = connection.has_to_write() ? POLLOUT : 0;
    pollfd entry = {connection.fd(), static_cast<short>(POLLIN | writes), 0};
    ::poll(&entry, 1, static_cast<int>(std::min(1e9, left_ms)));
  }
}

void answer_challenge(const Message& challenge, const std::string& key, const Message& hello,
                      Connection& host) {
  const std::string host_number = number_in(challenge, MessageKind::kChallenge);
  const std::string number = new_number();
  host.send({MessageKind::kAnswer, {kProtocol, number}});
  const DirectionKeys keys = keys_from(key, host_number, number);
  host.seal(keys.of_guest, keys.of_host);
  host.set_most_bytes(kMostHelloBytes);
  host.send(hello);
}

}  // namespace sftbench
