#include "sftbench/base/shared_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SharedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("sftbench-shared-file-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "victim") << "precious";
  }
  void TearDown() override { fs::remove_all(folder_); }

  template <typename Body>
  static std::string error_of(Body body) {
    try {
      body();
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }

  fs::path folder_;
};

TEST_F(SharedFileTest, ANewFileTakesTheNameOfWhatStoodThereAndSparesIt) {
  fs::create_symlink(folder_ / "victim", folder_ / "link");
  fs::create_hard_link(folder_ / "victim", folder_ / "other name");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "other name", "pipe", "absent"}) {
    EXPECT_TRUE(write_whole(make_new_file(folder_ / name, "write").get(), "new"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / name))) << name;
    EXPECT_EQ(read_file(folder_ / name), "new");
  }
  EXPECT_EQ(read_file(folder_ / "victim"), "precious");
}

TEST_F(SharedFileTest, ANewFileSaysWhyThereIsNone) {
  fs::create_directory(folder_ / "folder");
  EXPECT_THAT(error_of([&] { make_new_file(folder_ / "folder", "write the log"); }),
              HasSubstr("folder: cannot write the log: Is a directory"));
  EXPECT_THAT(error_of([&] { make_new_file(folder_ / "absent/file", "write the log"); }),
              HasSubstr("absent/file: cannot write the log: No such file or directory"));
}

TEST_F(SharedFileTest, AFileThatIsGoneOnWithIsNoLinkAndNoPipe) {
  fs::create_symlink(folder_ / "victim", folder_ / "link");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const bool appends : {false, true}) {
    const auto error = [&](const char* name) {
      return error_of([&] {
        if (appends) {
          append_to_file(folder_ / name, "new", "write the log");
        } else {
          open_or_make_file(folder_ / name, "write the log");
        }
      });
    };
    EXPECT_THAT(error("link"), HasSubstr("link: cannot write the log: a symbolic link"));
    EXPECT_THAT(error("pipe"), HasSubstr("pipe: cannot write the log: "));
    EXPECT_THROW(open_to_append(folder_ / "pipe", "write"), NameTaken);
    EXPECT_THROW(open_to_append(folder_, "write"), NameTaken);
    EXPECT_EQ(error("victim"), "none");
  }
  EXPECT_EQ(read_file(folder_ / "victim"), "preciousnew");
}

TEST_F(SharedFileTest, ALinkIsNoNameOfItsTarget) {
  fs::create_symlink(folder_ / "victim", folder_ / "link");
  const OwnedFd file = open_or_make_file(folder_ / "victim", "read");
  EXPECT_TRUE(is_name_of(folder_ / "victim", file.get()));
  EXPECT_FALSE(is_name_of(folder_ / "link", file.get()));
  EXPECT_FALSE(is_name_of(folder_ / "absent", file.get()));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
