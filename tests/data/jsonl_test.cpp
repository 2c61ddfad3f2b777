#include "sftbench/data/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

std::string error_of(std::string_view content, int64_t entry = 0) {
  try {
    JsonlFile(content, "x.jsonl").text(entry, "output");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Jsonl, EntriesAreTheLinesThatAreNotBlank) {
  const JsonlFile file("\n{\"output\": \"one\"}\r\n \t\n{\"x\": 1, \"output\": \"two\"}",
                       "x.jsonl");
  ASSERT_EQ(file.size(), 2);
  EXPECT_EQ(file.text(0, "output"), "one");
  EXPECT_EQ(file.text(1, "output"), "two");
  EXPECT_EQ(file.line_number(0), 2);
  EXPECT_EQ(file.line_number(1), 4);
  EXPECT_EQ(file.line(0), "{\"output\": \"one\"}\r");
}

TEST(Jsonl, OnlyTheTopLevelFieldCountsAndTheLastOfEqualKeys) {
  EXPECT_EQ(
      JsonlFile(R"({"a": {"output": "inner"}, "b": ["output", {"output": 1}], "output": "outer"})",
                "x")
          .text(0, "output"),
      "outer");
  EXPECT_EQ(JsonlFile(R"({"output": "first", "output": "last"})", "x").text(0, "output"), "last");
  EXPECT_THAT(error_of(R"({"output": "first", "output": null})"), HasSubstr("the field is null"));
}

TEST(Jsonl, EscapesBecomeUtf8) {
  EXPECT_EQ(JsonlFile(R"({"output": "\u00e9\ud83d\ude42\n\"\\\/é🙂"})", "x").text(0, "output"),
            "é🙂\n\"\\/é🙂");
}

TEST(Jsonl, ALineWithoutEndIsRefusedBeforeItIsHeld) {
  const auto path = std::filesystem::path(testing::TempDir()) / "endless.jsonl";
  std::ofstream(path) << "{\"output\": \"fine\"}\n0";
  std::filesystem::resize_file(path, uintmax_t{1} << 40);  // zeros, without a block on the disk
  try {
    const JsonlFile file(path);
    ADD_FAILURE() << "read a tebibyte";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(),
              path.string() + ":2: longer than 256 MiB; expected one JSON object per line");
  }
  std::filesystem::remove(path);
}

TEST(Jsonl, BadLineIsNamedWithItsNumberAndOnlyWhenItIsRead) {
  const std::string content = "{\"output\": \"fine\"}\n\n{\"output\": oops}\n";
  EXPECT_EQ(JsonlFile(content, "x.jsonl").text(0, "output"), "fine");
  EXPECT_EQ(error_of(content, 1),
            "x.jsonl:3: not JSON at column 12: syntax error while parsing value - invalid literal; "
            "last read: "
            "'\"output\": o'; expected one JSON object per line");
  EXPECT_THAT(error_of("{\"output\": \"cut off"), HasSubstr("x.jsonl:1: not JSON at column"));
  EXPECT_THAT(error_of("{\"output\": \"a\"} x"), HasSubstr("x.jsonl:1: not JSON at column 17"));
}

TEST(Jsonl, MissingFieldNamesThoseThatThereAreAndTheNearest) {
  EXPECT_EQ(error_of(R"({"input": "a", "ouput": "b"})"),
            "x.jsonl:1: output: no such field; found input, ouput; did you mean 'ouput'?");
  EXPECT_EQ(error_of("{}"), "x.jsonl:1: output: no such field; the object is empty");
}

TEST(Jsonl, FieldOfAnotherTypeIsNamed) {
  EXPECT_EQ(error_of(R"({"output": 3})"),
            "x.jsonl:1: output: the field is a number; expected a string");
  EXPECT_EQ(error_of(R"({"output": ["a"]})"),
            "x.jsonl:1: output: the field is a list; expected a string");
  EXPECT_EQ(error_of(R"({"output": {"output": "a"}})"),
            "x.jsonl:1: output: the field is an object; expected a string");
}

TEST(Jsonl, LineThatIsNoObjectIsNamed) {
  EXPECT_EQ(error_of("{}\n[\"output\", \"a\"]", 1),
            "x.jsonl:2: the line is a list; expected a JSON object with the field 'output'");
  EXPECT_EQ(error_of(R"("output")"),
            "x.jsonl:1: the line is a string; expected a JSON object with the field 'output'");
}

TEST(Jsonl, InvalidUtf8AndLoneSurrogatesAreErrors) {
  EXPECT_THAT(error_of("{\"output\": \"a\xff\"}"),
              HasSubstr("x.jsonl:1: byte 0xFF at column 14 is not UTF-8; expected UTF-8: iconv"));
  EXPECT_THAT(error_of(R"({"output": "\ud800"})"),
              HasSubstr("surrogate U+D800..U+DBFF must be followed"));
}

TEST(Jsonl, DeepNestingExhaustsNoStack) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(error_of("{\"a\": " + deep), HasSubstr("not JSON"));
}

TEST(Jsonl, EmptyFileIsAnError) {
  EXPECT_EQ(error_of(""), "x.jsonl: the file is empty; expected one JSON object per line");
  EXPECT_EQ(error_of(" \n\n\t\r\n"),
            "x.jsonl: the file has blank lines only; expected one JSON object per line");
}

TEST(Jsonl, MissingFileIsNamedWithTheReason) {
  try {
    JsonlFile(std::filesystem::path("/nowhere/x.jsonl"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "/nowhere/x.jsonl: cannot open: No such file or directory");
  }
}

TEST(Jsonl, FileLargerThanAPieceReadsLikeItsContentAlsoAfterAMove) {
  // Lines of many lengths around the megabyte in which files are read, some blank.
  std::string content;
  for (size_t i = 0; content.size() < 3'000'000; ++i) {
    content +=
        "{\"output\": \"" + std::to_string(i) + std::string(i * 7919 % 30'000, 'x') + "\"}\n";
    if (i % 5 == 0) content += std::string(i % 3, ' ') + "\r\n";
  }
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "sftbench.jsonl";
  std::ofstream(path) << content;
  JsonlFile first(path);
  const JsonlFile file(std::move(first));
  const JsonlFile expected(content, "content");
  ASSERT_EQ(file.size(), expected.size());
  for (int64_t i = 0; i < file.size(); ++i) {
    EXPECT_EQ(file.text(i, "output"), expected.text(i, "output"));
    EXPECT_EQ(file.line_number(i), expected.line_number(i));
  }
  EXPECT_EQ(file.path(), path.string());
}

TEST(Jsonl, FileThatIsShortenedMeanwhileIsAnError) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "sftbench-short.jsonl";
  std::ofstream(path) << "{\"output\": \"one\"}\n";
  const JsonlFile file(path);
  std::filesystem::resize_file(path, 9);
  try {
    file.text(0, "output");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ":1: not JSON at column 10: syntax error"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
