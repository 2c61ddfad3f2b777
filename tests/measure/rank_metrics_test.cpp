#include "sftbench/measure/rank_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/measure/measured_properties.h"
#include "sftbench/measure/mfu.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// A rank whose clock says `begin_s` at its first step; one step after the other, each `step_s[i]`
// long, of which `wait_s[i]` it waited.
RankReport rank_of(int rank, double begin_s, const std::vector<double>& step_s,
                   const std::vector<double>& wait_s) {
  RankReport report;
  report.rank = rank;
  report.node = rank / 2;
  report.host = "n" + std::to_string(rank / 2);
  for (size_t i = 0; i < step_s.size(); ++i) {
    RankStep step;
    step.begin_s = begin_s;
    step.end_s = begin_s += step_s[i];
    step.communication_wait_s = wait_s[i];
    step.samples = 2 + rank;
    step.tokens = {.padded = 100 + 10 * rank, .dataset = 90, .loss_bearing = 80 - rank};
    report.steps.push_back(step);
  }
  return report;
}

// Steps of rank 0 with the counts of all ranks.
RunRecord record_of(std::vector<RankReport> ranks) {
  RunRecorder recorder;
  TrainBegin begin;
  begin.parameters_total = 1000;
  begin.parameters_trainable = 1000;
  recorder.on_train_begin(begin);
  for (size_t i = 0; i < ranks.front().steps.size(); ++i) {
    StepEvent event;
    event.begin_s = ranks.front().steps[i].begin_s;
    event.end_s = ranks.front().steps[i].end_s;
    for (const RankReport& rank : ranks) {
      event.samples += rank.steps[i].samples;
      event.tokens += rank.steps[i].tokens;
    }
    TrainControl control;
    recorder.on_step_end(event, control);
  }
  TrainEnd end;
  end.ranks = std::move(ranks);
  recorder.on_train_end(end);
  return recorder.record();
}

TEST(RankMetricsTest, ThroughputIsTheSumOfEachRanksCountsOverItsOwnTime) {
  // The second clock runs elsewhere, and its steps take longer than those of rank 0.
  const RunRecord record =
      record_of({rank_of(0, 10, {9, 2, 2}, {0, 0, 0}), rank_of(1, 5000, {9, 2.5, 2.5}, {0, 0, 0})});
  const MeasuredSpan span = measured_span(record, 1);
  const Json p = measured_properties(span, {}, 2, false);
  EXPECT_DOUBLE_EQ(p["train_runtime"], 4);
  EXPECT_DOUBLE_EQ(p["train_steps_per_second"], 0.5);
  EXPECT_DOUBLE_EQ(p["train_samples_per_second"], 4 / 4.0 + 6 / 5.0);
  EXPECT_DOUBLE_EQ(p["train_tokens_per_second"], 200 / 4.0 + 220 / 5.0);
  EXPECT_DOUBLE_EQ(p["train_tokens_per_gpu_per_second"], (200 / 4.0 + 220 / 5.0) / 2);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second"], 180 / 4.0 + 180 / 5.0);
  EXPECT_DOUBLE_EQ(p["dataset_tokens_per_second_per_gpu"], (180 / 4.0 + 180 / 5.0) / 2);
  const Json rates = token_rates(span, 2);
  EXPECT_DOUBLE_EQ(rates["padded_tokens_per_second"], 94);
  EXPECT_DOUBLE_EQ(rates["padded_tokens_per_second_per_device"], 47);
  EXPECT_DOUBLE_EQ(rates["loss_bearing_tokens_per_second"], 160 / 4.0 + 158 / 5.0);
  EXPECT_DOUBLE_EQ(model_flops_utilization(record.begin, span, 2, {1e6, ""})["value"],
                   6 * 1000 * 47 / 1e6);
}

TEST(RankMetricsTest, ReportsThatContradictTheStepsAreAnError) {
  RunRecord record = record_of({rank_of(0, 0, {1, 1}, {0, 0}), rank_of(1, 0, {1, 1}, {0, 0})});
  EXPECT_EQ(measured_span(record, 0).ranks.size(), 2u);
  record.end.ranks[1].steps[1].tokens.padded += 1;
  EXPECT_THROW(measured_span(record, 0), std::logic_error);
  record.end.ranks[1].steps[1].tokens.padded -= 1;
  record.end.ranks[1].steps[1].samples += 1;
  EXPECT_THROW(measured_span(record, 0), std::logic_error);
  record.end.ranks[1].steps.pop_back();
  EXPECT_THROW(measured_span(record, 0), std::logic_error);
}

TEST(RankMetricsTest, AWarmupThatLeavesNothingIsABug) {
  const RankReport rank = rank_of(0, 0, {1, 1}, {0, 0});
  EXPECT_THROW(communication_json({rank}, 2), std::logic_error);
  EXPECT_THROW(stragglers({rank, rank_of(1, 0, {1, 1, 1}, {0, 0, 0})}, 0), std::logic_error);
  EXPECT_THROW(span_of(rank, 2), std::logic_error);
  EXPECT_THROW(span_of(rank, -1), std::logic_error);
  EXPECT_DOUBLE_EQ(span_of(rank, 0).seconds, 2);
}

TEST(RankMetricsTest, ARankThatOthersWaitForIsNamed) {
  // All steps take equally long; the others wait for rank 2.
  const std::vector<double> steps(5, 1.0);
  const std::vector<double> waits(5, 0.10);
  const std::vector<double> none(5, 0.0);
  EXPECT_THAT(stragglers({rank_of(0, 0, steps, waits), rank_of(1, 0, steps, waits),
                          rank_of(2, 0, steps, none), rank_of(3, 0, steps, waits)},
                         0),
              ElementsAre(2));
  // Of two ranks the faster one is what is usual.
  EXPECT_THAT(stragglers({rank_of(0, 0, steps, none), rank_of(1, 0, steps, waits)}, 0),
              ElementsAre(0));
}

TEST(RankMetricsTest, NobodyIsNamedForHiccupsLongEntriesOrTheCommonCost) {
  const std::vector<double> steps(5, 1.0);
  // A different rank is late in each step: entries differ in length.
  EXPECT_THAT(stragglers({rank_of(0, 0, steps, {0.0, 0.3, 0.3, 0.3, 0.3}),
                          rank_of(1, 0, steps, {0.3, 0.0, 0.3, 0.3, 0.3}),
                          rank_of(2, 0, steps, {0.3, 0.3, 0.0, 0.0, 0.3})},
                         0),
              IsEmpty());
  // 4 % is noise.
  EXPECT_THAT(stragglers({rank_of(0, 0, steps, std::vector<double>(5, 0.00)),
                          rank_of(1, 0, steps, std::vector<double>(5, 0.0385))},
                         0),
              IsEmpty());
  // A rank is one from above the limit on.
  RankReport usual, limit;
  for (int i = 0; i < 3; ++i) {
    usual.steps.emplace_back().end_s = 1;
    limit.steps.emplace_back().end_s = kStragglerRatio;
  }
  limit.rank = 1;
  EXPECT_THAT(stragglers({usual, limit}, 0), IsEmpty());
  for (RankStep& step : limit.steps) step.end_s = 1.0501;
  EXPECT_THAT(stragglers({usual, limit}, 0), ElementsAre(1));
  // Who did nothing but wait is compared with nobody.
  for (RankStep& step : usual.steps) step.communication_wait_s = 1;
  EXPECT_THAT(stragglers({usual, limit}, 0), IsEmpty());
  // All steps of the warm-up were late, those after it were not.
  EXPECT_THAT(stragglers({rank_of(0, 0, {9, 9, 1, 1, 1}, {0, 0, 0.1, 0.1, 0.1}),
                          rank_of(1, 0, {9, 9, 1, 1, 1}, {8, 8, 0.1, 0.1, 0.1})},
                         2),
              IsEmpty());
  // Two steps are too few to judge by.
  EXPECT_THAT(stragglers({rank_of(0, 0, {1, 1}, {0, 0}), rank_of(1, 0, {1, 1}, {0.5, 0.5})}, 0),
              IsEmpty());
  EXPECT_THAT(stragglers({rank_of(0, 0, steps, steps)}, 0), IsEmpty());
}

TEST(RankMetricsTest, EachRankSaysItsSpreadItsWaitingAndItsBytes) {
  RankReport report = rank_of(3, 0, {9, 2, 4, 3}, {0, 1, 0.5, 0.75});
  report.parameter_bytes = 11;
  report.gradient_bytes = 12;
  report.optimizer_state_bytes = 13;
  report.gathered_peak_bytes = 14;
  report.host_peak_rss_bytes = 15;
  const Json rank = ranks_json({report}, 1).at(0);
  EXPECT_EQ(rank["rank"], 3);
  EXPECT_EQ(rank["node"], 1);
  EXPECT_EQ(rank["host"], "n1");
  EXPECT_EQ(rank["step_seconds"], Json::parse(R"({"min": 2.0, "median": 3.0, "max": 4.0})"));
  EXPECT_DOUBLE_EQ(rank["busy_seconds"], 2.25);  // of 1, 3.5, 2.25
  EXPECT_DOUBLE_EQ(rank["wait_fraction"], 2.25 / 9);
  EXPECT_EQ(rank["samples"], 15);
  EXPECT_EQ(rank["tokens"], Json::parse(R"({"padded": 390, "dataset": 270, "loss_bearing": 231})"));
  EXPECT_DOUBLE_EQ(rank["padded_tokens_per_second"], 390 / 9.0);
  EXPECT_EQ(rank["memory_bytes"], Json::parse(R"({
    "parameters": 11, "gradients": 12, "optimizer_state": 13, "gathered_peak": 14,
    "device_peak_allocated": null, "device_peak_reserved": null, "host_peak_rss": 15})"));
  report.device_peak_allocated_bytes = 0;
  report.device_peak_reserved_bytes = 16;
  const Json memory = ranks_json({report}, 1).at(0).at("memory_bytes");
  EXPECT_EQ(memory["device_peak_allocated"], 0) << "a device of which nothing was taken";
  EXPECT_EQ(memory["device_peak_reserved"], 16);
}

TEST(RankMetricsTest, CommunicationIsPerStepOfAllStepsAndNamesGroupAndOperation) {
  RankReport first = rank_of(0, 0, {4, 1, 1, 2}, {4, 0.5, 0.25, 0.25});
  first.collectives = {{"shards", "all_gather", 8, 4000, 2.0},
                       {"replicas", "all_reduce", 4, 400, 0.5},
                       {"world", "barrier", 0, 0, 0}};
  RankReport second = rank_of(1, 0, {4, 1, 1, 2}, {4, 0, 0, 0});
  second.collectives = {{"shards", "all_gather", 8, 4400, 1.0},
                        {"replicas", "all_reduce", 4, 400, 1.5}};
  const Json c = communication_json({first, second}, 1);
  EXPECT_EQ(c["wait_fraction"], Json::parse(R"({"min": 0.0, "mean": 0.125, "max": 0.25})"));
  EXPECT_DOUBLE_EQ(c["sent_bytes_per_step"], 1200);
  EXPECT_EQ(c["stragglers"], Json::parse("[1]"));
  EXPECT_EQ(c["collectives"], Json::parse(R"([
    {"group": "replicas", "operation": "all_reduce", "calls_per_step": 1.0,
     "sent_bytes_per_step": {"min": 100.0, "max": 100.0}, "seconds_per_step": 0.375},
    {"group": "shards", "operation": "all_gather", "calls_per_step": 2.0,
     "sent_bytes_per_step": {"min": 1000.0, "max": 1100.0}, "seconds_per_step": 0.5}])"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
