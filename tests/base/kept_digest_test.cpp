// What is kept of a file's digest, and when it is taken again. A process remembers what it has
// read, so that each look is one of a process of its own.
#include "sftbench/base/kept_digest.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

class KeptDigestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("sftbench-kept-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    write_file_atomic(large_, std::string(size_t{2} << 20, 'a'));
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }

  static bool in_another_process(const std::function<bool()>& look) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(look() ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
  }
  static bool is_kept(const fs::path& file) {
    return in_another_process([&] { return digest_is_kept(file); });
  }
  // Until the file is old enough.
  static void keep(const fs::path& file) {
    while (!is_kept(file)) {
      in_another_process([&] { return !kept_digest(file).empty(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  fs::path entry() const {
    return fs::directory_iterator(folder_ / "cache/sftbench/digests")->path();
  }

  fs::path folder_ = fs::temp_directory_path() / ("sftbench-kept-" + std::to_string(::getpid()));
  fs::path large_ = folder_ / "large";
};

TEST_F(KeptDigestTest, IsThatOfTheFile) {
  write_file_atomic(folder_ / "small", "text");
  for (const char* name : {"small", "large"}) {
    EXPECT_EQ(kept_digest(folder_ / name), digest_file(folder_ / name));
  }
  EXPECT_THROW(kept_digest(folder_ / "none"), InputError);
  EXPECT_THROW(kept_digest(folder_), InputError);
}

TEST_F(KeptDigestTest, WhatHasJustChangedIsNotKept) {
  EXPECT_FALSE(in_another_process([&] { return kept_digest(large_).empty(); }));
  EXPECT_FALSE(is_kept(large_));
}

TEST_F(KeptDigestTest, IsTakenAgainWhileTheFileStays) {
  fs::create_directory(folder_ / "inner");
  fs::rename(large_, folder_ / "inner/file");
  keep(folder_ / "inner/file");
  fs::rename(folder_ / "inner", folder_ / "outer");
  EXPECT_TRUE(is_kept(folder_ / "outer/file"))
      << "a folder that moves leaves its files as they are";
  const auto entries = fs::directory_iterator(folder_ / "cache/sftbench/digests");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "one for each file";
}

TEST_F(KeptDigestTest, AChangeInPlaceIsSeenWhateverTimeTheFileClaims) {
  keep(large_);
  struct stat before {};
  ::stat(large_.c_str(), &before);
  const std::string sum = kept_digest(large_);
  const int file = ::open(large_.c_str(), O_WRONLY);
  EXPECT_EQ(::pwrite(file, "b", 1, 4096), 1);
  ::close(file);
  const timespec times[] = {before.st_atim, before.st_mtim};
  ::utimensat(AT_FDCWD, large_.c_str(), times, 0);
  EXPECT_FALSE(is_kept(large_));
  EXPECT_NE(kept_digest(large_), sum);
  EXPECT_EQ(kept_digest(large_), digest_file(large_));
}

TEST_F(KeptDigestTest, WhatIsDamagedIsNotTrusted) {
  keep(large_);
  const std::string text = read_file(entry());
  for (size_t at = 0; at < text.size(); at += 7) {
    std::string damaged = text;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    write_file_atomic(entry(), damaged);
    EXPECT_FALSE(is_kept(large_)) << damaged;
  }
  for (const std::string& damaged : {std::string(), text.substr(0, 40), text + "x"}) {
    write_file_atomic(entry(), damaged);
    EXPECT_FALSE(is_kept(large_)) << damaged;
  }
  write_file_atomic(entry(), text);
  EXPECT_TRUE(is_kept(large_));
}

TEST_F(KeptDigestTest, WithoutACacheTheFileIsRead) {
  write_file_atomic(folder_ / "cache", "a file where the folder would be");
  EXPECT_EQ(kept_digest(large_), digest_file(large_));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
