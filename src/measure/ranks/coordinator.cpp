#include "ranks/coordinator.h"

#include <algorithm>
#include <limits>

#include "ranks/rendezvous.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

// A living rank is heard of once in each period; one that was missed for so many is not counted on.
constexpr double kMissedPeriods = 3;

[[noreturn]] void out_of_turn(int rank) {
  throw RunError(ReasonCode::kInternal,
                 "rank " + std::to_string(rank) + " sent what nobody expects of it now");
}

}  // namespace

Coordinator::Coordinator(int world_size, const CoordinatorTimes& times, double now_s)
    : times_(times), members_(static_cast<size_t>(world_size)) {
  for (Member& member : members_) member.heard_s = now_s;
}

void Coordinator::receive(int from, const Message& message, double now_s) {
  Member& member = members_[static_cast<size_t>(from)];
  member.heard_s = now_s;
  switch (message.kind) {
    case MessageKind::kAlive:
      if (!message.parts.empty()) member.where = terminal_line(message.parts.front());
      return;
    case MessageKind::kGather:
      return gather(from, message, now_s);
    case MessageKind::kSet:
    case MessageKind::kGet:
      return answer(from, message);
    case MessageKind::kFail:
      return report(from, message, now_s);
    case MessageKind::kLeave:
      return leave(from);
    default:
      out_of_turn(from);
  }
}

void Coordinator::gather(int from, const Message& message, double now_s) {
  std::optional<std::string>& text = members_[static_cast<size_t>(from)].text;
  if (text || message.parts.size() != 1) out_of_turn(from);
  if (std::none_of(members_.begin(), members_.end(), [](const Member& m) { return !!m.text; })) {
    exchange_begin_s_ = now_s;
  }
  text = message.parts.front();
  if (!std::all_of(members_.begin(), members_.end(), [](const Member& m) { return !!m.text; })) {
    return;
  }
  Message gathered = {MessageKind::kGathered, {}};
  for (Member& member : members_) {
    gathered.parts.push_back(std::move(*member.text));
    member.text.reset();
  }
  tell_all(gathered);
}

// Sets and gets: whichever of the two comes first waits for the other.
void Coordinator::answer(int from, const Message& message) {
  if (message.parts.size() != 2) out_of_turn(from);
  if (message.kind == MessageKind::kGet) {
    const std::string& key = message.parts[1];
    open_questions_.emplace(key, Question{from, message.parts[0]});
    if (values_.count(key) == 0) return;
  } else {
    values_[message.parts[0]] = message.parts[1];
  }
  const std::string& key = message.parts[message.kind == MessageKind::kGet ? 1 : 0];
  const auto [first, last] = open_questions_.equal_range(key);
  for (auto question = first; question != last; ++question) {
    letters_.push_back(
        {question->second.rank, {MessageKind::kValue, {question->second.number, values_.at(key)}}});
  }
  open_questions_.erase(first, last);
}

void Coordinator::report(int from, const Message& message, double now_s) {
  members_[static_cast<size_t>(from)].reported = true;
  if (!message.parts.empty()) {
    RankFailure failure = failure_of(message);
    failure.rank = from;
    blame(failure, false, now_s);
  }
  decide(now_s);
}

void Coordinator::leave(int from) {
  members_[static_cast<size_t>(from)].left = true;
  if (!causes_.empty() || all_left_) return;
  all_left_ = std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.left; });
  if (all_left_) tell_all({MessageKind::kFarewell, {}});
}

void Coordinator::lose(int rank, double now_s, const std::string& why) {
  Member& member = members_[static_cast<size_t>(rank)];
  if (all_left_ || member.lost) return;
  member.lost = true;
  if (!member.reported) blame({rank, ReasonCode::kKilled, why, {}}, true, now_s);
  decide(now_s);
}

void Coordinator::blame(const RankFailure& failure, bool seen, double now_s) {
  if (all_left_ || decided_) return;
  causes_.push_back({failure, seen});
  if (causes_.size() > 1) return;
  decide_by_s_ = now_s + times_.grace_s;
  tell_all(failure_message(MessageKind::kAlert, failure));
}

void Coordinator::tick(double now_s) {
  if (all_left_ || decided_) return;
  if (causes_.empty()) {
    look_for_silent(now_s);
    look_for_absent(now_s);
  }
  decide(now_s);
}

std::vector<int> Coordinator::silent(double longer_than_s, double now_s) const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (!member.lost && !member.reported && now_s - member.heard_s > longer_than_s) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

void Coordinator::look_for_silent(double now_s) {
  for (const int rank : silent(times_.communication_timeout_s, now_s)) {
    blame({rank,
           ReasonCode::kNccl,
           "no sign of life for " + seconds_text(times_.communication_timeout_s),
           {}},
          true, now_s);
  }
}

void Coordinator::look_for_absent(double now_s) {
  const auto came = [](const Member& member) { return member.text.has_value(); };
  if (std::none_of(members_.begin(), members_.end(), came)) return;
  if (now_s - exchange_begin_s_ < times_.communication_timeout_s) return;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (came(members_[rank])) continue;
    blame({static_cast<int>(rank), ReasonCode::kNccl,
           "it did not join the other ranks within " + seconds_text(times_.communication_timeout_s),
           last_seen()},
          false, now_s);  // perhaps it waits, too: for one that is silent
  }
}

std::vector<std::string> Coordinator::whereabouts() const {
  std::vector<std::string> places;
  for (const Member& member : members_) places.push_back(member.where);
  return places;
}

// A rank says now and then where it is, and a lost one may have gone on since.
std::string Coordinator::last_seen() const {
  std::vector<std::string> seen = whereabouts();
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const bool silenced = members_[rank].lost && !members_[rank].reported;
    if (silenced && !seen[rank].empty()) seen[rank] += " or later";
  }
  const std::string places = whereabouts_text(seen);
  return places.empty() ? places : "last seen: " + places;
}

void Coordinator::decide(double now_s) {
  if (decided_ || causes_.empty()) return;
  const bool all_spoke = std::all_of(members_.begin(), members_.end(),
                                     [](const Member& m) { return m.reported || m.lost; });
  if (!all_spoke && now_s < decide_by_s_) return;
  // Operations with a rank that was stopped pass their deadline just when its silence does.
  if (worst()->failure.code == ReasonCode::kNccl && !worst()->seen) {
    for (const int rank : silent(kMissedPeriods * times_.alive_period_s, now_s)) {
      const double silence_s = now_s - members_[static_cast<size_t>(rank)].heard_s;
      causes_.push_back(
          {{rank, ReasonCode::kNccl,
            "no sign of life for " + std::to_string(static_cast<int64_t>(silence_s)) + " s",
            worst()->failure.message},
           true});
    }
  }
  decided_ = true;
  RankFailure verdict = worst()->failure;
  if (const std::string places = last_seen(); worst()->seen && !places.empty()) {
    // Now: who has reported has said anew where it is.
    verdict.evidence += (verdict.evidence.empty() ? "" : "; ") + places;
  }
  tell_all(failure_message(MessageKind::kVerdict, verdict));
}

const Coordinator::Cause* Coordinator::worst() const {
  // Among equals the first: what came later may be its consequence.
  // Launchers ask all others to end when one has: that they were asked is rarely the cause.
  const auto weight = [](const Cause& cause) {
    if (cause.failure.asked) return 2 * precedence(ReasonCode::kNccl) + 1;
    const bool hearsay = cause.failure.code == ReasonCode::kNccl && !cause.seen;
    return 2 * precedence(cause.failure.code) + (hearsay ? 1 : 0);
  };
  return &*std::min_element(causes_.begin(), causes_.end(),
                            [&](const Cause& a, const Cause& b) { return weight(a) < weight(b); });
}

double Coordinator::due_s() const {
  return causes_.empty() || decided_ ? std::numeric_limits<double>::infinity() : decide_by_s_;
}

void Coordinator::tell_all(const Message& message) {
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].lost) letters_.push_back({static_cast<int>(rank), message});
  }
}

}  // namespace sftbench
