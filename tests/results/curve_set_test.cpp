#include "results/html/curve_set.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "results/html/curve_reader.h"
#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/sample_series.h"
#include "sftbench/results/store.h"

namespace sftbench::html {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

Json series_of(size_t samples, double watts) {
  Json times = Json::array(), cpu = Json::array(), held = Json::array(), power = Json::array();
  for (size_t i = 0; i < samples; ++i) {
    times.push_back(static_cast<double>(i) - 1);
    cpu.push_back(2.0 * static_cast<double>(i));
    held.push_back(5.0);
    power.push_back(watts + static_cast<double>(i % 7));
  }
  const Json gpu = {{"power_watts", power},
                    {"power_limit_watts", Json(std::vector<double>(samples, 700.0))}};
  return {{"schema", kSampleSeriesSchema},
          {"begin_unix_s", 0},
          {"warmup_steps", 1},
          {"steps", {{"begin_s", {0.0, 2.0}}, {"end_s", {2.0, 3.5}}}},
          {"processes",
           {{{"node", 0},
             {"time_s", times},
             {"cpu_seconds", cpu},
             {"memory_percent", held},
             {"host_memory_percent", held},
             {"gpus", {gpu}}}}}};
}

class CurveSetTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(directory_); }

  // A result with a series beside it, `minute`s old in an order of their own.
  void put_with_series(const std::string& key, const Json& series, int minute = 0) {
    Measurement m = sample_valid();
    m.inputs["key"] = key;
    m.extra["loss"] = {3.0, nullptr, 2.0};
    m.extra["step_seconds"] = {2.0, 1.5, 1.5};
    m.extra["evaluation"] = {{"steps", {2}}, {"losses", {2.5}}};
    m.finished_at = "2026-11-21T07:" + std::to_string(10 + minute) + ":22.456Z";
    const fs::path path = directory_ / kExperiment / (key + ".series.json.gz");
    fs::create_directories(path.parent_path());
    m.extra["series"] = write_sample_series(path, series);
    put(directory_, m, key);
  }

  fs::path result(const std::string& key) const {
    return directory_ / kExperiment / (key + ".json");
  }

  MeasurementCurves read(const std::string& key) const {
    return CurveReader().read(result(key), kMostPlaces);
  }

  CurveSet collect(size_t most_bytes = kMostCurveBytes) {
    return collect_curves(ResultStore(directory_).scan(), directory_, most_bytes);
  }

  static size_t bytes_of(const CurveSet& set, size_t row) {
    return set.offsets.at(row + 1) - set.offsets.at(row);
  }

  const fs::path directory_ = fresh_results("curve_set");
};

TEST_F(CurveSetTest, AMeasurementHasItsLossItsStepsAndWhatItUsed) {
  put_with_series("a", series_of(10, 400));
  const MeasurementCurves read = this->read("a");
  EXPECT_EQ(read.problem, "");
  EXPECT_TRUE(read.has_series);
  std::vector<Quantity> quantities;
  for (const Curve& curve : read.curves) quantities.push_back(curve.quantity);
  ASSERT_THAT(quantities,
              ElementsAre(Quantity::kLoss, Quantity::kEvaluationLoss, Quantity::kStepSeconds,
                          Quantity::kGpuPower, Quantity::kHostMemory, Quantity::kCpu));
  EXPECT_THAT(read.curves[0].x, ElementsAre(1, 2, 3));
  EXPECT_EQ(read.curves[0].mean[0], 3);
  EXPECT_TRUE(std::isnan(read.curves[0].mean[1]));
  EXPECT_THAT(read.curves[1].x, ElementsAre(2));
  const Curve& power = read.curves[3];
  EXPECT_EQ(power.x.front(), -1);
  EXPECT_EQ(power.mean[3], 403);
  EXPECT_EQ(power.limit, 700);
  EXPECT_EQ(power.mark, 2) << "the end of the warm-up step";
  const Curve& cpu = read.curves[5];
  EXPECT_EQ(cpu.x.size(), 9U) << "a rate is between two readings";
  EXPECT_EQ(cpu.mean[4], 2) << "cores";
  EXPECT_EQ(read.curves[4].limit, 100);
}

TEST_F(CurveSetTest, ASeriesThatIsNotWhatWasWrittenIsNamedAndTheLossStays) {
  put_with_series("a", series_of(10, 400));
  put_with_series("b", series_of(10, 400));
  std::ofstream(directory_ / kExperiment / "a.series.json.gz", std::ios::app) << "x";
  fs::remove(directory_ / kExperiment / "b.series.json.gz");
  EXPECT_EQ(read("a").curves.size(), 3U);
  const CurveSet set = collect();
  ASSERT_EQ(set.problems.size(), 2U);
  EXPECT_THAT(set.problems[0] + set.problems[1],
              HasSubstr(std::string(kExperiment) + "/a.series.json.gz: is not what the "
                                                   "measurement wrote: its digest is"));
  EXPECT_THAT(set.problems[0] + set.problems[1], HasSubstr("/b.series.json.gz: cannot open"));
}

// Their digests are right, so that they were written so.
TEST_F(CurveSetTest, ASeriesThatContradictsItselfIsRefused) {
  Json shorter = series_of(10, 400);
  shorter["processes"][0]["gpus"][0]["power_watts"].erase(0);
  put_with_series("a", shorter);
  EXPECT_EQ(read("a").problem, "power_watts has not as many readings as there are times");
  Json backwards = series_of(10, 400);
  backwards["processes"][0]["time_s"][5] = 0;
  put_with_series("b", backwards);
  EXPECT_EQ(read("b").problem, "its times do not ascend");
  put_with_series("c", {{"schema", "sftbench.series/2"}, {"processes", Json::array()}});
  EXPECT_EQ(read("c").problem, "is no sftbench.series/1");
  put_with_series(
      "d", {{"schema", kSampleSeriesSchema}, {"processes", Json::array()}, {"warmup_steps", 99}});
  EXPECT_EQ(read("d").problem, "");
  EXPECT_EQ(read("d").curves.size(), 3U);
}

TEST_F(CurveSetTest, WithoutASeriesThereIsTheLossAlone) {
  put(directory_, sample_valid(), "a");
  put(directory_, sample_failed(), "b");
  const CurveSet set = collect();
  EXPECT_EQ(set.without_series, 1);
  EXPECT_GT(bytes_of(set, 0), 0U);
  EXPECT_EQ(bytes_of(set, 1), 0U);
  EXPECT_EQ(set.left_out, 0);
  EXPECT_THAT(set.problems, IsEmpty());
}

TEST_F(CurveSetTest, CurvesLosePlacesBeforeAnyIsLeftOut) {
  for (int i = 0; i < 4; ++i)
    put_with_series(std::string(1, static_cast<char>('a' + i)), series_of(1000, 400), i);
  const size_t whole = collect().bytes.size();
  const CurveSet half = collect_curves(ResultStore(directory_).scan(), directory_, whole - 1);
  EXPECT_EQ(half.most_places, kMostPlaces / 2);
  EXPECT_EQ(half.left_out, 0);
  EXPECT_LT(half.bytes.size(), whole);
  for (size_t row = 0; row < 4; ++row) EXPECT_EQ(bytes_of(half, row), half.bytes.size() / 4);
}

TEST_F(CurveSetTest, WhereThereIsNoRoomTheOldestAreLeftOut) {
  put_with_series("a", series_of(1000, 400), 3);
  put_with_series("b", series_of(1000, 400), 1);
  put_with_series("c", series_of(1000, 400), 2);
  CurveSet set = collect_curves(ResultStore(directory_).scan(), directory_, 600);
  EXPECT_EQ(set.most_places, kFewestPlaces);
  EXPECT_EQ(set.left_out, 2);
  EXPECT_LE(set.bytes.size(), 600U);
  EXPECT_GT(bytes_of(set, 0), 0U);
  EXPECT_EQ(bytes_of(set, 1), 0U);
  set = collect_curves(ResultStore(directory_).scan(), directory_, 10);
  EXPECT_EQ(set.left_out, 3);
  EXPECT_EQ(set.bytes, "");
}

TEST_F(CurveSetTest, AFileThatVanishedHasNone) {
  put_with_series("a", series_of(10, 400));
  const StoreScan scan = ResultStore(directory_).scan();
  fs::remove(result("a"));
  fs::remove(directory_ / kExperiment / "a.series.json.gz");
  EXPECT_EQ(collect_curves(scan, directory_).bytes, "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::html
