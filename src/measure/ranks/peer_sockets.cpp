#include "sftbench/ranks/peer_sockets.h"

#include <poll.h>

#include <algorithm>
#include <charconv>

#include "ranks/handshake.h"
#include "ranks/keyed_hash.h"
#include "ranks/reception.h"
#include "ranks/rendezvous.h"
#include "ranks/tcp_socket.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr double kLookSeconds = 0.1;    // at whether the group has failed, and for the next attempt
constexpr double kSliceSeconds = 0.02;  // of waiting for one rank, between looks at the others
constexpr double kConnectToPeerSeconds = 2;
constexpr size_t kCookieBytes = 16;

// Where a rank listens for its peers, as the group's store has it: "10.0.0.7 41234 <hexadecimal>".
struct PeerPort {
  std::string address;
  int port = 0;
  std::string cookie;
};

std::string to_text(const PeerPort& port) {
  return port.address + " " + std::to_string(port.port) + " " + port.cookie;
}

PeerPort peer_port_from(const std::string& text) {
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  check(first != std::string::npos && second != std::string::npos, "a rank tells where it listens");
  return {text.substr(0, first),
          static_cast<int>(number_of(text.substr(first + 1, second - first - 1))),
          text.substr(second + 1)};
}

class Peers {
 public:
  Peers(RankGroup& group, const std::string& scope, const std::vector<int>& members,
        const std::string& address)
      : group_(group),
        scope_(scope),
        members_(members),
        own_port_{address, 0, to_hexadecimal(random_bytes(kCookieBytes))},
        reception_(listen_at(address, 0), key_for(own_port_)),
        sockets_(members.size()),
        end_s_(steady_seconds() + group.place().communication_timeout_s) {
    const auto own = std::find(members.begin(), members.end(), group.rank());
    check(own != members.end(), "a rank connects to groups that it is a member of");
    own_ = static_cast<size_t>(own - members.begin());
    own_port_.port = reception_.port();
  }

  // Each comes to those before it and receives those after it, so that nobody waits in a circle.
  std::vector<OwnedFd> connect() {
    group_.set(scope_ + "/" + std::to_string(own_), to_text(own_port_));
    for (size_t peer = 0; peer < own_; ++peer) come_to(peer);
    while (!missing().empty()) {
      wait_for_guests(kLookSeconds);
      go_on_waiting(reception_.turned_away());
    }
    return std::move(sockets_);
  }

 private:
  std::string key_for(const PeerPort& port) const {
    return key_of_use(group_.place().secret, "peers " + scope_ + " " + port.cookie);
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (size_t peer = 0; peer < members_.size(); ++peer) {
      if (peer != own_ && !sockets_[peer]) ranks.push_back(members_[peer]);
    }
    return ranks;
  }

  // Throws when there is nothing to wait for any more.
  void go_on_waiting(const std::string& problem) const {
    if (const auto failure = group_.failure()) throw error_of(*failure, group_.ranks());
    if (steady_seconds() < end_s_ || missing().empty()) return;
    throw RunError(ReasonCode::kNccl,
                   "rank " + std::to_string(group_.rank()) + " could not connect with " +
                       ranks_text(missing()) + " for " + scope_ + " within " +
                       seconds_text(group_.place().communication_timeout_s),
                   problem);
  }

  void come_to(size_t peer) {
    const PeerPort port = peer_port_from(group_.get(scope_ + "/" + std::to_string(peer)));
    const std::string key = key_for(port);
    while (!sockets_[peer]) {
      std::string why;
      const double most_s =
          std::clamp(end_s_ - steady_seconds(), kLookSeconds, kConnectToPeerSeconds);
      if (OwnedFd socket = connect_to(port.address, port.port, most_s, why)) {
        Connection connection(std::move(socket), kMostStrangerBytes);
        if (introduce(connection, key, why)) sockets_[peer] = connection.release();
      } else {
        wait_for_guests(kLookSeconds);
      }
      if (!sockets_[peer]) go_on_waiting(why);
    }
  }

  // Who comes waits for who listens: that one may still be on its way to others.
  bool introduce(Connection& connection, const std::string& key, std::string& why) {
    try {
      why = "who listens there is none of the job's ranks";
      const std::optional<Message> challenge = next_from(connection);
      if (!challenge) return false;
      answer_challenge(*challenge, key, {MessageKind::kHello, {std::to_string(own_)}}, connection);
      const std::optional<Message> answer = next_from(connection);
      return answer && answer->kind == MessageKind::kAccepted;
    } catch (const RunError&) {
      go_on_waiting(why);  // unless that was the error: what came is not what a rank sends
      return false;
    }
  }

  std::optional<Message> next_from(Connection& connection) {
    for (bool open = true; open;) {
      if (auto message = wait_for_message(connection, steady_seconds() + kSliceSeconds, open)) {
        return message;
      }
      wait_for_guests(0);
      go_on_waiting("a rank that is there does not answer");
    }
    return std::nullopt;
  }

  void wait_for_guests(double seconds) {
    std::vector<pollfd> fds;
    reception_.add_to(fds);
    ::poll(fds.data(), fds.size(), static_cast<int>(seconds * 1000));
    for (Reception::Guest& guest : reception_.receive()) {
      const size_t peer = peer_in(guest.hello);
      if (peer <= own_ || peer >= members_.size()) continue;
      guest.connection->send({MessageKind::kAccepted, {}});
      guest.connection->flush_within(kLookSeconds);
      // One that comes again has lost the connection that it had.
      if (!guest.connection->has_to_write()) sockets_[peer] = guest.connection->release();
    }
  }

  static size_t peer_in(const Message& hello) {
    size_t peer = 0;
    if (hello.kind != MessageKind::kHello || hello.parts.size() != 1) return 0;
    const std::string& text = hello.parts.front();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), peer);
    return error == std::errc() && end == text.data() + text.size() ? peer : 0;
  }

  RankGroup& group_;
  const std::string& scope_;
  const std::vector<int>& members_;
  PeerPort own_port_;
  Reception reception_;
  std::vector<OwnedFd> sockets_;
  size_t own_ = 0;
  double end_s_;
};

}  // namespace

std::vector<OwnedFd> connect_peers(RankGroup& group, const std::string& scope,
                                   const std::vector<int>& members, const std::string& address) {
  return Peers(group, scope, members, address).connect();
}

}  // namespace sftbench
