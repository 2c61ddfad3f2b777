#include "sftbench/sweep/store_view.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::Optional;

// A folder that hosts share whose clocks are years apart.
class StoreViewTest : public testing::TestWithParam<int> {
 protected:
  StoreViewTest() { cell_.request.experiment = sample_failed().experiment; }

  // By a host whose clock is so many years ahead.
  void write(const Measurement& measurement) const {
    const fs::path path = store_.write(measurement, cell_.key);
    const auto years = std::chrono::hours(8766) * GetParam();
    fs::last_write_time(path, fs::file_time_type::clock::now() + years);
  }

  TemporaryFolder folder_;
  ResultStore store_{folder_.path()};
  SweepOptions options_;
  StoreView view_{store_, options_};
  Cell cell_{.request = {}, .inputs = {}, .key = "k"};
};

TEST_P(StoreViewTest, WhatHadFailedBeforeIsTriedAgain) {
  write(sample_failed());
  view_.remember(cell_.request.experiment);
  EXPECT_EQ(view_.settled(cell_), std::nullopt);
}

TEST_P(StoreViewTest, WhatHasFailedSinceWasJustTried) {
  view_.remember(cell_.request.experiment);
  write(sample_failed());
  EXPECT_THAT(view_.settled(cell_), Optional(Status::kFailed));
}

TEST_P(StoreViewTest, WhatHasFailedAgainSinceWasJustTried) {
  write(sample_failed());
  view_.remember(cell_.request.experiment);
  Measurement again = sample_failed();
  again.finished_at = "2026-11-21T07:38:22.4567Z";
  write(again);
  EXPECT_THAT(view_.settled(cell_), Optional(Status::kFailed));
}

TEST_P(StoreViewTest, WithoutAMemoryAllThatFailedIsTriedAgain) {
  write(sample_failed());
  EXPECT_EQ(view_.settled(cell_), std::nullopt);
}

TEST_P(StoreViewTest, WhoDoesNotRetryNeverDoes) {
  write(sample_failed());
  options_.retry_failed = false;
  view_.remember(cell_.request.experiment);
  EXPECT_THAT(view_.settled(cell_), Optional(Status::kFailed));
}

TEST_P(StoreViewTest, NamesTellWhatStoodAndWhatCame) {
  view_.remember(cell_.request.experiment);
  EXPECT_EQ(view_.seen(cell_), StoreView::Seen::kNothing);
  write(sample_failed());
  EXPECT_EQ(view_.seen(cell_), StoreView::Seen::kCame);
  StoreView later(store_, options_);
  later.remember(cell_.request.experiment);
  EXPECT_EQ(later.seen(cell_), StoreView::Seen::kStood);
  write(sample_valid());
  EXPECT_EQ(later.seen(cell_), StoreView::Seen::kStood) << "names tell no more";
}

TEST_P(StoreViewTest, AGlanceTellsHowACellHasEnded) {
  EXPECT_EQ(view_.glance(cell_), std::nullopt);
  write(sample_failed());
  EXPECT_THAT(view_.glance(cell_), Optional(Status::kFailed));
  write(sample_valid());
  EXPECT_THAT(view_.glance(cell_), Optional(Status::kValid));
  std::ofstream(store_.result_path(cell_.request.experiment, cell_.key)) << "{";
  EXPECT_EQ(view_.glance(cell_), std::nullopt);
}

TEST_P(StoreViewTest, AGlanceFindsTheStatusBehindALongEntity) {
  Measurement measurement = sample_valid();
  measurement.entity["note"] = std::string(10000, 'x') + "\n  \"status\": \"failed\"";
  write(measurement);
  EXPECT_THAT(view_.glance(cell_), Optional(Status::kValid));
}

INSTANTIATE_TEST_SUITE_P(YearsAhead, StoreViewTest, testing::Values(-30, 0, 30));

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
