#include "sftbench/results/leftovers.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "results/temporary_folder.h"
#include "sftbench/results/key_lock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;

class LeftoversTest : public testing::Test {
 protected:
  void make(const std::string& name) { std::ofstream(folder_.path() / name) << name; }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(LeftoversTest, LocksOfTheDeadAndTheirUnfinishedFilesGo) {
  for (const char* name : {"a.lock", "a.growing.log", "a.2.growing.log", ".a.json.77.tmp"})
    make(name);
  remove_leftovers(folder_.path());
  EXPECT_TRUE(names().empty());
}

TEST_F(LeftoversTest, ResultsAndFilesOfOtherKeysStay) {
  for (const char* name :
       {"a.lock", "a.json", "a.log", "a.2.json", "b.growing.log", "ab.growing.log"}) {
    make(name);
  }
  remove_leftovers(folder_.path());
  EXPECT_THAT(names(),
              ElementsAre("a.2.json", "a.json", "a.log", "ab.growing.log", "b.growing.log"));
}

TEST_F(LeftoversTest, WhatARunningSweepHasLockedStays) {
  make("a.growing.log");
  const auto lock = KeyLock::try_acquire(folder_.path() / "a.lock");
  remove_leftovers(folder_.path());
  EXPECT_THAT(names(), ElementsAre("a.growing.log", "a.lock"));
}

TEST_F(LeftoversTest, AFolderThatIsNotThereHasNone) {
  EXPECT_NO_THROW(remove_leftovers(folder_.path() / "absent"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
