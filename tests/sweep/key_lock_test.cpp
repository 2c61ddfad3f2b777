#include "sftbench/sweep/key_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sweep/temporary_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KeyLockTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "key.lock";
};

TEST_F(KeyLockTest, IsHeldByOneAndNamesTheHolder) {
  const auto first = KeyLock::try_acquire(path_);
  ASSERT_TRUE(first);
  std::string holder;
  EXPECT_FALSE(KeyLock::try_acquire(path_, &holder));
  EXPECT_THAT(holder, HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(KeyLockTest, LeavesNoFileBehind) {
  { const auto lock = KeyLock::try_acquire(path_); }
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_TRUE(KeyLock::try_acquire(path_));
}

TEST_F(KeyLockTest, AFailedTryLeavesTheHoldersFile) {
  const auto lock = KeyLock::try_acquire(path_);
  EXPECT_FALSE(KeyLock::try_acquire(path_));
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(KeyLockTest, AFileThatAKilledProcessLeftIsNoLock) {
  std::ofstream(path_) << "elsewhere, process 1";
  EXPECT_TRUE(KeyLock::try_acquire(path_));
}

TEST_F(KeyLockTest, AChildThatInheritsItKeepsItWhenItsParentIsGone) {
  int ready[2], end[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(end), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto lock = KeyLock::try_acquire(path_);
    if (::fork() == 0) {
      char byte = 0;
      if (::write(ready[1], "x", 1) != 1 || ::read(end[0], &byte, 1) != 1) ::_exit(1);
      ::_exit(0);
    }
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_FALSE(KeyLock::try_acquire(path_));
  ASSERT_EQ(::write(end[1], "x", 1), 1);
  std::optional<KeyLock> lock;
  while (!lock) lock = KeyLock::try_acquire(path_);  // as soon as the grandchild has ended
}

// Each holder removes the file; who had it open already must not take what has no name for the
// lock.
TEST_F(KeyLockTest, NeverTwoHoldersWhileFilesComeAndGo) {
  std::atomic<int> holders = 0, taken = 0;
  std::atomic<bool> two_at_once = false;
  const double too_late_s = steady_seconds() + 60;
  const auto contend = [&] {
    for (int mine = 0; mine < 100 && steady_seconds() < too_late_s;) {
      const auto lock = KeyLock::try_acquire(path_);
      if (!lock) continue;
      if (++holders > 1) two_at_once = true;
      ++mine;
      ++taken;
      std::this_thread::yield();
      --holders;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(contend);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(two_at_once);
  EXPECT_EQ(taken, 400);
}

TEST_F(KeyLockTest, SaysWhereItCannotBeMade) {
  try {
    KeyLock::try_acquire(folder_.path() / "absent" / "key.lock");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("absent/key.lock: cannot make the lock: No such file"));
  }
}

}  // namespace
}  // namespace sftbench
