// What `status` and a sweep look at again and again.
#include "sftbench/results/outcome_scan.h"

#include <gtest/gtest.h>

#include "results/result_files.h"
#include "results/sample_measurement.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(OutcomeScanTest, AnEmptyFolderWillHoldResultsAndAnotherHoldsNone) {
  const std::filesystem::path folder = fresh_results("none");
  std::filesystem::create_directories(folder);
  OutcomeScan(folder).refresh();
  put(folder, std::string("notes.txt"), "not of ours");
  EXPECT_THROW(OutcomeScan(folder).refresh(), std::exception);
}

TEST(OutcomeScanTest, FollowsResultsThatComeChangeAndGo) {
  const std::filesystem::path folder = fresh_results("outcomes");
  const std::string experiment = sample_valid().experiment + "/";
  put(folder, sample_valid(), "a");
  put(folder, sample_invalid(), "b");
  put(folder, sample_valid(), "b", 2);  // the first sample counts
  put(folder, experiment + "c.json", "{");
  OutcomeScan scan(folder);
  scan.refresh();
  ASSERT_EQ(scan.cells().size(), 2U);
  EXPECT_EQ(scan.cells().at(experiment + "a").status, Status::kValid);
  EXPECT_EQ(scan.cells().at(experiment + "b").status, Status::kInvalid);
  EXPECT_EQ(scan.unreadable(), 1);
  std::filesystem::remove(folder / experiment / "a.json");
  put(folder, sample_valid(), "c");
  put(folder, experiment + "b.json", "{");
  scan.refresh();
  ASSERT_EQ(scan.cells().size(), 1U);
  EXPECT_EQ(scan.cells().at(experiment + "c").status, Status::kValid);
  EXPECT_EQ(scan.unreadable(), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
