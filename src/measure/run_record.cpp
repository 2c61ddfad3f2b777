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

void RunRecorder::on_train_end(const TrainEnd& end) {
  record_.end = end;
  record_.complete = true;
}

MeasuredSpan measured_span(const RunRecord& record, int64_t warmup_steps) {
  check(warmup_steps >= 0 && static_cast<size_t>(warmup_steps) < record.steps.size(),
        "a step is left to be measured");
  MeasuredSpan span;
  span.steps.assign(record.steps.begin() + warmup_steps, record.steps.end());
  span.begin_s = span.steps.front().begin_s;
  span.end_s = span.steps.back().end_s;
  for (const StepEvent& step : span.steps) {
    span.tokens += step.tokens;
    span.samples += step.samples;
    span.attention_flops += step.attention_flops;
  }
  return span;
}

}  // namespace sftbench
