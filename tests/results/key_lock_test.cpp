#include "sftbench/results/key_lock.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "results/temporary_folder.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

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

std::string error_of(const fs::path& path) {
  try {
    KeyLock::try_acquire(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(KeyLockTest, DoesNotFollowALink) {
  std::ofstream(folder_.path() / "victim") << "precious";
  fs::create_symlink(folder_.path() / "victim", path_);
  EXPECT_EQ(error_of(path_),
            path_.string() + ": cannot make the lock: a symbolic link stands there; remove it");
  EXPECT_EQ(read_file(folder_.path() / "victim"), "precious");
  fs::remove(folder_.path() / "victim");
  EXPECT_THAT(error_of(path_), HasSubstr("a symbolic link stands there"));
  EXPECT_FALSE(fs::exists(folder_.path() / "victim")) << "nothing was made behind the link";
}

TEST_F(KeyLockTest, TakesNothingButARegularFile) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(error_of(path_), HasSubstr("no regular file stands there"));
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_THAT(error_of(path_), HasSubstr("Is a directory"));
}

TEST_F(KeyLockTest, DoesNotWriteToAFileThatHasOtherNames) {
  std::ofstream(folder_.path() / "victim") << "precious";
  fs::create_hard_link(folder_.path() / "victim", path_);
  const auto lock = KeyLock::try_acquire(path_);
  EXPECT_TRUE(lock);
  EXPECT_FALSE(KeyLock::try_acquire(path_));
  EXPECT_EQ(read_file(folder_.path() / "victim"), "precious");
}

TEST_F(KeyLockTest, LeavesTheLockOfAnotherThatGotItsName) {
  fs::create_directory(folder_.path() / "results");
  const fs::path path = folder_.path() / "results" / "key.lock";
  auto first = KeyLock::try_acquire(path);
  fs::rename(folder_.path() / "results", folder_.path() / "elsewhere");
  fs::create_directory(folder_.path() / "results");
  const auto second = KeyLock::try_acquire(path);
  ASSERT_TRUE(second);
  first.reset();
  EXPECT_TRUE(fs::exists(path));
  EXPECT_FALSE(KeyLock::try_acquire(path));
}

TEST_F(KeyLockTest, WhoInsistsIsToldTheHolder) {
  const KeyLock lock = KeyLock::acquire(path_);
  try {
    KeyLock::acquire(path_);
    FAIL();
  } catch (const KeyBusy& error) {
    EXPECT_THAT(error.what(), HasSubstr("measured by "));
    EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(::getpid())));
  }
}

TEST_F(KeyLockTest, SaysWhereItCannotBeMade) {
  try {
    KeyLock::try_acquire(folder_.path() / "absent" / "key.lock");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("absent/key.lock: cannot make the lock: No such file"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
