#include "sftbench/data/entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

Entries two_files() {
  std::vector<JsonlFile> files;
  files.emplace_back(std::string_view("{\"t\": \"a\"}\n\n{\"t\": \"b\"}\n"), "first");
  files.emplace_back(std::string_view("{\"t\": \"c\"}\n{\"t\": 4}\n"), "second");
  return Entries(std::move(files));
}

TEST(EntriesTest, FilesStandOneBehindTheOther) {
  const Entries entries = two_files();
  ASSERT_EQ(entries.size(), 4);
  std::string all, text;
  Diagnostic error;
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(entries.read_text(i, "t", text, error));
    all += text;
  }
  EXPECT_EQ(all, "abc");
  Json object;
  ASSERT_TRUE(entries.read_object(3, object, error));
  EXPECT_EQ(object["t"], 4);
}

TEST(EntriesTest, ErrorsNameTheFileAndItsLine) {
  const Entries entries = two_files();
  std::string text;
  Diagnostic error;
  EXPECT_FALSE(entries.read_text(3, "t", text, error));
  EXPECT_THAT(to_string(error), HasSubstr("second:2: t: the field is a number"));
  EXPECT_EQ(entries.path(1), "first");
  EXPECT_EQ(entries.line_number(1), 3);
  EXPECT_EQ(entries.path(2), "second");
  EXPECT_EQ(entries.line_number(2), 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
