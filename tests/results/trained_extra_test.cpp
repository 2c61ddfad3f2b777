#include "sftbench/results/trained_extra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three steps of 2, 3 and 5 seconds, one after the other.
RunRecord record() {
  RunRecord record;
  record.begin.parameters_total = record.begin.parameters_trainable = 10;
  record.begin.total_steps = 9;
  double now_s = 100;
  for (const double seconds : {2, 3, 5}) {
    StepEvent step;
    step.begin_s = now_s;
    step.end_s = now_s += seconds;
    step.loss = seconds / 2;
    step.grad_norm = seconds * 2;
    step.learning_rate = seconds / 100;
    step.samples = 2;
    step.tokens = {.padded = 100, .dataset = 80, .loss_bearing = 60};
    record.steps.push_back(step);
  }
  return record;
}

Json extra_of(const RunRecord& record, int64_t warmup_steps = 1) {
  return trained_extra({},
                       {record, warmup_steps, measured_span(record, warmup_steps), {}, 1, {}, {}});
}

TEST(TrainedExtraTest, SeriesHaveEveryStep) {
  RunRecord run = record();
  run.steps[1].update_skipped = true;
  const Json extra = extra_of(run);
  EXPECT_EQ(extra["step_seconds"], Json({2.0, 3.0, 5.0}));
  EXPECT_EQ(extra["loss"], Json({1.0, 1.5, 2.5}));
  EXPECT_EQ(extra["grad_norm"], Json({4.0, 6.0, 10.0}));
  EXPECT_EQ(extra["learning_rate"], Json({0.02, 0.03, 0.05}));
  EXPECT_EQ(extra["skipped_updates"], 1);
  EXPECT_EQ(extra["warmup_steps"], 1);
  EXPECT_EQ(extra["tokens"]["padded"], 200) << "of what was measured";
  for (const char* absent : {"phase_seconds", "evaluation", "ranks", "experts", "resumed", "saved",
                             "unsaved", "stopped_when_known"})
    EXPECT_FALSE(extra.contains(absent)) << absent;
}

TEST(TrainedExtraTest, PhasesAreMeansOfTheMeasuredStepsAndTheRestIsWhatTheyLeave) {
  RunRecord run = record();
  run.steps[0].phases = {9, 9, 9, 9};
  run.steps[1].phases = {0.25, 1, 1.25, 0.25};
  run.steps[2].phases = {0.75, 1, 1.75, 0.75};
  EXPECT_EQ(
      extra_of(run)["phase_seconds"],
      Json(
          {{"data", 0.5}, {"forward", 1.0}, {"backward", 1.5}, {"optimizer", 0.5}, {"rest", 0.5}}));
  EXPECT_EQ(extra_of(run, 0)["phase_seconds"]["rest"], 0)
      << "clocks may disagree, and no time is negative";
  run.steps[2].phases.forward_s = -1;
  EXPECT_FALSE(extra_of(run).contains("phase_seconds")) << "a step was not timed";
}

TEST(TrainedExtraTest, TheLastEvaluationIsGivenWithThePerplexityOfItsTokens) {
  RunRecord run = record();
  run.evaluations = {{.step = 1,
                      .loss = 3,
                      .token_loss = std::log(8.0),
                      .entries = 4,
                      .tokens = 40,
                      .seconds = 0.5},
                     {.step = 3,
                      .loss = 2,
                      .token_loss = std::log(4.0),
                      .entries = 4,
                      .tokens = 40,
                      .seconds = 0.25}};
  run.end.best_step = 3;
  run.end.best_loss = 2;
  const Json evaluation = extra_of(run)["evaluation"];
  EXPECT_DOUBLE_EQ(evaluation["perplexity"], 4);
  EXPECT_EQ(evaluation["loss"], 2.0);
  EXPECT_EQ(evaluation["steps"], Json({1, 3}));
  EXPECT_EQ(evaluation["losses"], Json({3.0, 2.0}));
  EXPECT_EQ(evaluation["best_step"], 3);
}

TEST(TrainedExtraTest, WarningsSayWhereMemoryRanShortAndWhereNothingWasLearned) {
  RunRecord run = record();
  run.begin.warnings = {"one"};
  EXPECT_EQ(extra_of(run)["warnings"], Json({"one"}));
  run.steps[0].tokens.loss_bearing = 0;
  EXPECT_EQ(extra_of(run)["data"]["steps_without_loss"], 1);
  EXPECT_THAT(extra_of(run)["warnings"].at(1), HasSubstr("1 step has no position"));
  run.steps[1].tokens.loss_bearing = 0;
  EXPECT_THAT(extra_of(run)["warnings"].at(1), HasSubstr("2 steps have no position"));
  run = record();
  run.end.ranks.resize(1);
  run.end.ranks[0].steps = {{100, 102, 0, 2, {100, 80, 60}},
                            {102, 105, 0, 2, {100, 80, 60}},
                            {105, 110, 0, 2, {100, 80, 60}}};
  run.end.ranks[0].parameter_bytes = 11;
  for (const int64_t none : {-1, 0}) {
    run.end.ranks[0].allocation_retries = none;
    EXPECT_TRUE(extra_of(run)["warnings"].empty());
  }
  EXPECT_EQ(extra_of(run)["memory_bytes"]["allocation_retries"], Json({0}));
  EXPECT_EQ(extra_of(run)["memory_bytes"]["parameters"], Json({11}));
  EXPECT_FALSE(extra_of(run)["memory_bytes"].contains("host_peak_tensors")) << "-1: not known";
  run.end.ranks[0].allocation_retries = 3;
  EXPECT_THAT(extra_of(run)["warnings"].at(0), HasSubstr("ran short 3 times"));
  run.end.ranks[0].host_peak_tensor_bytes = 0;
  EXPECT_EQ(extra_of(run)["memory_bytes"]["host_peak_tensors"], Json({0}));
}

TEST(TrainedExtraTest, AJobOfSeveralRanksSaysHowTheySharedAndWhatTheFullestHolds) {
  RunRecord run = record();
  for (int rank = 0; rank < 2; ++rank) {
    RankReport report;
    report.rank = rank;
    for (const StepEvent& step : run.steps)
      report.steps.push_back({step.begin_s, step.end_s, 0, 1, {50, 40, 30}});
    report.parameter_bytes = 10 + rank;
    report.gradient_bytes = 20 - rank;
    run.end.ranks.push_back(report);
  }
  EXPECT_FALSE(extra_of(run).contains("sharding"));
  TrainingJob job;
  job.device.ranks = 2;
  job.parallel.strategy = Strategy::kFullShard;
  const Json extra = trained_extra(job, {run, 1, measured_span(run, 1), {}, 2, {}, KnownRate{}});
  EXPECT_EQ(extra["ranks"].size(), 2u);
  EXPECT_EQ(extra["sharding"]["strategy"], "FULL_SHARD");
  EXPECT_EQ(extra["sharding"]["parameter_bytes"], 11);
  EXPECT_EQ(extra["sharding"]["gradient_bytes"], 20);
  EXPECT_EQ(extra["stopped_when_known"]["planned_steps"], 9);
  EXPECT_TRUE(extra["sharding"]["reduce_dtype"].is_null());
}

TEST(TrainedExtraTest, FilesAreNamedWithTheirSteps) {
  RunRecord run = record();
  run.begin.resumed_from = "checkpoint-4";
  run.begin.resumed_step = 4;
  run.end.saved = {{"out", "FULL", 7, 100, 0.5}};
  run.end.unsaved = {{"out2", 5, "full"}};
  const Json extra = extra_of(run);
  EXPECT_EQ(extra["resumed"], Json({{"from", "checkpoint-4"}, {"step", 4}}));
  EXPECT_EQ(extra["saved"].at(0)["bytes"], 100);
  EXPECT_EQ(extra["unsaved"].at(0)["problem"], "full");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
