#include "sftbench/results/sample_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "results/sample_measurement.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/results/store.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

RunRecord record_of_two_ranks() {
  RunRecord record;
  record.steps.resize(2);
  record.steps[0].begin_s = 1000;
  record.steps[0].end_s = 1002;
  record.steps[1].begin_s = 1002;
  record.steps[1].end_s = 1003.5;
  record.end.ranks.resize(2);
  for (RankReport& rank : record.end.ranks) rank.steps.resize(2);
  record.end.ranks[1].steps[0].begin_s = 50;  // the other host's clock
  return record;
}

std::vector<ProcessSamples> samples_of_two_ranks() {
  SystemReading reading;
  reading.time_s = 999.5;
  reading.cpu_seconds = 1.25;
  reading.memory_percent = 3;
  reading.host_memory_percent = 40;
  reading.gpus.resize(2);
  reading.gpus[1].power_watts = 250;
  SystemReading later = reading;
  later.time_s = 1001;
  later.gpus[1].power_watts = {};
  SystemReading other;
  other.time_s = 51;
  return {{0, {reading, later}}, {1, {other}}};
}

TEST(SampleSeriesTest, HasColumnsByTheTimeSinceTheFirstStep) {
  const Json series = sample_series(record_of_two_ranks(), samples_of_two_ranks(), 1);
  EXPECT_EQ(series.at("warmup_steps"), 1);
  EXPECT_EQ(series.at("steps"), Json({{"begin_s", {0.0, 2.0}}, {"end_s", {2.0, 3.5}}}));
  const Json& first = series.at("processes")[0];
  EXPECT_EQ(first.at("time_s"), Json({-0.5, 1.0}));
  EXPECT_EQ(first.at("cpu_seconds"), Json({1.25, 1.25}));
  EXPECT_EQ(first.at("gpus").size(), 2u);
  EXPECT_EQ(first.at("gpus")[0], Json::object()) << "a column that no reading has is left out";
  EXPECT_EQ(first.at("gpus")[1], Json({{"power_watts", {250.0, nullptr}}}));
  EXPECT_EQ(series.at("processes")[1].at("node"), 1);
  EXPECT_EQ(series.at("processes")[1].at("time_s"), Json({1.0}));
}

TEST(SampleSeriesTest, ComesBackAsItWasWritten) {
  const fs::path path = temporary_file("x.series.json.gz");
  const Json series = sample_series(record_of_two_ranks(), samples_of_two_ranks(), 0);
  const Json described = write_sample_series(path, series);
  EXPECT_EQ(described.at("bytes"), fs::file_size(path));
  EXPECT_EQ(described.at("samples"), 3);
  EXPECT_EQ(read_sample_series(path, described), series);
  // gunzip is not ours.
  EXPECT_EQ(std::system(("gunzip -t " + path.string()).c_str()), 0);
  EXPECT_EQ(std::system(("gunzip -c " + path.string() + " >" + path.string() + ".json").c_str()),
            0);
  EXPECT_EQ(read_json_file(path.string() + ".json"), series);
}

TEST(SampleSeriesTest, DamageIsFound) {
  const fs::path path = temporary_file("x.series.json.gz");
  const Json described =
      write_sample_series(path, sample_series(record_of_two_ranks(), samples_of_two_ranks(), 0));
  fs::resize_file(path, fs::file_size(path) - 1);
  try {
    read_sample_series(path, described);
    FAIL() << "a file that was cut off was read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("is not what the measurement wrote"));
  }
}

// Little that becomes much: a file's size says nothing about it.
TEST(SampleSeriesTest, TextIsBounded) {
  const fs::path path = temporary_file("x.series.json.gz");
  const Json series = sample_series(record_of_two_ranks(), samples_of_two_ranks(), 0);
  const std::string digest = write_sample_series(path, series).at("digest");
  const size_t whole = sample_series_text(path, digest, 1 << 20).size();
  EXPECT_EQ(sample_series_text(path, digest, whole).size(), whole);
  ASSERT_LT(fs::file_size(path), whole - 1);
  try {
    sample_series_text(path, digest, whole - 1);
    FAIL() << "more than the limit was read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot be decompressed into at most " +
                                                 std::to_string(whole - 1) + " bytes"));
  }
}

Measurement measurement_with_series(const ResultStore& store) {
  Measurement measurement = sample_valid();
  measurement.experiment = "experiment";
  const fs::path growing = store.growing_series_path("experiment", "key");
  fs::create_directories(growing.parent_path());
  measurement.extra["series"] =
      write_sample_series(growing, sample_series(record_of_two_ranks(), samples_of_two_ranks(), 0));
  return measurement;
}

TEST(SampleSeriesTest, StandsBesideItsResultWhichNamesIt) {
  const ResultStore store(temporary_file("results"));
  for (const char* name : {"key", "key.2"}) {  // the second is a repeat
    const fs::path path = store.write(measurement_with_series(store), "key");
    EXPECT_EQ(path.filename(), std::string(name) + ".json");
    const Json series = read_json_file(path.string()).at("extra").at("series");
    EXPECT_EQ(series.at("file"), std::string(name) + ".series.json.gz");
    read_sample_series(path.parent_path() / series.at("file").get<std::string>(), series);
  }
  EXPECT_FALSE(fs::exists(store.growing_series_path("experiment", "key")));
}

// It is no result, and nothing that a scan has to look at.
TEST(SampleSeriesTest, IsNoResult) {
  const ResultStore store(temporary_file("results"));
  const fs::path path = store.write(measurement_with_series(store), "key");
  std::ofstream(path, std::ios::app) << "x";  // what a scan reads, it complains about
  const StoreScan scan = store.scan();
  EXPECT_TRUE(scan.results.empty());
  ASSERT_EQ(scan.skipped.size(), 1);
  EXPECT_EQ(scan.skipped[0].file, "experiment/key.json");
}

TEST(SampleSeriesTest, OfAMeasurementThatIsNotKeptIsRemoved) {
  const ResultStore store(temporary_file("results"));
  measurement_with_series(store);
  store.remove_growing_logs("experiment", "key");
  EXPECT_FALSE(fs::exists(store.growing_series_path("experiment", "key")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
