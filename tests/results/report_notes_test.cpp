// What a report says of all its results together.
#include "sftbench/results/report_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/report.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

class ReportNotesTest : public testing::Test {
 protected:
  ReportNotesTest()
      : directory_(fresh_results(testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~ReportNotesTest() override { std::filesystem::remove_all(directory_); }

  void measure(const std::string& key, int cells, int length,
               const char* name = "concurrent_cells") const {
    Measurement measurement = sample_valid();
    measurement.inputs["model_max_length"] = length;
    measurement.environment[name] = cells;
    put(directory_, measurement, key);
  }
  StoreScan scan() const { return ResultStore(directory_).scan(); }

  std::filesystem::path directory_;
};

TEST_F(ReportNotesTest, WithoutAnythingToSayThereAreNone) {
  measure("a", 1, 64);
  measure("b", 1, 128);
  put(directory_, sample_valid(), "c");  // that does not say
  const StoreScan all = scan();
  EXPECT_THAT(report_notes({&all}), IsEmpty());
  const ReportTable table = short_table(all);
  EXPECT_TRUE(std::none_of(table.columns.begin(), table.columns.end(),
                           [](const ReportColumn& c) { return c.name == "concurrent_cells"; }));
}

TEST_F(ReportNotesTest, ResultsThatWereMeasuredBesideOthersAreToldFromThoseThatWereNot) {
  measure("a", 0, 64);
  measure("b", 0, 128);
  measure("c", 1, 256, "neighbours");  // as versions before 0.2.0 called it
  const StoreScan all = scan();
  EXPECT_THAT(report_notes({&all}),
              ElementsAre("measured beside different numbers of concurrent cells (sweep --jobs): 2 "
                          "results with none, 1 result with 1. Their times and rates do not "
                          "compare; --wide has the column concurrent_cells"));
  const ReportTable table = short_table(all);
  const auto column =
      std::find_if(table.columns.begin(), table.columns.end(),
                   [](const ReportColumn& c) { return c.name == "concurrent_cells"; });
  ASSERT_NE(column, table.columns.end());
  std::vector<double> cells;
  for (const Scalar& cell : column->cells) cells.push_back(cell.as_number().value_or(-1));
  EXPECT_THAT(cells, ElementsAre(0, 0, 1));
}

TEST_F(ReportNotesTest, DirectoriesThatAreComparedAreLookedAtTogether) {
  measure("a", 0, 64);
  const StoreScan alone = scan();
  measure("a", 3, 64);
  const StoreScan beside = scan();
  EXPECT_THAT(report_notes({&alone}), IsEmpty());
  EXPECT_THAT(report_notes({&beside}), IsEmpty());
  EXPECT_EQ(report_notes({&alone, &beside}).size(), 1U);
}

TEST_F(ReportNotesTest, ResultsOfABusyMachineAreCounted) {
  const auto measure_with = [this](const std::string& key, int length, double share) {
    Measurement measurement = sample_valid();
    measurement.inputs["model_max_length"] = length;
    measurement.extra["run_queue_wait_share"] = share;
    put(directory_, measurement, key);
  };
  measure_with("a", 64, 0.02);
  const StoreScan idle = scan();
  EXPECT_THAT(report_notes({&idle}), IsEmpty());
  measure_with("b", 128, 0.38);
  const StoreScan all = scan();
  EXPECT_THAT(
      report_notes({&all}),
      ElementsAre("1 result of a machine that was busy with something else: their speed is "
                  "too low, as the column machine says; measure them again when it is idle"));
}

TEST_F(ReportNotesTest, RepeatsOfUnlikeMachinesAreNamed) {
  const auto measure_on = [this](int sample, int threads, const char* cpu) {
    Measurement measurement = sample_valid();
    measurement.measured["train_runtime"] = sample;
    measurement.environment["gpus"] = Json::array();
    measurement.environment["threads"] = threads;
    measurement.environment["cpu"] = cpu;
    put(directory_, measurement, "a", sample);
  };
  measure_on(1, 2, "EPYC");
  measure_on(2, 2, "EPYC");
  const StoreScan alike = scan();
  EXPECT_THAT(report_notes({&alike}), IsEmpty());
  measure_on(3, 1, "EPYC");
  const StoreScan all = scan();
  EXPECT_THAT(report_notes({&all}),
              ElementsAre("1 configuration with repeats of unlike machines (1 thread of EPYC; 2 "
                          "threads of EPYC): a median of these is of none of them; a folder for "
                          "each keeps them apart"));
}

TEST_F(ReportNotesTest, ResumedResultsAreCounted) {
  Measurement measurement = sample_valid();
  measurement.extra["resumed"] = {{"from", "out/checkpoint-20"}, {"step", 20}};
  put(directory_, measurement, "a");
  const StoreScan all = scan();
  EXPECT_THAT(report_notes({&all}),
              ElementsAre("1 result of resumed training: times, steps and first losses are of what "
                          "was left of it; --wide has the column resumed_at_step"));
}

TEST_F(ReportNotesTest, ResultsOfOlderVersionsAreCounted) {
  put(directory_, sample_valid(), "a");
  put(directory_, sample_valid().experiment + "/b.json", to_json(sample_valid()).dump());
  const StoreScan all = scan();
  EXPECT_THAT(report_notes({&all}),
              ElementsAre("1 result without a checksum, of an older sftbench: damage to them "
                          "cannot be seen"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
