#include "sftbench/sweep/store_view.h"

#include <gmock/gmock.h>

#include <chrono>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"

namespace sftbench {
namespace {

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

INSTANTIATE_TEST_SUITE_P(YearsAhead, StoreViewTest, testing::Values(-30, 0, 30));

}  // namespace
}  // namespace sftbench
