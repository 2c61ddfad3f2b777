#include "sftbench/measure/run_record.h"

#include <gtest/gtest.h>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(RunRecorderTest, KeepsWhatARunTellsUntilAnotherBegins) {
  RunRecorder recorder;
  TrainControl control;
  while (process_age_seconds() == 0) continue;  // it counts hundredths of a second
  for (const int64_t steps : {3, 2}) {
    TrainBegin begin;
    begin.total_steps = steps;
    recorder.on_train_begin(begin);
    EXPECT_FALSE(recorder.record().complete);
    EXPECT_TRUE(recorder.record().steps.empty());
    for (int64_t step = 0; step < steps; ++step) recorder.on_step_end({}, control);
    recorder.on_evaluation({});
    TrainEnd end;
    end.steps = steps;
    recorder.on_train_end(end);
    EXPECT_TRUE(recorder.record().complete);
    EXPECT_EQ(recorder.record().begin.total_steps, steps);
    EXPECT_EQ(recorder.record().steps.size(), static_cast<size_t>(steps));
    EXPECT_EQ(recorder.record().evaluations.size(), 1u);
    EXPECT_EQ(recorder.record().end.steps, steps);
    EXPECT_GT(recorder.record().first_step_process_age_s, 0);
  }
}

// Steps of 2 s. Before the second one the run wrote files for 3 s, before the third one for 0.5 s.
TEST(MeasuredSpanTest, PausesBetweenMeasuredStepsAreNoTimeOfTraining) {
  const double begins[] = {10, 15, 17.5}, pauses[] = {0, 3, 0.5};
  RunRecord record;
  RankReport rank;
  for (int i = 0; i < 3; ++i) {
    StepEvent event;
    RankStep step;
    event.begin_s = step.begin_s = begins[i];
    event.end_s = step.end_s = begins[i] + 2;
    event.pause_s = step.pause_s = pauses[i];
    record.steps.push_back(event);
    rank.steps.push_back(step);
  }
  EXPECT_DOUBLE_EQ(measured_span(record, 0).seconds(), 3 * 2);
  EXPECT_DOUBLE_EQ(span_of(rank, 0).seconds, 3 * 2);
  // The pause before the first measured step is none between them.
  EXPECT_DOUBLE_EQ(measured_span(record, 1).seconds(), 2 * 2);
  EXPECT_DOUBLE_EQ(span_of(rank, 1).seconds, 2 * 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
