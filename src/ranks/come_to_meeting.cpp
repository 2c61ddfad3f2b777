#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "ranks/hello.h"
#include "ranks/rendezvous.h"
#include "sftbench/base/clock.h"

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
                     .host = parts[at + 2],
                     .pid = number_of(parts[at + 3])});
  }
  return ranks;
}

// A rank on its way to rank 0.
class Guest {
 public:
  Guest(const RankPlace& place, const RankInfo& self, std::string problem = {})
      : place_(place),
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
    host.send(to_message(hello_));
    bool accepted = false;
    for (;;) {
      const double left = left_s() + (accepted ? kVerdictMarginSeconds : 0);
      if (left <= 0) break;
      pollfd entry = {host.fd(), static_cast<short>(POLLIN | (host.has_to_write() ? POLLOUT : 0)),
                      0};
      ::poll(&entry, 1, static_cast<int>(std::min(1e9, std::ceil(left * 1000))));
      std::vector<Message> messages;
      const bool open = host.flush() && receive(host, messages);
      for (auto message = messages.begin(); message != messages.end(); ++message) {
        if (message->kind == MessageKind::kRefused) refused(*message);
        if (message->kind == MessageKind::kAccepted) accepted = true;
        if (message->kind == MessageKind::kWelcome && accepted) {
          Meeting meeting = met(*message, host);
          meeting.early.assign(std::next(message), messages.end());
          return meeting;
        }
      }
      if (!open) break;
    }
    if (accepted) {
      throw RunError(left_s() > 0 ? ReasonCode::kKilled : ReasonCode::kNccl,
                     left_s() > 0 ? "rank 0: the process ended before all ranks had come"
                                  : "rank 0 at " + where() + " gave no sign of life");
    }
    last_problem_ = "who listens there is not rank 0 of an sftbench job";
    return std::nullopt;
  }

  static bool receive(Connection& host, std::vector<Message>& messages) {
    try {
      return host.receive(messages);
    } catch (const RunError&) {
      return false;
    }
  }

  [[noreturn]] static void refused(const Message& message) {
    const bool whole = message.parts.size() == 2;
    if (whole && message.parts[0].empty()) throw InputError(message.parts[1]);
    const int64_t code = whole ? number_of(message.parts[0]) : 0;
    if (!whole || code < 0 || code > static_cast<int64_t>(ReasonCode::kInternal)) {
      throw RunError(ReasonCode::kNccl, "turned away by rank 0");
    }
    throw RunError(static_cast<ReasonCode>(code), message.parts[1]);
  }

  Meeting met(const Message& welcome, Connection& host) const {
    Meeting meeting;
    meeting.ranks = ranks_of(welcome, place_.world_size);
    meeting.connections.push_back(std::make_unique<Connection>(std::move(host)));
    return meeting;
  }

  const RankPlace& place_;
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
