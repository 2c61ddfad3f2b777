#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <list>
#include <optional>

#include "ranks/hello.h"
#include "ranks/rendezvous.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kGoodbyeSeconds = 1;   // for the others to be told why it ends
constexpr size_t kMostStrangers = 256;  // connections that have not said anything yet
constexpr size_t kMentionedStrangers = 4;

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
        listener_(place.listening_fd >= 0 ? OwnedFd(place.listening_fd) : listen_on(place.port)),
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
    accept_strangers();
    for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
      stranger = hear(**stranger) ? std::next(stranger) : strangers_.erase(stranger);
    }
  }

  void wait() const {
    std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
    for (const auto& stranger : strangers_) fds.push_back({stranger->fd(), POLLIN, 0});
    for (const auto& guest : meeting_.connections) {
      if (guest) fds.push_back({guest->fd(), POLLIN, 0});
    }
    const double left_ms = std::ceil((deadline_s_ - steady_seconds()) * 1000);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left_ms, 0.0, 1e9)));
  }

  void accept_strangers() {
    for (;;) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && errno == EINTR) continue;
      if (fd < 0) return;
      strangers_.push_back(std::make_unique<Connection>(OwnedFd(fd), kMostHelloBytes));
      if (strangers_.size() > kMostStrangers) strangers_.pop_front();
    }
  }

  // False: this connection is no stranger's any more.
  bool hear(Connection& stranger) {
    std::vector<Message> messages;
    try {
      const bool open = stranger.receive(messages);
      if (messages.empty()) return open;
      judge(hello_from(messages.front()), stranger);
    } catch (const RunError&) {
      return false;  // whatever it is, it speaks another language
    }
    return false;
  }

  static std::string name_of(const RankInfo& rank) {
    return "rank " + std::to_string(rank.rank) + " on host " + rank.host + " (process " +
           std::to_string(rank.pid) + ")";
  }

  void judge(const Hello& hello, Connection& stranger) {
    const std::string who = name_of(hello.info);
    if (hello.session != place_.session) {
      return send_away(stranger, who, "belongs to another job than this rank 0's");
    }
    if (!problem_.empty()) return tell_problem(hello.info, stranger);
    if (hello.version != version_of(place_)) {
      return end_for_all(stranger,
                         {ReasonCode::kNccl, who + " is sftbench " + hello.version +
                                                 ", and rank 0 is sftbench " + version_of(place_)});
    }
    if (hello.world_size != place_.world_size) {
      return end_for_all(stranger,
                         {ReasonCode::kNccl,
                          who + " was started as one of " + std::to_string(hello.world_size) +
                              " ranks, and rank 0 as one of " + std::to_string(place_.world_size)});
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
    if (turned_away_.size() < kMentionedStrangers) turned_away_.push_back(who + " " + why);
  }

  // The message reaches everybody who is there, and is what this rank ends with.
  void end_for_all(Connection& stranger, Ending ending) {
    refuse(stranger, ending);
    ending_ = std::move(ending);
  }

  // Nothing is said by guests while they wait; what can be read is their end.
  void mind_guests() {
    for (size_t rank = 1; rank < meeting_.connections.size() && !ending_; ++rank) {
      std::vector<Message> messages;
      if (!meeting_.connections[rank] || meeting_.connections[rank]->receive(messages)) continue;
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
                          std::to_string(port_of(listener_.get())) + " within " +
                          seconds_text(place_.rendezvous_timeout_s);
    if (!turned_away_.empty()) message += "; turned away: " + join(turned_away_, "; ");
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
  OwnedFd listener_;
  double deadline_s_;
  Meeting meeting_;
  std::list<std::unique_ptr<Connection>> strangers_;
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
