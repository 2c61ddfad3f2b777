// What tokens cost, in tables and in JSON, against numbers that were worked out by hand.
#include "sftbench/results/token_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/best.h"
#include "sftbench/results/report.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const std::string kA100 = "NVIDIA-A100-SXM4-80GB";

DevicePrices book() {
  PriceBook book;
  book.currency = "EUR";
  book.prices[kA100].per_hour = 3.6;
  return DevicePrices::of(book);
}

TEST(TokenCostTest, IsThePriceOfTheDevicesOverTheirRate) {
  // 8 GPUs at 3.6 an hour are 28.8 an hour; 8000 tokens a second are 28.8 million an hour.
  const auto cost = token_cost(DevicePrices::all_at(3.6), "any", 8, 8000);
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->per_million, 1.0);
  EXPECT_DOUBLE_EQ(cost->tokens_per_hour, 28.8e6);
  EXPECT_DOUBLE_EQ(token_cost(DevicePrices::all_at(3.6), "", 0, 1000)->per_million, 1.0)
      << "a machine without GPUs is one device";
}

TEST(TokenCostTest, IsNotKnownWithoutAPriceOrARate) {
  EXPECT_FALSE(token_cost({}, kA100, 1, 1000));
  EXPECT_FALSE(token_cost(book(), "NVIDIA-H100-80GB-HBM3", 1, 1000));
  EXPECT_FALSE(token_cost(book(), kA100, 0, 1000)) << "a book has prices of GPUs";
  EXPECT_FALSE(token_cost(book(), kA100, 1, 0));
  EXPECT_TRUE(token_cost(book(), kA100, 1, 1000));
}

// Two results on an A100 with two samples in one of them, one on the CPU.
class PricedReportTest : public testing::Test {
 protected:
  PricedReportTest() {
    put_rate(kA100, 2, 1000, "a");
    put_rate(kA100, 2, 3000, "a", 2);
    put_rate("", 0, 500, "b");
    scan_ = ResultStore(directory_).scan();
  }
  ~PricedReportTest() override { std::filesystem::remove_all(directory_); }

  void put_rate(const std::string& gpu, int gpus, double rate, const std::string& key,
                int sample = 1) {
    Measurement m = sample_valid();
    m.inputs["number_gpus"] = gpus;
    if (!gpu.empty()) m.inputs["gpu_model"] = gpu;
    m.measured["dataset_tokens_per_second"] = rate;
    put(directory_, m, std::string(32, key[0]), sample);
  }

  static std::vector<Scalar> cells(const ReportTable& table, const std::string& name) {
    for (const ReportColumn& column : table.columns) {
      if (column.name == name) return {column.cells.begin(), column.cells.end()};
    }
    return {};
  }

  // Sorted, since rows stand in an order of their own; without a price: nothing.
  static std::vector<double> numbers(const ReportTable& table, const std::string& name) {
    std::vector<double> found;
    for (const Scalar& cell : cells(table, name)) {
      if (cell.as_number()) found.push_back(*cell.as_number());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::filesystem::path directory_ = fresh_results("priced");
  StoreScan scan_;
};

TEST_F(PricedReportTest, TablesHaveTheCostOfTheTypicalRate) {
  using testing::ElementsAre;
  // The median of the samples is 2000 tokens a second, 7.2 million an hour, at 2 times 3.6.
  EXPECT_THAT(numbers(short_table(scan_, book()), "eur_per_million_dataset_tokens"),
              ElementsAre(1.0));
  EXPECT_EQ(cells(short_table(scan_), "usd_per_million_dataset_tokens").size(), 0U);
  AdoLayout layout;
  layout.wide = true;
  layout.prices = DevicePrices::all_at(3.6);
  const ReportTable wide = ado_table(scan_, layout);
  EXPECT_THAT(numbers(wide, "usd_per_million_dataset_tokens"), ElementsAre(1.0, 2.0));
  EXPECT_THAT(numbers(wide, "dataset_tokens_per_hour"), ElementsAre(1.8e6, 7.2e6));
}

TEST_F(PricedReportTest, MeasurementsInJsonHaveTheirOwn) {
  std::string text;
  write_measurements(
      directory_, scan_, false, [&](std::string_view piece) { text += piece; }, book());
  const Json all = Json::parse(text);
  ASSERT_EQ(all.size(), 3U);
  int priced = 0;
  for (const Json& one : all) {
    if (!one.contains("cost")) continue;
    ++priced;
    EXPECT_EQ(one["cost"]["currency"], "EUR");
    EXPECT_NEAR(one["cost"]["per_million_dataset_tokens"].get<double>() *
                    one["measured"]["dataset_tokens_per_second"].get<double>(),
                2000, 1e-6);
  }
  EXPECT_EQ(priced, 2);
}

class BestTest : public testing::Test {
 protected:
  void put_run(const std::string& key, int64_t batch, int64_t length, double rate, int sample = 1,
               const std::string& gpu = kA100, int64_t gpus = 2) {
    Measurement m = sample_valid();
    m.inputs["gpu_model"] = gpu;
    m.inputs["number_gpus"] = gpus;
    m.inputs["batch_size"] = batch;
    m.inputs["model_max_length"] = length;
    m.measured["dataset_tokens_per_second"] = rate;
    put(folder_, m, key, sample);
  }
  std::vector<Contest> contests(const DevicePrices& prices) {
    scan_ = ResultStore(folder_).scan();
    return best_configurations(scan_, prices);
  }

  std::filesystem::path folder_ = fresh_results("best");
  StoreScan scan_;
};

TEST_F(BestTest, AnArgumentThatOnlySomeWereGivenTellsThemApart) {
  put_run("a", 8, 512, 7000);
  Measurement other = sample_valid();
  other.inputs["gpu_model"] = kA100;
  other.inputs["number_gpus"] = 2;
  other.inputs["batch_size"] = 8;
  other.inputs["model_max_length"] = 512;
  other.inputs["learning_rate"] = 1e-4;
  other.measured["dataset_tokens_per_second"] = 8000;
  put(folder_, other, "b", 1);
  const std::vector<Contest> found = contests(DevicePrices::all_at(3.6));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].best.configuration, "learning_rate=0.0001");
  ASSERT_TRUE(found[0].runner_up);
  EXPECT_EQ(found[0].runner_up->configuration, "learning_rate=default");
}

TEST_F(BestTest, IsTheCheapestOfEachLengthWithItsRunnerUp) {
  for (int i = 1; i <= 3; ++i) {
    put_run("a", 8, 512, 7200 + i, i);
    put_run("b", 16, 512, 8000 + i, i);
  }
  put_run("c", 8, 1024, 9999);
  const std::vector<Contest> found = contests(DevicePrices::all_at(3.6));
  ASSERT_EQ(found.size(), 2u);
  const Contest& contest = found[1];
  EXPECT_THAT(contest.title, testing::EndsWith("512 tokens"));
  EXPECT_EQ(contest.configurations, 2u);
  EXPECT_EQ(contest.best.configuration, "batch_size=16");
  EXPECT_EQ(contest.best.repeats.samples.size(), 3u);
  EXPECT_DOUBLE_EQ(contest.best.rate, 8002.0 / 2);
  // Two devices at 3.6 an hour: 7.2 for 8002 x 3600 tokens.
  EXPECT_NEAR(*contest.best.cost, 7.2 / (8002 * 3600.0) * 1e6, 1e-12);
  EXPECT_EQ(contest.runner_up->configuration, "batch_size=8");
  EXPECT_NEAR(contest.ratio, 8002.0 / 7202, 1e-12);
  EXPECT_LT(*contest.low, contest.ratio);
  EXPECT_GT(*contest.high, contest.ratio);
  EXPECT_TRUE(contest.separable());
  EXPECT_FALSE(found[0].runner_up) << "nothing to compare with";
}

TEST_F(BestTest, NoisyRepeatsAreNotSeparable) {
  for (int i = 1; i <= 3; ++i) {
    put_run("a", 8, 512, 7000 + 500 * i, i);
    put_run("b", 16, 512, 7100 + 500 * i, i);
  }
  const std::vector<Contest> found = contests({});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].best.configuration, "batch_size=16");
  EXPECT_FALSE(found[0].best.cost) << "without a price the rate of a device decides";
  ASSERT_TRUE(found[0].low);
  EXPECT_FALSE(found[0].separable());
}

TEST_F(BestTest, WhatHasAPriceIsNotComparedWithWhatHasNone) {
  put_run("a", 8, 512, 1000);
  put_run("b", 16, 512, 9000, 1, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(contests(book()).size(), 2u);
  EXPECT_EQ(contests({}).size(), 1u);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
