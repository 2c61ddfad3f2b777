#include "sftbench/results/left_out.h"

#include <gmock/gmock.h>

#include <fstream>

#include "results/temporary_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LeftOutTest : public testing::Test {
 protected:
  static LeftOutCell cell(const std::string& key) {
    return {"finetune", key, "entity " + key, "batch_size=2", "BEATEN", 0.5, 0.01, "why", "2026"};
  }

  void write(const std::string& space, const std::vector<LeftOutCell>& cells) const {
    write_left_out(folder_.path().string(), space, cells);
  }

  std::vector<LeftOutCell> read() { return read_left_out(folder_.path().string(), problems_); }

  std::vector<std::string> keys() {
    std::vector<std::string> keys;
    for (const LeftOutCell& one : read()) keys.push_back(one.key);
    return keys;
  }

  TemporaryFolder folder_;
  std::vector<std::string> problems_;
};

TEST_F(LeftOutTest, ComesBackAsItWasWritten) {
  LeftOutCell dies = cell("b");
  dies.reason = "OOM_GPU";
  dies.at_most.reset();
  dies.dies = 0.999;
  write("space", {cell("a"), dies});
  const std::vector<LeftOutCell> cells = read();
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].entity_id, "entity a");
  EXPECT_EQ(cells[0].label, "batch_size=2");
  EXPECT_EQ(cells[0].at_most, 0.5);
  EXPECT_EQ(cells[0].message, "why");
  EXPECT_EQ(cells[1].reason, "OOM_GPU");
  EXPECT_FALSE(cells[1].at_most);
  EXPECT_EQ(cells[1].dies, 0.999);
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(LeftOutTest, ALaterSweepOfTheSpaceReplacesItAndOthersStay) {
  write("one", {cell("a"), cell("b")});
  write("two", {cell("b"), cell("c")});
  EXPECT_THAT(keys(), ElementsAre("a", "b", "c"));
  write("one", {});
  EXPECT_THAT(keys(), ElementsAre("b", "c"));
}

TEST_F(LeftOutTest, WhatWasMeasuredMeanwhileNoLongerCounts) {
  write("space", {cell("a"), cell("b")});
  fs::create_directories(folder_.path() / "finetune");
  std::ofstream(folder_.path() / "finetune" / "a.json") << "{}";
  EXPECT_THAT(keys(), ElementsAre("b"));
}

TEST_F(LeftOutTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(read(), IsEmpty()) << "a folder without any";
  write("space", {cell("a")});
  std::ofstream(folder_.path() / "left_out" / "cut.jsonl") << "{\"schema\": \"sftb";
  std::ofstream(folder_.path() / "left_out" / "newer.jsonl") << R"({"schema": "other/2"})"
                                                             << "\n";
  std::ofstream(folder_.path() / "left_out" / "bare.jsonl")
      << R"({"schema": "sftbench.left_out/1"})"
      << "\n";
  EXPECT_THAT(keys(), ElementsAre("a"));
  std::sort(problems_.begin(), problems_.end());
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("bare.jsonl:1"), HasSubstr("cut.jsonl"),
                                     HasSubstr("newer.jsonl:1")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
