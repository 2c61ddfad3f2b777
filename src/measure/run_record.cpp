#include "sftbench/measure/run_record.h"

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"

namespace sftbench {

void RunRecorder::on_train_begin(const TrainBegin& begin) {
  record_ = {};
  record_.begin = begin;
}

void RunRecorder::on_step_end(const StepEvent& event, TrainControl&) {
  if (record_.steps.empty()) record_.first_step_process_age_s = process_age_seconds();
  record_.steps.push_back(event);
}

void RunRecorder::on_evaluation(const EvaluationEvent& event) {
  record_.evaluations.push_back(event);
}

void RunRecorder::on_train_end(const TrainEnd& end) {
  record_.end = end;
  record_.complete = true;
}

RankSpan span_of(const RankReport& rank, int64_t warmup_steps) {
  check(warmup_steps >= 0 && static_cast<size_t>(warmup_steps) < rank.steps.size(),
        "a step is left to be measured");
  RankSpan span;
  span.seconds = rank.steps.back().end_s - rank.steps[static_cast<size_t>(warmup_steps)].begin_s;
  for (size_t i = static_cast<size_t>(warmup_steps); i < rank.steps.size(); ++i) {
    if (i > static_cast<size_t>(warmup_steps)) span.seconds -= rank.steps[i].pause_s;
    span.samples += rank.steps[i].samples;
    span.tokens += rank.steps[i].tokens;
  }
  return span;
}

MeasuredSpan measured_span(const RunRecord& record, int64_t warmup_steps) {
  check(warmup_steps >= 0 && static_cast<size_t>(warmup_steps) < record.steps.size(),
        "a step is left to be measured");
  MeasuredSpan span;
  span.steps.assign(record.steps.begin() + warmup_steps, record.steps.end());
  span.begin_s = span.steps.front().begin_s;
  span.end_s = span.steps.back().end_s;
  span.pause_s = -span.steps.front().pause_s;
  for (const StepEvent& step : span.steps) {
    span.pause_s += step.pause_s;
    span.tokens += step.tokens;
    span.samples += step.samples;
    span.attention_flops += step.attention_flops;
  }
  int64_t samples = 0;
  int64_t positions = 0;
  for (const RankReport& rank : record.end.ranks) {
    check(rank.steps.size() == record.steps.size(), "every rank reports every step");
    span.ranks.push_back(span_of(rank, warmup_steps));
    samples += span.ranks.back().samples;
    positions += span.ranks.back().tokens.padded;
  }
  check(span.ranks.empty() || (samples == span.samples && positions == span.tokens.padded),
        "the ranks' counts add up to the steps'");
  return span;
}

}  // namespace sftbench
