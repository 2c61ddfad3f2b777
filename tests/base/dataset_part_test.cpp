// Which entries a slice takes, compared with the package datasets
// (tests/reference/dataset_files.py).
#include "sftbench/base/dataset_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

TEST(DatasetPartTest, SlicesTakeTheEntriesThatThePackageDatasetsTakes) {
  const Json expected =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/data/dataset_files.json");
  ASSERT_GT(expected["slices"].size(), 20u);
  for (const auto& [slice, of_each] : expected["slices"].items()) {
    std::string found;
    for (const int64_t entries : expected["entries"].get<std::vector<int64_t>>()) {
      const EntryRange range = entry_range(slice, entries);
      if (!found.empty()) found += " ";
      found += range.begin == range.end
                   ? "none"
                   : std::to_string(range.begin) + "-" + std::to_string(range.end - 1);
      if (range.begin == range.end) continue;
      const int64_t decide = entries_that_decide(slice);
      EXPECT_EQ(entry_range(slice, std::min(decide, entries)).end, range.end) << slice;
    }
    EXPECT_EQ(found, of_each.get<std::string>()) << slice;
  }
}

std::string again(const std::string& text) {
  std::string problem;
  const DatasetPart part = dataset_part(text, problem);
  return problem.empty() ? text_of(part) : problem;
}

TEST(DatasetPartTest, ASliceStandsBehindItsSplit) {
  std::string problem;
  const DatasetPart part = dataset_part(":en:train_sft[10%:20%]", problem);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(part.config, "en");
  EXPECT_EQ(part.split, "train_sft");
  EXPECT_EQ(part.slice, "[10%:20%]");
  for (const char* text : {"", ":en", ":en:test", "::test", "::train[:5]", ":en:train[-5%:]"})
    EXPECT_EQ(again(text), text);
  EXPECT_EQ(again("::train"), "");
}

TEST(DatasetPartTest, WhatIsNoSliceIsNamed) {
  for (const char* slice : {"[]", "[5]", "[a:]", "[:1.5%]", "[:101%]", "[:%]", "[1:2:3]",
                            "[:-101%]", "[-9223372036854775808%:]"})
    EXPECT_THAT(again(std::string("::train") + slice),
                HasSubstr(std::string("'") + slice + "' is no slice"));
  EXPECT_THAT(again(":train[:5]"), HasSubstr("names no config and split"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
