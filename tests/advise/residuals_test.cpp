// The shipped residuals are those of the published tables, and intervals that rest on them hold for
// models that they know nothing of.
#include "sftbench/advise/residuals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "fit_residuals.h"
#include "sftbench/advise/foreign_table.h"
#include "sftbench/advise/scorecard.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kTruth = fs::path(SFTBENCH_SOURCE_DIR) / "bench" / "truth";

// As bench/truth/import.sh.
ActuatorSettings settings_of_truth() {
  ActuatorSettings settings;
  for (const auto& model : fs::directory_iterator(kTruth / "models"))
    settings.model_map[model.path().filename().string()]["Vanilla"] = model.path().string();
  return settings;
}

std::vector<Evidence> truth() {
  ImportOptions fms;
  fms.layout = "fms-acceleration";
  fms.stack = "fms-hf-tuning";
  fms.extra_models = settings_of_truth().model_names();
  ImportOptions foundry = fms;
  foundry.layout = "csv";
  foundry.stack = "llm-foundry";
  foundry.constants = {{"experiment", "full"},
                       {"torch_dtype", "float32"},
                       {"bf16", "true"},
                       {"distributed_backend", "FSDP"}};
  foundry.columns = {{"model_name", "model"},
                     {"model_max_length", "length"},
                     {"number_gpus", "gpus"},
                     {"number_nodes", "nodes"},
                     {"gpu_model", "gpu"},
                     {"batch_size", "batch"},
                     {"gradient_accumulation_steps", "accumulation"},
                     {"tokens_per_second", "rate"},
                     {"fsdp_sharding_strategy", "strategy"},
                     {"gradient_checkpointing", "checkpointing"}};
  std::vector<Evidence> rows;
  for (const char* table :
       {"fms-acceleration-a100_80gb.csv", "fms-acceleration-a100_80gb_granite.csv",
        "fms-acceleration-a100_80gb_liger.csv", "llm-foundry.csv"}) {
    const ImportOptions& options = std::string(table) == "llm-foundry.csv" ? foundry : fms;
    for (Evidence& row : import_table((kTruth / table).string(), options, Catalog::shipped()).rows)
      rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ScoredRow> scored_truth() {
  static const std::vector<ScoredRow> kRows = [] {
    const MachineOverrides overrides;
    Oracle oracle(settings_of_truth(), {}, overrides, Catalog::shipped());
    return score(truth(), oracle, Catalog::shipped());
  }();
  return kRows;
}

PredictedCase case_on(const std::string& machine, const std::string& stack) {
  PredictedCase at;
  at.machine = machine;
  at.stack = stack;
  at.method = "full";
  at.model = "llama3.1-8b";
  at.length = 4096;
  return at;
}

const std::string kA100 = "NVIDIA-A100-SXM4-80GB";

TEST(ResidualsTest, TheShippedOnesAreThoseOfThisCostModel) {
  const ResidualTable now = compare_all(truth(), settings_of_truth(), Catalog::shipped());
  const std::vector<Residual>& shipped = ResidualTable::shipped().rows();
  ASSERT_EQ(now.rows().size(), shipped.size()) << "bench/truth/residuals.sh makes them again";
  for (size_t i = 0; i < shipped.size(); ++i) {
    ASSERT_EQ(now.rows()[i].at.model, shipped[i].at.model);
    ASSERT_NEAR(now.rows()[i].log_ratio, shipped[i].log_ratio, 2e-4)
        << "row " << i << ": bench/truth/residuals.sh makes them again";
  }
}

// Each row is judged as if nothing of its model had been compared.
TEST(ResidualsTest, NineOfTenRowsOfModelsThatWereLeftOutAreCovered) {
  std::vector<ScoredRow> rows = scored_truth();
  judge_coverage(rows, ResidualTable::shipped());
  double judged[2] = {}, covered[2] = {};
  for (const ScoredRow& row : rows) {
    for (int i = 0; i < 2; ++i) {
      const std::optional<bool>& is_covered = i == 0 ? row.time_covered : row.memory_covered;
      if (!is_covered) continue;
      ++judged[i];
      covered[i] += *is_covered ? 1 : 0;
    }
  }
  EXPECT_EQ(judged[0], 183);  // without those that constants were fitted on
  EXPECT_EQ(judged[1], 159);
  EXPECT_NEAR(covered[0] / judged[0], 0.9, 0.03);
  EXPECT_NEAR(covered[1] / judged[1], 0.9, 0.03);
}

TEST(ResidualsTest, WhatWasNeverComparedHasAWiderIntervalAndSaysSo) {
  const ResidualTable& table = ResidualTable::shipped();
  const Interval near = table.interval(Figure::kTime, case_on(kA100, "fms-hf-tuning"));
  const Interval far = table.interval(Figure::kTime, case_on("NVIDIA-A10G", "fms-hf-tuning"));
  EXPECT_FALSE(near.assumed);
  EXPECT_TRUE(far.assumed);
  EXPECT_GT(far.high / far.low, 1.15 * near.high / near.low);
  EXPECT_THAT(far.basis, HasSubstr("another GPU"));
  EXPECT_DOUBLE_EQ(near.low * near.high, 1) << "of a factor and its inverse";
}

// Compared rows have 2,048 and 4,096 tokens, checkpointing, and at most four ranks.
TEST(ResidualsTest, IntervalsOfMemoryGrowWithTheDistanceAndSayWhatIsFar) {
  const ResidualTable& table = ResidualTable::shipped();
  PredictedCase at = case_on(kA100, "fms-hf-tuning");
  const Interval near = table.interval(Figure::kMemory, at);
  EXPECT_FALSE(near.far) << near.basis;
  at.machine = "NVIDIA-A10G";
  EXPECT_EQ(table.interval(Figure::kMemory, at).basis, near.basis);
  at.length = 512;  // two doublings
  const Interval shorter = table.interval(Figure::kMemory, at);
  EXPECT_THAT(shorter.basis, HasSubstr("wider for rows of 512 tokens"));
  const double half = std::log(near.high);
  EXPECT_NEAR(std::log(shorter.high), std::hypot(half, 2 * 0.06), 1e-12);
  at.checkpointing = false;
  at.eager_attention = true;
  const Interval far = table.interval(Figure::kMemory, at);
  EXPECT_THAT(far.basis, HasSubstr("no gradient checkpointing, attention without flash kernels"));
  EXPECT_NEAR(std::log(far.high), std::hypot(half, std::hypot(2 * 0.06, 0.12 * std::sqrt(2.0))),
              1e-12);
  EXPECT_GT(table.chance_above(Figure::kMemory, at, 1.15),
            table.chance_above(Figure::kMemory, case_on(kA100, "fms-hf-tuning"), 1.15));
}

TEST(ResidualsTest, AProgramThatWasNeverComparedHasTheErrorsOfFourOthers) {
  const Interval interval =
      ResidualTable::shipped().interval(Figure::kMemory, case_on(kA100, "transformers"));
  EXPECT_TRUE(interval.assumed);
  EXPECT_NEAR(std::log(interval.high), 0.199 * 2.353 / kNormalP95, 1e-3);
}

// Rows of 2,048 and 4,096 tokens on one node, none in float8.
TEST(ResidualsTest, AnIntervalGrowsWithWhatIsFarFromItsRowsAndSaysIt) {
  const ResidualTable& table = ResidualTable::shipped();
  const PredictedCase at = case_on(kA100, "fms-hf-tuning");
  const Interval near = table.interval(Figure::kTime, at);
  EXPECT_FALSE(near.far);
  const auto expect_wider = [&](const PredictedCase& other, double by, const char* words) {
    const Interval far = table.interval(Figure::kTime, other);
    EXPECT_TRUE(far.far) << words;
    EXPECT_NEAR(std::log(far.high), std::hypot(std::log(near.high), by), 1e-9) << words;
    EXPECT_DOUBLE_EQ(far.low, 1 / far.high);
    EXPECT_THAT(far.basis, HasSubstr(words));
    EXPECT_NEAR(table.chance_above(Figure::kTime, other, std::pow(far.high, 0.9)),
                table.chance_above(Figure::kTime, at, std::pow(near.high, 0.9)), 1e-9);
  };
  PredictedCase other = at;
  other.length = 256;
  expect_wider(other, 3 * 0.08, "rows of 256 tokens, where 2048 to 4096 were measured");
  other.length = 8192;
  expect_wider(other, 0.08, "rows of 8192 tokens");
  other = at;
  other.nodes = 2;
  expect_wider(other, 0.5, "2 nodes, where one was measured");
  other = at;
  other.float8 = true;
  expect_wider(other, 0.25, "float8");
  // Too few rows of either: those of the GPU and the stack tell of LoRA, and less of 4 bits.
  PredictedCase lora = at, quantized = at;
  lora.method = "lora";
  quantized.method = "gptq-lora";
  const Interval of_lora = table.interval(Figure::kTime, lora);
  const Interval of_bits = table.interval(Figure::kTime, quantized);
  EXPECT_FALSE(of_lora.far);
  EXPECT_NEAR(std::log(of_bits.high), std::hypot(std::log(of_lora.high), 0.2), 1e-9);
  EXPECT_THAT(of_bits.basis, HasSubstr("4-bit weights"));
  const Interval unknown = table.interval(Figure::kTime, case_on("NVIDIA-A10G", "fms-hf-tuning"));
  const Interval both = table.interval(Figure::kTime, case_on("NVIDIA-A10G", "sftbench"));
  EXPECT_NEAR(std::log(both.high), std::hypot(std::log(unknown.high), 0.3), 1e-9);
}

TEST(ResidualsTest, ChancesFallWithTheLimitAndNeverReachCertainty) {
  const ResidualTable& table = ResidualTable::shipped();
  const PredictedCase at = case_on(kA100, "fms-hf-tuning");
  double before = 1;
  for (const double factor : {0.6, 0.8, 0.95, 1.0, 1.05, 1.2, 2.0}) {
    const double chance = table.chance_above(Figure::kMemory, at, factor);
    EXPECT_LE(chance, before) << factor;
    EXPECT_GT(chance, 0) << factor;
    EXPECT_LT(chance, 1) << factor;
    before = chance;
  }
  EXPECT_LT(table.chance_above(Figure::kMemory, at, 2), 0.001);
  EXPECT_EQ(table.chance_above(Figure::kMemory, at, -0.1), 1) << "other things fill the device";
}

TEST(ResidualsTest, AFileThatIsNoneIsRefusedByName) {
  const auto error = [](const char* text) -> std::string {
    try {
      ResidualTable::from_json(Json::parse(text), "r.json");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("{}"), HasSubstr("r.json: schema"));
  EXPECT_THAT(error("{\"schema\": \"sftbench.residuals/1\", \"rows\": 3}"),
              HasSubstr("r.json: rows"));
  const Json whole = Json::parse(text_of(ResidualTable::shipped()));
  EXPECT_EQ(text_of(ResidualTable::from_json(whole, "r.json")), text_of(ResidualTable::shipped()));
}

// --- own measurements ----------------------------------------------------------------------------

TEST(SharpeningTest, FiveMeasurementsOfTheModelHalveTheErrorAndTheirIntervalsHold) {
  std::vector<ScoredRow> rows = scored_truth();
  std::vector<double> before, after;
  for (const ScoredRow& row : rows) {
    if (row.time_error) before.push_back(*row.time_error);
  }
  sharpen(rows, ResidualTable::shipped(), 5);
  double covered = 0;
  for (const ScoredRow& row : rows) {
    if (!row.time_error) continue;
    after.push_back(*row.time_error);
    covered += *row.time_covered ? 1 : 0;
  }
  ASSERT_GT(after.size(), 200u);
  EXPECT_LT(summarize(after).median, 0.021);
  EXPECT_LT(summarize(after).p90, 0.6 * summarize(before).p90);
  EXPECT_NEAR(covered / static_cast<double>(after.size()), 0.9, 0.03);
}

std::vector<Residual> five_measurements_on(const std::string& machine) {
  std::vector<Residual> own;
  for (const int64_t length : {512, 1024, 2048, 4096, 8192}) {
    PredictedCase at = case_on(machine, "sftbench");
    at.length = length;
    own.push_back({at, Figure::kTime, false, false, std::log(1.3)});
  }
  return own;
}

// Two measurements of one configuration on a processor are 5 % apart in the median.
TEST(SharpeningTest, StepsOnProcessorsVaryMoreThanThoseOnGpus) {
  const auto width = [](const std::string& machine) {
    const Uncertainty uncertainty(ResidualTable::shipped(), five_measurements_on(machine));
    const Interval interval = uncertainty.interval(Figure::kTime, case_on(machine, "sftbench"));
    EXPECT_NEAR(interval.center, 1.3, 0.1) << machine;
    return std::log(interval.high / interval.low);
  };
  EXPECT_GT(width("CPU"), 1.3 * width(kA100));
  EXPECT_LT(width("CPU"), 0.5);
}

TEST(SharpeningTest, IntervalsOnProcessorsRestOnRunsOnProcessorsAndOnTheNoiseThatAProbeFound) {
  const Uncertainty uncertainty(ResidualTable::shipped());
  const auto interval = [&](Figure figure, std::optional<double> run_variance) {
    PredictedCase at = case_on("CPU", "sftbench");
    at.run_variance = run_variance;
    return uncertainty.interval(figure, at);
  };
  const Interval quiet = interval(Figure::kTime, 1e-4), noisy = interval(Figure::kTime, 0.09);
  EXPECT_FALSE(quiet.assumed);
  EXPECT_FALSE(quiet.own);
  EXPECT_THAT(quiet.basis, HasSubstr("processors"));
  EXPECT_NEAR(std::log(quiet.high), 1.64 * std::sqrt(0.016), 0.01);
  EXPECT_NEAR(std::log(noisy.high), 1.64 * std::sqrt(0.096), 0.01);
  EXPECT_TRUE(interval(Figure::kTime, std::nullopt).assumed) << "no probe, no constants";
  for (const std::optional<double> probed : {std::optional<double>(), std::optional(0.09)})
    EXPECT_NEAR(interval(Figure::kMemory, probed).high, 1.027, 0.002);
  PredictedCase at = case_on("CPU", "sftbench");
  at.run_variance = 1e-4;
  EXPECT_NEAR(uncertainty.chance_above(Figure::kTime, at, quiet.high), 0.05, 0.001);
  EXPECT_NEAR(uncertainty.chance_above(Figure::kTime, at, 1), 0.5, 1e-9);
}

TEST(SharpeningTest, OnlyTheSameMachineAndStackCount) {
  const Uncertainty uncertainty(ResidualTable::shipped(), five_measurements_on(kA100));
  const Interval same = uncertainty.interval(Figure::kTime, case_on(kA100, "sftbench"));
  EXPECT_TRUE(same.own);
  EXPECT_EQ(same.residuals, 5);
  EXPECT_NEAR(same.center, 1.3, 0.1);
  EXPECT_LT(same.high / same.low, 1.4);
  EXPECT_LT(uncertainty.chance_above(Figure::kTime, case_on(kA100, "sftbench"), 1.6), 0.05);
  EXPECT_FALSE(uncertainty.interval(Figure::kTime, case_on("NVIDIA-A10G", "sftbench")).own);
  EXPECT_FALSE(uncertainty.interval(Figure::kTime, case_on(kA100, "fms-hf-tuning")).own);
  EXPECT_FALSE(uncertainty.interval(Figure::kMemory, case_on(kA100, "sftbench")).own);
}

// Of one row with log ratio y, variance v and noise n, a case with covariance c has mean c y / (v +
// n) and variance v + n - c^2 / (v + n).
TEST(ResidualProcessTest, OneRowTellsOfOthersByTheirCovariance) {
  const Spread spread{
      .offset = 0.1, .model = 0.2, .near = 0.4, .distance = 2, .noise = 0.3, .widening = 1};
  PredictedCase known = case_on(kA100, "sftbench");
  known.length = known.batch = known.ranks = 4;
  const ResidualProcess process({{known, Figure::kTime, false, false, 0.5}}, spread);
  const auto expect_of = [&](const PredictedCase& at, double covariance) {
    EXPECT_NEAR(process.at(at).mean, covariance * 0.5 / 1.0, 1e-12);
    EXPECT_NEAR(process.at(at).deviation, std::sqrt(1.0 - covariance * covariance / 1.0), 1e-12);
  };
  expect_of(known, 0.7);
  PredictedCase at = known;
  at.length = 16;  // two doublings, which is the distance
  expect_of(at, 0.3 + 0.4 * std::exp(-0.5));
  at.batch = 1;
  expect_of(at, 0.3 + 0.4 * std::exp(-1));
  at.ranks = 16;
  expect_of(at, 0.3 + 0.4 * std::exp(-1.5));
  at = known;
  at.method = "lora";
  expect_of(at, 0.3 + 0.2);
  at.checkpointing = !at.checkpointing;
  expect_of(at, 0.3 + 0.1);
  at.model = "another";
  expect_of(at, 0.1);
  EXPECT_NEAR(process.log_likelihood(), -0.5 * std::log(2 * std::numbers::pi) - 0.5 * 0.25, 1e-12);
}

// Two rows of one configuration and noise 0.3: each counts c / (v + c + n).
TEST(ResidualProcessTest, TwoRowsShareWhatTheyTell) {
  const Spread spread{
      .offset = 0.1, .model = 0.2, .near = 0.4, .distance = 2, .noise = 0.3, .widening = 1};
  const PredictedCase at = case_on(kA100, "sftbench");
  const ResidualProcess process(
      {{at, Figure::kTime, false, false, 0.5}, {at, Figure::kTime, false, false, -0.1}}, spread);
  EXPECT_NEAR(process.at(at).mean, 0.4 * 0.7 / 1.7, 1e-12);
  EXPECT_NEAR(process.at(at).deviation, std::sqrt(1 - 2 * 0.49 / 1.7), 1e-12);
  // Sum and difference are independent, with variances 3.4 and 0.6.
  EXPECT_NEAR(
      process.log_likelihood(),
      -std::log(2 * std::numbers::pi) - 0.5 * std::log(1.7 * 0.3) - 0.5 * (0.16 / 3.4 + 0.36 / 0.6),
      1e-12);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
