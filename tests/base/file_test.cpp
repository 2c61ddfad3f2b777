#include "sftbench/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("sftbench-file-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(FileTest, APointerOfGitLfsIsNotTheFile) {
  const fs::path path = folder_ / "config.json";
  write_file_atomic(path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n");
  try {
    read_json_file(path);
    FAIL() << "read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("config.json: the file is a Git LFS pointer"));
  }
}

TEST_F(FileTest, AtomicWriteMakesFoldersReplacesAndLeavesNothingElse) {
  const fs::path path = folder_ / "a" / "b.json";
  write_file_atomic(path, "one");
  write_file_atomic(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), fs::directory_iterator()), 1);
}

TEST_F(FileTest, FullDiskKeepsTheOldContent) {
  EXPECT_THROW(write_file_atomic("/dev/full/x", "content"), InputError);
}

TEST_F(FileTest, AtomicFileIsThereAfterCommitOnly) {
  const fs::path path = folder_ / "large";
  {
    AtomicFile abandoned(path);
    abandoned.append("half");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  AtomicFile file(path);
  file.append("one ");
  file.append("two");
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(read_file(path), "one two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, WhatAUserNamesIsWrittenThrough) {
  const fs::path target = folder_ / "there" / "target", link = folder_ / "link";
  fs::create_directory(folder_ / "there");
  fs::create_symlink("there/target", link);  // dangling, at first
  for (const std::string content : {"new", "newer"}) {
    AtomicFile file(link, NamedBy::kUser);
    file.append(content);
    file.commit();
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_file(target), content);
  }

  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const OwnedFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  AtomicFile file(pipe, NamedBy::kUser);
  file.append("through");
  file.commit();
  char buffer[16] = {};
  EXPECT_EQ(::read(reader.get(), buffer, sizeof buffer), 7);
  EXPECT_STREQ(buffer, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));

  AtomicFile full("/dev/full", NamedBy::kUser);
  EXPECT_THROW(full.append("content"), InputError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(FileTest, AtAPlaceOfTheProgramsOwnALinkIsReplacedAndADeviceIsNot) {
  const fs::path target = folder_ / "target", link = folder_ / "link", pipe = folder_ / "pipe";
  write_file_atomic(target, "somebody's");
  fs::create_symlink(target, link);
  write_file_atomic(link, "ours");
  EXPECT_EQ(read_file(target), "somebody's");
  EXPECT_EQ(read_file(link), "ours");
  EXPECT_FALSE(fs::is_symlink(link));

  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(write_file_atomic(pipe, "ours"), InputError);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(FileTest, MissingFileIsNamedWithTheReason) {
  try {
    read_file(folder_ / "none.txt");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("none.txt: cannot open: No such file or directory"));
  }
}

TEST_F(FileTest, MappedFileEqualsItsContentAndMayBeEmpty) {
  write_file_atomic(folder_ / "m", "mapped");
  write_file_atomic(folder_ / "e", "");
  EXPECT_EQ(MappedFile(folder_ / "m").text(), "mapped");
  EXPECT_EQ(MappedFile(folder_ / "e").text(), "");
}

TEST_F(FileTest, PiecesAreReadFromAnywhereAndEndWithTheFile) {
  write_file_atomic(folder_ / "p", "0123456789");
  const RandomAccessFile file(folder_ / "p");
  char buffer[8] = {};
  EXPECT_EQ(file.read_at(3, buffer, 4), 4u);
  EXPECT_EQ(std::string(buffer, 4), "3456");
  EXPECT_EQ(file.read_at(8, buffer, 4), 2u);
  EXPECT_EQ(file.read_at(100, buffer, 4), 0u);
  EXPECT_THROW(RandomAccessFile(folder_ / "none"), InputError);
}

TEST_F(FileTest, DigestOfAFileEqualsThatOfItsContent) {
  const std::string content(3'000'000, 'x');
  write_file_atomic(folder_ / "d", content);
  EXPECT_EQ(digest_file(folder_ / "d"), digest(content));
  EXPECT_EQ(digest("").size(), 32u);
  EXPECT_EQ(digest("a"),
            "a96faf705af16834e6c632b61e964e1f");  // XXH3-128 of "a", as xxhsum gives it
}

TEST_F(FileTest, JsonErrorNamesFileAndLine) {
  try {
    parse_json("{\n\"a\": 1,\n oops}", "x.json");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "x.json:3: not JSON at column 2: syntax error while parsing object key - invalid "
                 "literal; last "
                 "read: '1,<U+000A> o'; expected string literal");
  }
}

TEST_F(FileTest, JsonErrorAtALineEndCountsTheLineThatItEnds) {
  try {
    parse_json("{\"a\": \"open\n}", "x.json");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("x.json:1: not JSON at column 12: "));
  }
}

TEST_F(FileTest, MappingAFolderSaysThatItIsOne) {
  try {
    const MappedFile file(folder_);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), folder_.string() + ": is a folder; expected a regular file");
  }
}

TEST(TextTest, NearestSpellingFindsTyposOnly) {
  const std::vector<std::string> names = {"batch_size", "model_name", "number_gpus"};
  EXPECT_EQ(nearest_spelling("batchsize", names), "batch_size");
  EXPECT_EQ(nearest_spelling("Number_GPU", names), "number_gpus");
  EXPECT_EQ(nearest_spelling("zebra", names), "");
}

TEST(TextTest, NearestSpellingFindsBeginnings) {
  const std::vector<std::string> names = {"adamw_torch_fused", "adamw_torch", "lion_8bit"};
  EXPECT_EQ(nearest_spelling("ADAMW", names), "adamw_torch");
  EXPECT_EQ(nearest_spelling("lion", names), "lion_8bit");
  EXPECT_EQ(nearest_spelling("ad", names), "");
  EXPECT_EQ(nearest_spelling("8BIT", names), "lion_8bit") << "a part of it";
  EXPECT_EQ(nearest_spelling("NVIDIA-A100", {"NVIDIA-A10G", "NVIDIA-A100-80GB-PCIe"}),
            "NVIDIA-A100-80GB-PCIe")
      << "a beginning means more than a few edits";
  EXPECT_EQ(nearest_spelling("lion_8bit_and_more_than_that", names), "");
}

TEST(ReadFileTest, AFileThatIsFarTooLargeIsNotRead) {
  const fs::path path = fs::path(testing::TempDir()) / ("large_" + std::to_string(::getpid()));
  write_file_atomic(path, "x");
  fs::resize_file(path, uintmax_t{1} << 40);  // without a block on the disk
  try {
    read_file(path);
    ADD_FAILURE() << "read a tebibyte";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(),
              path.string() + ": larger than 1 GiB; expected a text file; is this the right one?");
  }
  EXPECT_THROW(read_json_file(path), InputError);
  EXPECT_THROW(MappedFile(path, 1 << 20), InputError);
  EXPECT_EQ(MappedFile(path).size_bytes(), size_t{1} << 40) << "weights may be as large";
  fs::remove(path);
}

TEST(ReadFileTest, AFileOfTheKernelHasNoSizeAndIsReadWhole) {
  EXPECT_THAT(read_file("/proc/self/status"), ::testing::HasSubstr("VmData"));
}

// A reader of anything but a file of size would wait for a writer, or read without end.
class NoRegularFileTest : public FileTest {
 protected:
  void SetUp() override {
    FileTest::SetUp();
    ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_LT((folder_ / "socket").string().size(), sizeof address.sun_path);
    std::strcpy(address.sun_path, (folder_ / "socket").c_str());
    socket_ = OwnedFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    fs::create_symlink("/dev/zero", folder_ / "link");
  }

  template <class Read>
  void expect_refusals(const Read& read) {
    const std::pair<fs::path, const char*> cases[] = {
        {folder_ / "pipe", "a pipe"}, {folder_ / "socket", "a socket"},
        {folder_, "a folder"},        {folder_ / "link", "a device"},
        {"/dev/zero", "a device"},    {"/dev/null", "a device"}};
    for (const auto& [path, kind] : cases) {
      try {
        read(path);
        ADD_FAILURE() << path << " was read";
      } catch (const InputError& error) {
        EXPECT_EQ(error.what(), path.string() + ": is " + kind + "; expected a regular file");
      }
    }
  }

  OwnedFd socket_;
};

// The system would open "victim".
TEST_F(NoRegularFileTest, NorIsANameWithAZeroByte) {
  std::ofstream(folder_ / "victim") << "precious";
  const fs::path path = (folder_ / "victim").string() + std::string("\0x", 2);
  try {
    read_file(path);
    ADD_FAILURE() << "was read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has a zero byte in its name"));
  }
}

TEST_F(NoRegularFileTest, IsRefusedByEveryReader) {
  expect_refusals([](const fs::path& path) { read_file(path); });
  expect_refusals([](const fs::path& path) { read_json_file(path.string()); });
  expect_refusals([](const fs::path& path) { MappedFile file(path); });
  expect_refusals([](const fs::path& path) { RandomAccessFile file(path); });
  expect_refusals([](const fs::path& path) { digest_file(path); });
}

TEST_F(NoRegularFileTest, AWriterAtAPipeIsNotWokenUp) {
  const OwnedFd writer(::open((folder_ / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(writer.get(), "x", 1), 1);
  EXPECT_THROW(read_file(folder_ / "pipe"), InputError);
  char left = 0;
  EXPECT_EQ(::read(writer.get(), &left, 1), 1) << "what it wrote is still there";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
