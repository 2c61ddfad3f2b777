#include "sftbench/launch/rank_reply.h"

#include <unistd.h>

#include <cerrno>

#include "sftbench/base/json_text.h"
#include "sftbench/measure/event_json.h"

namespace sftbench {
namespace {

ReasonCode reason_code(const std::string& name) {
  for (int code = 0; code <= static_cast<int>(ReasonCode::kInternal); ++code) {
    if (to_string(static_cast<ReasonCode>(code)) == name) return static_cast<ReasonCode>(code);
  }
  return ReasonCode::kInternal;
}

}  // namespace

void RankReply::environment(const Json& environment) const {
  if (rank_ == 0) send("environment", environment);
}

void RankReply::whereabouts(const std::vector<std::string>& whereabouts) const {
  send("whereabouts", whereabouts);
}

void RankReply::on_load(const LoadEvent& load) {
  if (rank_ == 0) send("load", to_json(load));
}

void RankReply::on_train_begin(const TrainBegin& begin) {
  if (rank_ == 0) {
    send("begin", to_json(begin));
  } else {
    send("rank_step", 0);
  }
}

void RankReply::on_step_end(const StepEvent& event, TrainControl& control) {
  if (rank_ != 0) return send("rank_step", event.step);
  send("step", to_json(event));
  if (wait_for_answer() == kStop) control.stop = true;
}

void RankReply::on_evaluation(const EvaluationEvent& event) {
  if (rank_ == 0) send("evaluation", to_json(event));
}

void RankReply::on_train_end(const TrainEnd& end) {
  if (rank_ == 0) send("end", to_json(end));
}

void RankReply::failed(const RankFailure& failure) const {
  send("failure", to_json(failure));
}

void RankReply::done() const {
  send("done", true);
}

// Nothing is lost: when nobody reads any more, this process is about to be ended anyway.
void RankReply::send(const char* kind, const Json& content) const {
  const std::string line = json_text(Json{{kind, content}}) + "\n";
  const std::lock_guard lock(mutex_);
  for (size_t written = 0; written < line.size();) {
    const ssize_t put = ::write(events_fd_, line.data() + written, line.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return;
    written += static_cast<size_t>(put);
  }
}

char RankReply::wait_for_answer() const {
  char answer = kStop;
  while (::read(control_fd_, &answer, 1) < 0 && errno == EINTR) {
  }
  return answer;
}

Json to_json(const RankFailure& failure) {
  return {{"rank", failure.rank},
          {"code", to_string(failure.code)},
          {"message", failure.message},
          {"evidence", failure.evidence}};
}

RankFailure rank_failure_from_json(const Json& json) {
  return {json.at("rank").get<int>(), reason_code(json.at("code").get<std::string>()),
          json.at("message").get<std::string>(), json.at("evidence").get<std::string>()};
}

}  // namespace sftbench
