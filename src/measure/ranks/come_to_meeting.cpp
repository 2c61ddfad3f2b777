#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "ranks/handshake.h"
#include "ranks/hello.h"
#include "ranks/rendezvous.h"
#include "ranks/tcp_socket.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr double kFirstPauseSeconds = 0.02;
constexpr double kLongestPauseSeconds = 1;
constexpr double kConnectSeconds = 5;
constexpr size_t kPartsOfARank = 4;

std::vector<RankInfo> ranks_of(const Message& welcome, int world_size) {
  const std::vector<std::string>& parts = welcome.parts;
  if (parts.size() != kPartsOfARank * static_cast<size_t>(world_size)) {
    throw RunError(ReasonCode::kNccl, "rank 0 sent a list of another number of ranks");
  }
  std::vector<RankInfo> ranks;
  for (size_t at = 0; at < parts.size(); at += kPartsOfARank) {
    ranks.push_back({.rank = static_cast<int>(ranks.size()),
                     .local_rank = static_cast<int>(number_of(parts[at])),
                     .node = static_cast<int>(number_of(parts[at + 1])),
                     .host = terminal_line(parts[at + 2]),
                     .pid = number_of(parts[at + 3])});
  }
  return ranks;
}

// A rank on its way to rank 0.
class Guest {
 public:
  Guest(const RankPlace& place, const RankInfo& self, std::string problem = {})
      : place_(place),
        key_(key_of_use(place.secret, kRendezvousUse)),
        hello_{version_of(place), place.session, place.world_size, self, std::move(problem)},
        deadline_s_(steady_seconds() + place.rendezvous_timeout_s) {}

  Meeting meet() {
    double pause_s = kFirstPauseSeconds;
    while (left_s() > 0) {
      std::string why;
      OwnedFd socket =
          connect_to(place_.address, place_.port, std::min(kConnectSeconds, left_s()), why);
      if (socket) {
        Connection host(std::move(socket));
        if (std::optional<Meeting> meeting = talk(host)) return std::move(*meeting);
      } else {
        last_problem_ = why;
      }
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::clamp(left_s(), 0.0, pause_s)));
      pause_s = std::min(pause_s * 1.5, kLongestPauseSeconds);
    }
    throw RunError(ReasonCode::kNccl,
                   "rank " + std::to_string(place_.rank) + " did not find rank 0 at " + where() +
                       " within " + seconds_text(place_.rendezvous_timeout_s),
                   last_problem_);
  }

 private:
  double left_s() const { return deadline_s_ - steady_seconds(); }
  std::string where() const { return place_.address + ":" + std::to_string(place_.port); }

  // Nothing: who listens there did not take this rank in, and another may listen there later.
  std::optional<Meeting> talk(Connection& host) {
    if (!introduce(host)) return std::nullopt;
    bool accepted = false;
    while (std::optional<Message> message = next_from(host, accepted)) {
      if (!is_trusted(place_, host.fd())) {
        last_problem_ = "who listens there belongs to another user";
        return std::nullopt;
      }
      if (message->kind == MessageKind::kRefused) refused(*message);
      if (message->kind == MessageKind::kWelcome && accepted) return met(*message, host);
      if (message->kind != MessageKind::kAccepted) continue;
      accepted = true;
      host.set_most_bytes(kMostFrameBytes);
    }
    if (!accepted) {
      last_problem_ = "who listens there does not prove to have this job's secret";
      return std::nullopt;
    }
    throw RunError(left_s() > 0 ? ReasonCode::kKilled : ReasonCode::kNccl,
                   left_s() > 0 ? "rank 0: the process ended before all ranks had come"
                                : "rank 0 at " + where() + " gave no sign of life");
  }

  bool introduce(Connection& host) {
    last_problem_ = "who listens there is not rank 0 of an sftbench job";
    const std::optional<Message> challenge = next_from(host, false);
    if (!challenge) return false;
    try {
      answer_challenge(*challenge, key_, to_message(hello_), host);
    } catch (const RunError&) {  // no challenge
      return false;
    }
    return true;
  }

  // Who has not proved anything has little time; rank 0 says when ranks are missing.
  std::optional<Message> next_from(Connection& host, bool accepted) const {
    const double wait_s =
        accepted ? left_s() + kVerdictMarginSeconds : std::min(kHandshakeSeconds, left_s());
    bool open = true;
    try {
      return wait_for_message(host, steady_seconds() + wait_s, open);
    } catch (const RunError&) {  // no message, or without the seal: not what rank 0 has sent
      return std::nullopt;
    }
  }

  [[noreturn]] static void refused(const Message& message) {
    const bool whole = message.parts.size() == 2;
    if (whole && message.parts[0].empty()) throw InputError(terminal_text(message.parts[1]));
    const int64_t code = whole ? number_of(message.parts[0]) : 0;
    if (!whole || code < 0 || code > static_cast<int64_t>(ReasonCode::kInternal)) {
      throw RunError(ReasonCode::kNccl, "turned away by rank 0");
    }
    throw RunError(static_cast<ReasonCode>(code), terminal_text(message.parts[1]));
  }

  Meeting met(const Message& welcome, Connection& host) const {
    Meeting meeting;
    meeting.ranks = ranks_of(welcome, place_.world_size);
    meeting.connections.push_back(std::make_unique<Connection>(std::move(host)));
    return meeting;
  }

  const RankPlace& place_;
  std::string key_;
  Hello hello_;
  double deadline_s_;
  std::string last_problem_;
};

}  // namespace

Meeting come_to_meeting(const RankPlace& place, const RankInfo& self) {
  return Guest(place, self).meet();
}

void decline_as_guest(const RankPlace& place, const RankInfo& self, const std::string& problem) {
  try {
    Guest(place, self, problem).meet();
  } catch (const InputError&) {  // rank 0 has heard of it: it ends all with that
  }
}

}  // namespace sftbench
