// What one input does: configurations that differ in it alone, and the mean over them against
// scipy's interval of a mean.
#include "sftbench/results/vary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class VaryTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  // Two runs of a configuration, 1 % apart.
  void measure(int batch_size, const std::string& optim, double rate,
               const std::string& model = "m") {
    for (int sample = 1; sample <= 2; ++sample) {
      Measurement m = sample_valid();
      m.inputs["batch_size"] = batch_size;
      m.inputs["optim"] = optim;
      m.inputs["model_name"] = model;
      m.measured["dataset_tokens_per_second"] = rate * (1 + 0.01 * (sample - 1));
      m.extra["step_seconds"] = std::vector<double>(10, 0.5);
      put(folder_, m, model + optim + std::to_string(batch_size), sample);
    }
  }

  Variation vary_by(const std::string& input, const std::string& baseline = {}) {
    scan_ = ResultStore(folder_).scan();
    return vary(scan_, {input, baseline, {}});
  }
  std::string problem(const std::string& input, const std::string& baseline = {}) {
    try {
      vary_by(input, baseline);
      return "none";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  static std::vector<std::string> cells(const ReportTable& table, const std::string& name) {
    for (const ReportColumn& column : table.columns) {
      if (column.name != name) continue;
      std::vector<std::string> texts;
      for (const Scalar& cell : column.cells) append_python_str(texts.emplace_back(), cell);
      return texts;
    }
    return {"no column " + name};
  }

  fs::path folder_ = fresh_results("vary");
  StoreScan scan_;
};

// Two pairs whose ratios agree by chance, each of them far from sure.
TEST_F(VaryTest, PairsTogetherClaimNothingThatNoneOfThemShows) {
  const auto measure_apart = [&](int batch_size, const std::string& optim, double rate) {
    for (const double factor : {0.8, 1.25}) {
      Measurement m = sample_valid();
      m.inputs["batch_size"] = batch_size;
      m.inputs["optim"] = optim;
      m.measured["dataset_tokens_per_second"] = rate * factor;
      put(folder_, m, optim + std::to_string(batch_size), factor < 1 ? 1 : 2);
    }
  };
  measure_apart(1, "adamw_torch", 100);
  measure_apart(1, "sgd", 110);
  measure_apart(2, "adamw_torch", 200);
  measure_apart(2, "sgd", 220);
  const Variation variation = vary_by("optim", "adamw_torch");
  ASSERT_EQ(variation.effects.size(), 1u);
  EXPECT_NEAR(variation.effects[0].ratio, 1.1, 1e-9);
  EXPECT_LT(variation.effects[0].low, 1);
  EXPECT_GT(variation.effects[0].high, 1.1);
}

TEST_F(VaryTest, ABaselineIsTakenInAnyCase) {
  measure(1, "adamw_torch", 100);
  measure(1, "sgd", 120);
  EXPECT_EQ(vary_by("optim", "SGD").baseline, "sgd");
}

TEST_F(VaryTest, PairsDifferInTheInputAloneAndTheMostFrequentValueIsTheBaseline) {
  measure(1, "adamw_torch", 100);
  measure(1, "sgd", 120);
  measure(2, "adamw_torch", 200);
  measure(2, "sgd", 260);
  measure(3, "adamw_torch", 300);
  const Variation variation = vary_by("optim");
  EXPECT_EQ(variation.baseline, "adamw_torch");
  EXPECT_THAT(cells(variation.table, "batch_size"), ElementsAre("1", "2"));
  EXPECT_THAT(cells(variation.table, "optim"), ElementsAre("sgd", "sgd"));
  EXPECT_THAT(cells(variation.table, "beside"), ElementsAre("adamw_torch", "adamw_torch"));
  EXPECT_THAT(cells(variation.table, "verdict"), ElementsAre("higher", "higher"));
  ASSERT_EQ(variation.effects.size(), 1u);
  const MainEffect& sgd = variation.effects[0];
  EXPECT_EQ(sgd.value, "sgd");
  EXPECT_EQ(sgd.pairs, 2u);
  EXPECT_EQ(sgd.higher, 2u);
  EXPECT_NEAR(sgd.ratio, std::sqrt(1.2 * 1.3), 1e-12);
  // exp(mean -+ scipy.stats.t.ppf(.975, 1) * scipy.stats.sem(log([1.2, 1.3])))
  EXPECT_NEAR(*sgd.low, 0.75112995, 1e-8);
  EXPECT_NEAR(*sgd.high, 2.07687098, 1e-8);
}

TEST_F(VaryTest, AnotherBaselineAndOnePairHaveTheIntervalOfThePair) {
  measure(1, "adamw_torch", 100);
  measure(1, "sgd", 200);
  const Variation variation = vary_by("optim", "sgd");
  ASSERT_EQ(variation.effects.size(), 1u);
  EXPECT_EQ(variation.effects[0].value, "adamw_torch");
  EXPECT_NEAR(variation.effects[0].ratio, 0.5, 1e-12);
  EXPECT_EQ(std::to_string(*variation.effects[0].low),
            std::to_string(std::stod(cells(variation.table, "low")[0])));
  EXPECT_EQ(variation.effects[0].lower, 1u);
}

TEST_F(VaryTest, WhatIsNoInputIsTheDefaultOfTheExperiment) {
  measure(1, "adamw_torch", 100);
  Measurement m = sample_valid();
  m.inputs["batch_size"] = 1;
  m.inputs["optim"] = "adamw_torch";
  m.inputs["model_name"] = "m";
  m.inputs["padding"] = "packed";
  m.measured["dataset_tokens_per_second"] = 150;
  put(folder_, m, "packed");
  const Variation variation = vary_by("padding");
  EXPECT_EQ(variation.baseline, "default");
  EXPECT_THAT(cells(variation.table, "padding"), ElementsAre("packed"));
}

TEST_F(VaryTest, AStoredNoneIsAValueOfItsOwn) {
  Measurement m = sample_valid();
  m.measured["dataset_tokens_per_second"] = 100;
  put(folder_, m, "default");
  m.inputs["response_template"] = nullptr;
  m.measured["dataset_tokens_per_second"] = 150;
  put(folder_, m, "none");
  const Variation variation = vary_by("response_template", "None");
  ASSERT_EQ(variation.effects.size(), 1u);
  EXPECT_EQ(variation.effects[0].value, "\\n### Response:");
  m.inputs["batch_size"] = 4;
  fs::remove_all(folder_);
  put(folder_, m, "none");
  m.inputs["batch_size"] = 8;
  m.inputs.erase("response_template");
  put(folder_, m, "default");
  EXPECT_THAT(vary_by("batch_size").why_empty, HasSubstr("response_template (default, None)"));
}

TEST_F(VaryTest, WithoutAPairTheClosestConfigurationsSayWhy) {
  measure(1, "adamw_torch", 100);
  measure(4, "sgd", 100, "n");
  measure(2, "sgd", 100);
  const Variation variation = vary_by("optim", "sgd");
  EXPECT_EQ(variation.table.rows, 0u);
  EXPECT_EQ(variation.why_empty,
            "no two configurations differ in optim alone; the closest ones also differ in "
            "batch_size (1, 2)");
}

TEST_F(VaryTest, ConfigurationsOfTwoExperimentsAreNoPair) {
  measure(1, "adamw_torch", 100);
  Measurement m = sample_valid();
  m.experiment = "finetune_lora_benchmark-v1.0.0";
  m.inputs["batch_size"] = 1;
  m.inputs["optim"] = "sgd";
  put(folder_, m, "k");
  EXPECT_EQ(
      vary_by("optim").why_empty,
      "no two configurations differ in optim alone; the closest ones also differ in experiment");
}

TEST_F(VaryTest, UnknownInputsAndValuesAreNamed) {
  measure(1, "adamw_torch", 100);
  measure(2, "adamw_torch", 100);
  EXPECT_THAT(problem("batchsize"),
              HasSubstr("--vary: no result has the input 'batchsize'; expected one of "));
  EXPECT_THAT(problem("batchsize"), HasSubstr("did you mean 'batch_size'?"));
  EXPECT_EQ(problem("optim"), "--vary: 2 configurations all have optim adamw_torch");
  EXPECT_EQ(problem("batch_size", "3"),
            "--baseline: no result has batch_size 3; expected one of 1, 2");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
