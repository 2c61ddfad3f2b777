#include <poll.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ranks/handshake.h"
#include "ranks/hello.h"
#include "ranks/keyed_hash.h"
#include "ranks/reception.h"
#include "ranks/rendezvous.h"
#include "ranks/tcp_socket.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr size_t kMentionedStrangers = 4;
constexpr double kLongestWaitMs = 1000;  // until strangers that have used up their time are dropped

// What a rendezvous ends with for everybody: a RunError, or one rank's usage error.
struct Ending {
  std::optional<ReasonCode> code;
  std::string message;
};

// Rank 0 while it waits for the others.
class Host {
 public:
  // With a `problem`: tells it all who come, and takes nobody in.
  Host(const RankPlace& place, const RankInfo& self, std::string problem = {})
      : place_(place),
        problem_(std::move(problem)),
        reception_(listen_for(place), key_of_use(place.secret, kRendezvousUse)),
        deadline_s_(steady_seconds() + place.rendezvous_timeout_s) {
    const auto count = static_cast<size_t>(place.world_size);
    meeting_.ranks.resize(count);
    meeting_.connections.resize(count);
    came_.resize(count);
    meeting_.ranks[0] = self;
  }

  Meeting meet() {
    while (!missing().empty()) {
      if (steady_seconds() >= deadline_s_) end_unmet();
      receive_strangers();
      mind_guests();
    }
    welcome();
    return std::move(meeting_);
  }

  // Returns the ranks that did not come to hear of the problem.
  std::vector<int> decline() {
    while (!missing().empty() && steady_seconds() < deadline_s_) receive_strangers();
    return missing();
  }

 private:
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (size_t rank = 1; rank < came_.size(); ++rank) {
      if (!came_[rank]) ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  }

  void receive_strangers() {
    wait();
    for (Reception::Guest& guest : reception_.receive()) hear(guest);
  }

  void wait() {
    std::vector<pollfd> fds;
    for (const auto& guest : meeting_.connections) {
      if (guest) fds.push_back({guest->fd(), POLLIN, 0});
    }
    const size_t guests = fds.size();
    reception_.add_to(fds);
    const double left_ms = std::ceil((deadline_s_ - steady_seconds()) * 1000);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left_ms, 0.0, kLongestWaitMs)));
    guests_spoke_ = std::any_of(fds.begin(), fds.begin() + static_cast<std::ptrdiff_t>(guests),
                                [](const pollfd& fd) { return fd.revents != 0; });
  }

  void hear(Reception::Guest& guest) {
    try {
      const Hello hello = hello_from(guest.hello);
      if (!is_trusted(place_, guest.connection->fd())) {
        return mention(name_of(hello.info) + " belongs to another user");
      }
      judge(hello, *guest.connection);
    } catch (const RunError& error) {
      send_away(*guest.connection, "what has this job's secret", error.what());
    }
  }

  static std::string name_of(const RankInfo& rank) {
    return "rank " + std::to_string(rank.rank) + " on host " + rank.host + " (process " +
           std::to_string(rank.pid) + ")";
  }

  void judge(const Hello& hello, Connection& stranger) {
    const std::string who = name_of(hello.info);
    if (!equal_in_constant_time(hello.session, place_.session)) {
      return send_away(stranger, who, "belongs to another job than this rank 0's");
    }
    if (!problem_.empty()) return tell_problem(hello.info, stranger);
    if (hello.version != version_of(place_)) {
      return end_for_all(stranger,
                         {ReasonCode::kNccl, who + " is sftbench " + hello.version +
                                                 ", and rank 0 is sftbench " + version_of(place_)});
    }
    if (hello.world_size != place_.world_size) {
      return end_for_all(
          stranger,
          {ReasonCode::kNccl, who + " was started as one of " + counted(hello.world_size, "rank") +
                                  ", and rank 0 as one of " + std::to_string(place_.world_size)});
    }
    if (hello.info.rank < 1 || hello.info.rank >= place_.world_size) {
      return end_for_all(stranger,
                         {ReasonCode::kNccl, who + " has a number that is not among 1 to " +
                                                 std::to_string(place_.world_size - 1)});
    }
    if (!hello.problem.empty()) {
      return end_for_all(stranger, {std::nullopt, who + ": " + hello.problem});
    }
    const auto rank = static_cast<size_t>(hello.info.rank);
    if (meeting_.connections[rank]) {
      const RankInfo& first = meeting_.ranks[rank];
      return send_away(
          stranger, who,
          "is there already, as process " + std::to_string(first.pid) + " on host " + first.host);
    }
    take_in(hello.info, stranger);
  }

  void take_in(const RankInfo& info, Connection& stranger) {
    const auto rank = static_cast<size_t>(info.rank);
    meeting_.ranks[rank] = info;
    came_[rank] = true;
    meeting_.connections[rank] = std::make_unique<Connection>(std::move(stranger));
    meeting_.connections[rank]->set_most_bytes(kMostFrameBytes);
    meeting_.connections[rank]->send({MessageKind::kAccepted, {}});
    meeting_.connections[rank]->flush();
  }

  void tell_problem(const RankInfo& info, Connection& stranger) {
    refuse(stranger, {std::nullopt, name_of(meeting_.ranks[0]) + ": " + problem_});
    if (info.rank > 0 && info.rank < place_.world_size)
      came_[static_cast<size_t>(info.rank)] = true;
  }

  static void refuse(Connection& connection, const Ending& ending) {
    const std::string code =
        ending.code ? std::to_string(static_cast<int>(*ending.code)) : std::string();
    connection.send({MessageKind::kRefused, {code, ending.message}});
    connection.flush_within(kGoodbyeSeconds);
  }

  void send_away(Connection& stranger, const std::string& who, const std::string& why) {
    refuse(stranger, {ReasonCode::kNccl, "turned away by rank 0: " + who + " " + why});
    mention(who + " " + why);
  }

  void mention(const std::string& stranger) {
    if (turned_away_.size() < kMentionedStrangers) turned_away_.push_back(stranger);
  }

  // The message reaches everybody who is there, and is what this rank ends with.
  void end_for_all(Connection& stranger, Ending ending) {
    refuse(stranger, ending);
    ending_ = std::move(ending);
  }

  // Nothing is said by guests while they wait; what can be read is their end.
  void mind_guests() {
    for (size_t rank = 1; guests_spoke_ && !ending_ && rank < meeting_.connections.size(); ++rank) {
      if (!meeting_.connections[rank] || waits(*meeting_.connections[rank])) continue;
      meeting_.connections[rank].reset();
      const RunError error = error_of({static_cast<int>(rank),
                                       ReasonCode::kKilled,
                                       "the process ended before all ranks had come",
                                       {}},
                                      meeting_.ranks);
      ending_ = Ending{error.code(), error.what()};
    }
    if (ending_) end();
  }

  static bool waits(Connection& guest) {
    std::vector<Message> messages;
    try {
      return guest.receive(messages);
    } catch (const RunError&) {
      return false;
    }
  }

  [[noreturn]] void end() {
    for (const auto& guest : meeting_.connections) {
      if (guest) refuse(*guest, *ending_);
    }
    if (!ending_->code) throw InputError(ending_->message);
    throw RunError(*ending_->code, ending_->message);
  }

  [[noreturn]] void end_unmet() {
    std::string message = ranks_text(missing()) + " of " + std::to_string(place_.world_size) +
                          " did not come to " + place_.address + ":" +
                          std::to_string(reception_.port()) + " within " +
                          seconds_text(place_.rendezvous_timeout_s);
    std::vector<std::string> strangers = turned_away_;
    if (const std::string more = reception_.turned_away(); !more.empty()) strangers.push_back(more);
    if (!strangers.empty()) message += "; turned away: " + join(strangers, "; ");
    ending_ = Ending{ReasonCode::kNccl, message};
    end();
  }

  void welcome() {
    Message welcome = {MessageKind::kWelcome, {}};
    for (const RankInfo& info : meeting_.ranks) {
      for (const std::string& part : {std::to_string(info.local_rank), std::to_string(info.node),
                                      info.host, std::to_string(info.pid)}) {
        welcome.parts.push_back(part);
      }
    }
    for (const auto& guest : meeting_.connections) {
      if (guest) guest->send(welcome);  // what the socket does not take now is sent afterwards
    }
  }

  const RankPlace& place_;
  std::string problem_;
  Reception reception_;
  double deadline_s_;
  Meeting meeting_;
  bool guests_spoke_ = false;
  std::vector<std::string> turned_away_;
  std::vector<bool> came_;  // by rank
  std::optional<Ending> ending_;
};

}  // namespace

Meeting host_meeting(const RankPlace& place, const RankInfo& self) {
  return Host(place, self).meet();
}

std::vector<int> decline_as_host(const RankPlace& place, const RankInfo& self,
                                 const std::string& problem) {
  return Host(place, self, problem).decline();
}

}  // namespace sftbench
