// Differences and their noise, against scipy (tests/reference/report.py).
#include "sftbench/results/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "results/noise.h"
#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;

Json golden(const std::string& part) {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/report/noise.json").at(part);
}

void expect_interval(const std::optional<RatioInterval>& interval, const Json& row) {
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->ratio, row.at("ratio").get<double>(), 1e-9);
  EXPECT_NEAR(interval->low, row.at("low").get<double>(), 1e-6);
  EXPECT_NEAR(interval->high, row.at("high").get<double>(), 1e-6);
}

Sampled side(const std::vector<double>& values) {
  return {values, {}};
}

TEST(NoiseTest, StudentsTIsThatOfScipy) {
  for (const Json& row : golden("t")) {
    const double t = row.at("t").get<double>();
    EXPECT_NEAR(student_t(row.at("confidence").get<double>(), row.at("degrees").get<double>()), t,
                1e-6 * t)
        << row;
  }
}

TEST(NoiseTest, RepeatsOnBothSidesGiveWelchsInterval) {
  for (const Json& row : golden("welch")) {
    const auto interval = ratio_interval(side(row.at("a").get<std::vector<double>>()),
                                         side(row.at("b").get<std::vector<double>>()));
    expect_interval(interval, row);
    EXPECT_EQ(interval->source, NoiseSource::kRepeats);
  }
}

TEST(NoiseTest, ASingleRunIsTakenToVaryLikeTheOthersRepeats) {
  for (const Json& row : golden("one_run_beside_repeats")) {
    const Sampled one = side(row.at("a").get<std::vector<double>>());
    const Sampled repeats = side(row.at("b").get<std::vector<double>>());
    expect_interval(ratio_interval(one, repeats), row);
    const auto swapped = ratio_interval(repeats, one);
    ASSERT_TRUE(swapped);
    EXPECT_NEAR(1 / swapped->low, row.at("high").get<double>(), 1e-6);
  }
}

// By simulation: the interval of medians holds the truth as often as it says, also where one side
// was measured once.
TEST(NoiseTest, TheIntervalOfMediansHoldsTheTruthInNineteenOfTwenty) {
  std::mt19937 random(7);  // NOLINT: the same numbers in every run
  std::normal_distribution<double> noise(0, 0.05);
  const auto runs = [&](double truth, int count) {
    Sampled side;
    for (int i = 0; i < count; ++i) side.values.push_back(truth * std::exp(noise(random)));
    return side;
  };
  constexpr int kTrials = 4000;
  for (const auto& [n, m] : {std::pair{3, 3}, {5, 3}, {4, 7}, {1, 5}}) {
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto interval = ratio_interval(runs(120, n), runs(100, m));
      held += interval->low <= 1.2 && 1.2 <= interval->high ? 1 : 0;
    }
    EXPECT_GT(held, 0.94 * kTrials) << n << " beside " << m;
    EXPECT_LT(held, 0.985 * kTrials) << n << " beside " << m;
  }
}

// Steps of one run say nothing of what differs from run to run.
TEST(NoiseTest, SingleRunsVaryAtLeastLikeTheRepeatsOfOthers) {
  const StepTimes steady = {.count = 100, .mean_s = 1, .deviation_s = 0.001};
  const Sampled a = {{104}, steady}, b = {{100}, steady};
  EXPECT_EQ(ratio_interval(a, b)->source, NoiseSource::kSteps);
  EXPECT_GT(ratio_interval(a, b)->low, 1);
  RunSpreads spreads;
  spreads.add({100});  // no repeat
  EXPECT_FALSE(spreads.pooled());
  spreads.add({100, 104, 97});
  spreads.add({50, 51});
  const auto spread = spreads.pooled();
  ASSERT_TRUE(spread);
  EXPECT_EQ(spread->degrees, 3);
  const auto apart = ratio_interval(a, b, 0.95, spread);
  EXPECT_EQ(apart->source, NoiseSource::kOtherRepeats);
  EXPECT_LT(apart->low, 1);
  // With three degrees of freedom, t is 3.182 (scipy).
  const double half = 3.182446 * std::sqrt(2 * spread->variance);
  EXPECT_NEAR(apart->low, 1.04 * std::exp(-half), 1e-6);
  EXPECT_NEAR(apart->high, 1.04 * std::exp(half), 1e-6);
  // Without steps, too.
  EXPECT_FALSE(ratio_interval(side({104}), side({100})));
  EXPECT_NEAR(ratio_interval(side({104}), side({100}), 0.95, spread)->low, apart->low, 1e-12);
}

// A result with these steps, through a file, since that is where their figures are computed.
class CompareTest : public testing::Test {
 protected:
  void TearDown() override {
    fs::remove_all(here_);
    fs::remove_all(there_);
  }

  static Measurement measured(double rate, const std::vector<double>& step_seconds) {
    Measurement m = sample_valid();
    m.measured["dataset_tokens_per_second"] = rate;
    m.extra["step_seconds"] = step_seconds;
    return m;
  }

  static std::vector<double> steady() { return std::vector<double>(10, 0.5); }

  Comparison compare(const CompareOptions& options = {}) {
    here_scan_ = ResultStore(here_).scan();
    other_scan_ = ResultStore(there_).scan();
    return compare_results(here_scan_, other_scan_, options);
  }

  static std::vector<std::string> cells(const Comparison& comparison, const std::string& name) {
    for (const ReportColumn& column : comparison.table.columns) {
      if (column.name != name) continue;
      std::vector<std::string> texts;
      for (const Scalar& cell : column.cells) append_python_str(texts.emplace_back(), cell);
      return texts;
    }
    return {"no column " + name};
  }

  fs::path here_ = fresh_results("here");
  fs::path there_ = fresh_results("there");
  StoreScan here_scan_, other_scan_;
};

TEST_F(CompareTest, SingleRunsAreJudgedByTheirStepsAsNumpyWould) {
  for (const Json& row : golden("steps")) {
    const auto run = [](const Json& one_side) {
      return measured(one_side.at("value").get<double>(),
                      one_side.at("step_seconds").get<std::vector<double>>());
    };
    put(here_, run(row.at("a")), "k");
    put(there_, run(row.at("b")), "k");
    const Comparison comparison = compare();
    EXPECT_THAT(cells(comparison, "noise"), ElementsAre("steps"));
    EXPECT_NEAR(std::stod(cells(comparison, "ratio")[0]), row.at("ratio").get<double>(), 1e-9);
    EXPECT_NEAR(std::stod(cells(comparison, "low")[0]), row.at("low").get<double>(), 1e-6);
    EXPECT_NEAR(std::stod(cells(comparison, "high")[0]), row.at("high").get<double>(), 1e-6);
  }
}

TEST_F(CompareTest, SaysNoDifferenceInsideTheNoiseAndWhichWayBeyondIt) {
  const auto configuration = [&](const char* key, int batch_size, std::vector<double> here,
                                 std::vector<double> other) {
    for (auto [directory, rates] : {std::pair{here_, here}, {there_, other}}) {
      for (size_t i = 0; i < rates.size(); ++i) {
        Measurement m = measured(rates[i], steady());
        m.inputs["batch_size"] = batch_size;
        put(directory, m, key, static_cast<int>(i) + 1);
      }
    }
  };
  configuration("a", 1, {100, 103, 98}, {101, 99, 104});
  configuration("b", 2, {120, 121, 119}, {100, 101, 99});
  configuration("c", 3, {80}, {100, 101, 99});
  const Comparison comparison = compare();
  EXPECT_THAT(cells(comparison, "batch_size"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(cells(comparison, "verdict"), ElementsAre("no difference", "higher", "lower"));
  EXPECT_THAT(cells(comparison, "dataset_tokens_per_second"),
              ElementsAre("100.0", "120.0", "80.0"));
  EXPECT_THAT(cells(comparison, "other"), ElementsAre("101.0", "100.0", "100.0"));
  EXPECT_THAT(cells(comparison, "n"), ElementsAre("3", "3", "1"));
  EXPECT_THAT(cells(comparison, "n_other"), ElementsAre("3", "3", "3"));
  EXPECT_EQ(comparison.both, 3U);
  EXPECT_EQ(comparison.judged, 3U);
  EXPECT_EQ(comparison.higher, 1U);
  EXPECT_EQ(comparison.lower, 1U);
}

TEST_F(CompareTest, JoinsOnEveryInputWhateverTheFileIsCalled) {
  put(here_, measured(100, steady()), "name");
  put(there_, measured(100, steady()), "another_name");
  Measurement m = measured(100, steady());
  m.inputs["torch_dtype"] = "float32";
  put(here_, m, "only_here");
  m.inputs["torch_dtype"] = 32;
  put(there_, m, "only_there");
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.both, 1U);
  EXPECT_EQ(comparison.only_here, 1U);
  EXPECT_EQ(comparison.only_other, 1U);
  EXPECT_THAT(cells(comparison, "verdict"), ElementsAre("no difference"));
}

TEST_F(CompareTest, FoldersThatShareNothingAreComparedInWhatKeepsThemApart) {
  const auto measure = [](const fs::path& directory, const std::string& model, int batch_size,
                          double rate) {
    Measurement m = measured(rate, steady());
    m.inputs["model_name"] = model;
    m.inputs["batch_size"] = batch_size;
    put(directory, m, std::to_string(batch_size));
  };
  for (const int batch_size : {1, 2}) {
    measure(here_, "small", batch_size, 100);
    measure(there_, "large", batch_size, 25);
  }
  measure(there_, "large", 4, 25);
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.apart.size(), 1U);
  EXPECT_EQ(comparison.apart[0].input, "model_name");
  EXPECT_EQ(comparison.apart[0].here, "small");
  EXPECT_EQ(comparison.apart[0].other, "large");
  EXPECT_EQ(comparison.both, 2U);
  EXPECT_EQ(comparison.only_here, 0U);
  EXPECT_EQ(comparison.only_other, 1U);
  ASSERT_EQ(cells(comparison, "ratio").size(), 2U);
  for (const std::string& ratio : cells(comparison, "ratio"))
    EXPECT_NEAR(std::stod(ratio), 4, 1e-9);
}

TEST_F(CompareTest, AStoredNoneAndTheDefaultKeepFoldersApart) {
  Measurement m = measured(100, steady());
  put(there_, m, "k");
  m.inputs["response_template"] = nullptr;
  put(here_, m, "k");
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.apart.size(), 1U);
  EXPECT_EQ(comparison.apart[0].here, "None");
  EXPECT_EQ(comparison.apart[0].other, "default");
  EXPECT_EQ(comparison.both, 1U);
}

TEST_F(CompareTest, FoldersThatAreApartInSeveralValuesHaveNothingInCommon) {
  for (const int batch_size : {1, 2, 3, 4}) {
    Measurement m = measured(100, steady());
    m.inputs["batch_size"] = batch_size;
    put(batch_size < 3 ? here_ : there_, m, std::to_string(batch_size));
  }
  const Comparison comparison = compare();
  EXPECT_TRUE(comparison.apart.empty());
  EXPECT_EQ(comparison.both, 0U);
}

TEST_F(CompareTest, SaysWhyThereIsNoVerdict) {
  const auto configuration = [&](int batch_size, Measurement here, Measurement other) {
    here.inputs["batch_size"] = other.inputs["batch_size"] = batch_size;
    put(here_, here, std::to_string(batch_size));
    put(there_, other, std::to_string(batch_size));
  };
  Measurement unmeasured = measured(1, steady());
  unmeasured.measured.erase("dataset_tokens_per_second");
  configuration(1, sample_invalid(), measured(100, steady()));
  configuration(2, sample_invalid(), sample_invalid());
  configuration(3, unmeasured, measured(100, steady()));
  configuration(4, measured(100, {0.5, 0.5}), measured(100, steady()));
  const Comparison comparison = compare();
  EXPECT_THAT(cells(comparison, "verdict"),
              ElementsAre("status changed", "not valid", "not measured", "noise unknown"));
  EXPECT_THAT(cells(comparison, "status"),
              ElementsAre("OOM_GPU, other valid", "OOM_GPU", "valid", "valid"));
  EXPECT_EQ(comparison.judged, 0U);
  EXPECT_EQ(comparison.mean_ratio, 1);
}

TEST_F(CompareTest, TheMeanOfRatiosIsThatOfTheirLogarithms) {
  for (const auto& [batch_size, rate] : {std::pair{1, 200.0}, {2, 800.0}, {3, 50.0}}) {
    Measurement m = measured(rate, steady());
    m.inputs["batch_size"] = batch_size;
    put(here_, m, std::to_string(batch_size));
    Measurement other = measured(100, steady());
    other.inputs["batch_size"] = batch_size;
    put(there_, other, std::to_string(batch_size));
  }
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.judged, 3U);
  EXPECT_EQ(comparison.higher, 2U);
  EXPECT_EQ(comparison.lower, 1U);
  EXPECT_NEAR(comparison.mean_ratio, 2, 1e-9);  // of 2, 8 and 1/2
}

TEST_F(CompareTest, StepsSayNothingAboutMemory) {
  put(here_, measured(100, steady()), "k");
  put(there_, measured(100, steady()), "k");
  CompareOptions options;
  options.property = "host_peak_rss_bytes";
  options.with_ids = true;
  const Comparison comparison = compare(options);
  EXPECT_THAT(cells(comparison, "verdict"), ElementsAre("noise unknown"));
  EXPECT_THAT(cells(comparison, "host_peak_rss_bytes"), ElementsAre("1000"));
  EXPECT_THAT(cells(comparison, "identifier"), ElementsAre("model_name.m-number_gpus.0"));
}

TEST_F(CompareTest, APropertyThatNothingHasIsAnInputError) {
  put(here_, measured(100, steady()), "k");
  put(there_, measured(100, steady()), "k");
  CompareOptions options;
  options.property = "dataset_token_per_second";
  try {
    compare(options);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("--property: no result has a number under "
                                                  "'dataset_token_per_second'; expected one of "),
                               testing::HasSubstr("did you mean 'dataset_tokens_per_second'?")));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
