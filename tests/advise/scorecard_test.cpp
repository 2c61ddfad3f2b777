// The scorecard's arithmetic, and the cost model against rows that were never fitted.
#include "sftbench/advise/scorecard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/advise/foreign_table.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(ScorecardTest, SummariesAreMediansOfSizesAndOfSigns) {
  const ErrorSummary s = summarize({-0.3, 0.1, 0.05, -0.15, 0.02});
  EXPECT_EQ(s.rows, 5);
  EXPECT_DOUBLE_EQ(s.median, 0.1);
  EXPECT_DOUBLE_EQ(s.bias, 0.02);
  EXPECT_NEAR(s.p90, 0.15 + 0.6 * 0.15, 1e-12);
  EXPECT_DOUBLE_EQ(s.within_10, 0.6);
  EXPECT_DOUBLE_EQ(s.within_20, 0.8);
}

// Residuals that are all 0 make an interval of nothing but the prediction.
TEST(ScorecardTest, AnIntervalHoldsItsEnds) {
  std::vector<Residual> residuals;
  ScoredRow row;
  row.at.machine = "m";
  row.at.stack = "s";
  row.at.method = "full";
  for (int i = 0; i < 60; ++i) {
    Residual residual{row.at, i % 2 == 0 ? Figure::kTime : Figure::kMemory, false, false, 0};
    residual.at.model = "model" + std::to_string(i % 3);
    residuals.push_back(residual);
  }
  const ResidualTable table(residuals, {});
  row.at.model = "another";
  const auto covered = [&](std::optional<double> error) {
    row.time_error = row.memory_error = error;
    std::vector<ScoredRow> rows = {row};
    judge_coverage(rows, table);
    EXPECT_EQ(rows[0].memory_covered, error ? std::optional(*error == 0) : std::nullopt);
    return rows[0].time_covered;
  };
  EXPECT_EQ(covered(0), true);
  EXPECT_EQ(covered(0.001), false);
  EXPECT_EQ(covered(-0.001), false);
  EXPECT_EQ(covered(std::nullopt), std::nullopt);
  row.fitted = true;
  EXPECT_EQ(covered(0), std::nullopt) << "constants come from it";
}

// 42 rows of Llama 3 8B on 1, 2 and 4 A100s: full, LoRA and GPTQ-LoRA. Constants of the A100 come
// from Mistral 7B alone.
TEST(ScorecardTest, AModelThatWasNotFittedIsPredictedWithinTheClaim) {
  ImportOptions options;
  options.layout = "fms-acceleration";
  options.stack = "fms-hf-tuning";
  const std::string table =
      std::string(SFTBENCH_SOURCE_DIR) + "/bench/truth/fms-acceleration-a100_80gb_liger.csv";
  std::vector<Evidence> rows;
  for (const Evidence& row : import_table(table, options, Catalog::shipped()).rows) {
    if (row.inputs.at("model_name") == "llama3-8b") rows.push_back(row);
  }
  const MachineOverrides overrides;
  Oracle oracle({}, {}, overrides, Catalog::shipped());
  std::vector<double> time, memory;
  for (const ScoredRow& row : score(rows, oracle, Catalog::shipped())) {
    EXPECT_EQ(row.problem, "");
    if (row.time_error) time.push_back(*row.time_error);
    if (row.memory_error) memory.push_back(*row.memory_error);
  }
  ASSERT_EQ(time.size(), 42u);
  EXPECT_LT(summarize(time).median, 0.05);
  EXPECT_GE(summarize(time).within_20, 0.95);
  EXPECT_LT(summarize(memory).median, 0.03);
}

TEST(ScorecardTest, WhatCannotBePredictedSaysWhyAndCountsNowhere) {
  Evidence row;
  row.source = "t.csv:1";
  row.stack = "fms-hf-tuning";
  row.experiment = "finetune_full_benchmark-v1.0.0";
  row.outcome = EvidenceOutcome::kValid;
  row.tokens_per_second = 100;
  row.inputs = {{"model_name", "llama3-8b"},
                {"gpu_model", "Somebodys-GPU"},
                {"number_gpus", 1},
                {"model_max_length", 512},
                {"batch_size", 4}};
  const MachineOverrides overrides;
  Oracle oracle({}, {}, overrides, Catalog::shipped());
  const std::vector<ScoredRow> scored = score({row}, oracle, Catalog::shipped());
  EXPECT_THAT(scored.front().problem, ::testing::HasSubstr("unknown GPU 'Somebodys-GPU'"));
  EXPECT_TRUE(score_table(scored).rows.empty());
  EXPECT_EQ(verdict_table(scored).rows.front().back(), 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
