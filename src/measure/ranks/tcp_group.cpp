#include "ranks/tcp_group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr double kLongestAlivePeriodSeconds = 1;
constexpr double kShortestAlivePeriodSeconds = 0.05;
constexpr double kVerdictSeconds = 5;  // well above the grace period

CoordinatorTimes times_of(const RankPlace& place) {
  CoordinatorTimes times;
  times.communication_timeout_s = place.communication_timeout_s;
  times.alive_period_s = std::clamp(place.communication_timeout_s / 4, kShortestAlivePeriodSeconds,
                                    kLongestAlivePeriodSeconds);
  return times;
}

}  // namespace

TcpGroup::TcpGroup(RankPlace place, Meeting meeting)
    : place_(std::move(place)),
      ranks_(std::move(meeting.ranks)),
      times_(times_of(place_)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connections_(std::move(meeting.connections)),
      coordinator_heard_s_(steady_seconds()) {
  if (place_.rank == 0) coordinator_.emplace(place_.world_size, times_, coordinator_heard_s_);
  thread_ = std::thread([this] { serve(); });
}

TcpGroup::~TcpGroup() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    ::eventfd_write(wake_fd_.get(), 1);
  }
  thread_.join();
}

// --- any thread ------------------------------------------------------------------------------

void TcpGroup::require_well() const {
  if (failed()) throw error_of(verdict_ ? *verdict_ : *heard_, ranks_);
}

void TcpGroup::post(Message message) {
  outbox_.push_back(std::move(message));
  ::eventfd_write(wake_fd_.get(), 1);
}

// Without rank 0 nobody knows where the others are.
std::string TcpGroup::own_last_seen() const {
  return where_.empty() ? where_ : "last seen: rank " + std::to_string(place_.rank) + " " + where_;
}

std::vector<std::string> TcpGroup::all_gather(const std::string& text) {
  std::unique_lock lock(mutex_);
  require_well();
  post({MessageKind::kGather, {text}});
  changed_.wait(lock, [this] { return gathered_ || failed(); });
  if (!gathered_) require_well();
  std::vector<std::string> texts = std::move(*gathered_);
  gathered_.reset();
  return texts;
}

void TcpGroup::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  require_well();
  post({MessageKind::kSet, {key, value}});
}

std::string TcpGroup::get(const std::string& key) {
  std::unique_lock lock(mutex_);
  require_well();
  const std::string number = std::to_string(questions_++);
  post({MessageKind::kGet, {number, key}});
  const auto patience = std::chrono::duration<double>(place_.communication_timeout_s);
  changed_.wait_for(lock, patience, [&] { return answers_.count(number) > 0 || failed(); });
  if (const auto answer = answers_.find(number); answer != answers_.end()) {
    std::string value = std::move(answer->second);
    answers_.erase(answer);
    return value;
  }
  require_well();
  throw RunError(ReasonCode::kNccl, "no rank has set '" + key + "' within " +
                                        seconds_text(place_.communication_timeout_s));
}

RankFailure TcpGroup::fail(const RankFailure& failure) {
  std::unique_lock lock(mutex_);
  if (verdict_) return *verdict_;
  RankFailure own = failure;
  own.rank = place_.rank;
  // What another rank's failure made a call here throw is no news.
  const bool news =
      !heard_ || own.code != heard_->code || own.message != error_of(*heard_, ranks_).what();
  post({MessageKind::kAlive, {where_}});  // where it was when it heard of it, or met it itself
  post(news ? failure_message(MessageKind::kFail, own) : Message{MessageKind::kFail, {}});
  changed_.wait_for(lock, std::chrono::duration<double>(kVerdictSeconds),
                    [this] { return verdict_.has_value(); });
  if (!verdict_) {
    const bool heard_of_worse =
        heard_ && (!news || precedence(heard_->code) <= precedence(own.code));
    verdict_ = heard_of_worse ? *heard_ : own;
  }
  return *verdict_;
}

std::optional<RankFailure> TcpGroup::failure() const {
  const std::lock_guard lock(mutex_);
  return verdict_ ? verdict_ : heard_;
}

void TcpGroup::on_failure(std::function<void(const RankFailure&)> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  ::eventfd_write(wake_fd_.get(), 1);
}

void TcpGroup::at(const std::string& where) {
  const std::lock_guard lock(mutex_);
  where_ = where;
}

std::vector<std::string> TcpGroup::whereabouts() const {
  const std::lock_guard lock(mutex_);
  return whereabouts_;
}

void TcpGroup::leave() {
  std::unique_lock lock(mutex_);
  require_well();
  if (!std::exchange(left_, true)) post({MessageKind::kLeave, {}});
  changed_.wait(lock, [this] { return farewell_ || failed(); });
  if (!farewell_) require_well();
}

void TcpGroup::outlast_rank0(double most_s) {
  std::unique_lock lock(mutex_);
  if (place_.rank == 0) return;
  changed_.wait_for(lock, std::chrono::duration<double>(most_s), [this] { return rank0_gone_; });
}

// --- the service thread ----------------------------------------------------------------------

void TcpGroup::serve() {
  try {
    while (serve_once()) {
    }
    for (const auto& connection : connections_) {
      if (connection) connection->flush_within(kGoodbyeSeconds);
    }
  } catch (const std::exception& error) {
    settle({place_.rank, ReasonCode::kInternal, error.what(), {}});
  }
  connections_.clear();  // who waits for this rank learns that it is gone
}

// False when this object is to be closed and all that was posted is on its way.
bool TcpGroup::serve_once() {
  wait();
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i]) take_from(i);
  }
  std::vector<Message> posted;
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(outbox_);
    closing = closing_;
  }
  for (const Message& message : posted) deliver(message);
  keep_alive(steady_seconds());
  deliver_letters();
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] && !connections_[i]->flush()) lose(i, "the process ended");
  }
  deliver_letters();
  call_waker();
  return !closing;
}

void TcpGroup::wait() const {
  std::vector<pollfd> fds = {{wake_fd_.get(), POLLIN, 0}};
  for (const auto& connection : connections_) {
    if (!connection) continue;
    const bool writes = connection->has_to_write();
    fds.push_back({connection->fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  const double due_s =
      std::min(next_alive_s_, coordinator_ ? coordinator_->due_s() : next_alive_s_);
  const double left_ms = std::ceil((due_s - steady_seconds()) * 1000);
  ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left_ms, 0.0, 1e6)));
  eventfd_t count = 0;
  ::eventfd_read(wake_fd_.get(), &count);
}

void TcpGroup::take_from(size_t connection) {
  std::vector<Message> messages;
  std::string why = "the process ended";
  bool open = false;
  try {
    open = connections_[connection]->receive(messages);
    for (const Message& message : messages) {
      if (coordinator_) {
        coordinator_->receive(static_cast<int>(connection), message, steady_seconds());
      } else {
        hear(message);
      }
    }
  } catch (const RunError& error) {
    open = false;
    why = error.what();
  }
  if (!open) lose(connection, why);
}

void TcpGroup::lose(size_t connection, const std::string& why) {
  connections_[connection].reset();
  if (coordinator_) {
    coordinator_->lose(static_cast<int>(connection), steady_seconds(), why);
    return;
  }
  const std::lock_guard lock(mutex_);
  rank0_gone_ = true;
  changed_.notify_all();
  if (farewell_ || verdict_) return;
  const RankFailure failure = {0, ReasonCode::kKilled, why, own_last_seen()};
  // A worse one that was heard of before may be why rank 0 ended.
  verdict_ = heard_ && precedence(heard_->code) <= precedence(failure.code) ? *heard_ : failure;
  if (!heard_) heard_ = verdict_;
}

void TcpGroup::deliver(const Message& message) {
  if (coordinator_) {
    coordinator_->receive(0, message, steady_seconds());
  } else if (connections_.front()) {
    connections_.front()->send(message);
  }
}

void TcpGroup::deliver_letters() {
  if (!coordinator_) return;
  for (Coordinator::Letter& letter : coordinator_->take_letters()) {
    const auto to = static_cast<size_t>(letter.to);
    if (to == 0) {
      hear(letter.message);
    } else if (connections_[to]) {
      connections_[to]->send(letter.message);
    }
  }
}

void TcpGroup::hear(const Message& message) {
  coordinator_heard_s_ = steady_seconds();
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case MessageKind::kGathered:
      gathered_ = message.parts;
      break;
    case MessageKind::kValue:
      if (message.parts.size() == 2) answers_[message.parts[0]] = message.parts[1];
      break;
    case MessageKind::kAlert:
      if (!heard_) heard_ = failure_of(message);
      break;
    case MessageKind::kVerdict:
      verdict_ = failure_of(message);
      if (!heard_) heard_ = verdict_;
      break;
    case MessageKind::kFarewell:
      farewell_ = true;
      break;
    default:
      return;  // a sign of life
  }
  changed_.notify_all();
}

void TcpGroup::keep_alive(double now_s) {
  if (coordinator_) coordinator_->tick(now_s);
  if (now_s < next_alive_s_) return;
  next_alive_s_ = now_s + times_.alive_period_s;
  Message alive = {MessageKind::kAlive, {}};
  {
    const std::lock_guard lock(mutex_);
    alive.parts = {where_};
    if (coordinator_) whereabouts_ = coordinator_->whereabouts();
  }
  if (coordinator_) coordinator_->receive(0, alive, now_s);
  for (const auto& connection : connections_) {
    // Who does not read gets no more of them.
    if (connection && !connection->has_to_write()) connection->send(alive);
  }
  if (coordinator_ || now_s - coordinator_heard_s_ <= times_.communication_timeout_s) return;
  RankFailure failure = {0,
                         ReasonCode::kNccl,
                         "no sign of life for " + seconds_text(times_.communication_timeout_s),
                         {}};
  {
    const std::lock_guard lock(mutex_);
    rank0_gone_ = true;  // or behind a link that is cut: nobody need wait for it
    changed_.notify_all();
    failure.evidence = own_last_seen();
  }
  settle(failure);
}

void TcpGroup::call_waker() {
  std::function<void(const RankFailure&)> wake;
  RankFailure failure;
  {
    const std::lock_guard lock(mutex_);
    if (woken_ || !wake_ || !heard_) return;
    woken_ = true;
    wake = wake_;
    failure = *heard_;
  }
  wake(failure);
}

void TcpGroup::settle(const RankFailure& failure) {
  const std::lock_guard lock(mutex_);
  if (farewell_ || verdict_) return;
  verdict_ = failure;
  if (!heard_) heard_ = failure;
  changed_.notify_all();
}

}  // namespace sftbench
