// Files beside JSON Lines: CSV, packed files, JSON in other shapes, folders of many files, and what
// says what it is instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/data/entry_file.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

const std::string kFolder = SFTBENCH_TEST_DATA "/own_data/";

class EntryFiles : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static Json rows_of(const std::string& path) {
    const Entries entries = open_entries(path);
    Json rows = Json::array();
    for (int64_t i = 0; i < entries.size(); ++i) {
      Json row;
      Diagnostic problem;
      rows.push_back(entries.read_object(i, row, problem) ? row : Json(to_string(problem)));
    }
    return rows;
  }
  static std::string problem_of(const std::string& path) {
    try {
      return rows_of(path).dump();
    } catch (const InputError& error) {
      return error.what();
    }
  }

  const fs::path folder_ = temporary_file("folder");
};

TEST_F(EntryFiles, RowsOfCsvAndPackedFilesAreThoseThatPythonWrote) {
  const Json rows = read_json_file(kFolder + "packed.json");
  for (const char* name : {"packed.jsonl.gz", "packed.csv.gz", "packed.jsonl.zst", "quoted.csv"})
    EXPECT_EQ(rows_of(kFolder + name), rows) << name;
}

TEST_F(EntryFiles, ASliceIsAPartOfAFileAndOfAFolder) {
  const std::string two = file("d/train-0.jsonl", "{\"a\": 0}\n{\"a\": 1}\n"),
                    three = file("d/train-1.jsonl", "{\"a\": 2}\n{\"a\": 3}\n{\"a\": 4}\n");
  const auto numbers = [](const std::string& path) {
    std::string text;
    for (const Json& row : rows_of(path)) text += row.dump() + " ";
    return text;
  };
  const std::string folder = (folder_ / "d").string();
  EXPECT_EQ(numbers(folder + "::train[1:4]"), R"({"a":1} {"a":2} {"a":3} )");
  EXPECT_EQ(numbers(folder + "::train[-40%:]"), R"({"a":3} {"a":4} )");
  EXPECT_EQ(numbers(three + "::train[:1]"), R"({"a":2} )");
  EXPECT_EQ(open_entries(folder + "::train[3:]", 1).line(0), R"({"a": 3})");
  EXPECT_NE(digest_data(three + "::train[:1]"), digest_data(three + "::train[1:]"));
  EXPECT_EQ(digest_data(three + "::train"), digest_data(three));
  EXPECT_THAT(problem_of(two + "::train[2:]"), HasSubstr("the slice [2:] has no entry"));
  EXPECT_THAT(problem_of(two + "::test[:1]"),
              HasSubstr("a file has no configs and no splits, but one: train"));
  EXPECT_THAT(problem_of(two + "::train[1]"), HasSubstr("'[1]' is no slice of entries"));
}

std::string widened(const std::string& text, size_t bytes, bool little) {
  std::string wide;
  for (const char c : text) {
    std::string unit(bytes, '\0');
    unit[little ? 0 : bytes - 1] = c;
    wide += unit;
  }
  return wide;
}

TEST_F(EntryFiles, TextThatIsNoUtf8IsNamedByWhatItIs) {
  const std::string json = "{\"output\": \"a\"}\n", csv = "output\na\n";
  for (const auto& [name, text] :
       {std::pair("a.jsonl", json), {"a.json", "[" + json + "]"}, {"a.csv", csv}, {"a.tsv", csv}}) {
    for (const auto& [encoding, wide] : {std::pair("UTF-16LE", widened(text, 2, true)),
                                         {"UTF-16BE", widened(text, 2, false)},
                                         {"UTF-32LE", widened(text, 4, true)},
                                         {"UTF-32BE", widened(text, 4, false)},
                                         {"UTF-16", "\xff\xfe" + widened(text, 2, true)}}) {
      EXPECT_THAT(problem_of(file(name, wide)),
                  EndsWith(std::string(": the file is ") + encoding +
                           "; expected UTF-8: iconv -f " + encoding + " -t UTF-8 FILE makes it"))
          << name;
    }
  }
  for (const char* name : {"b.jsonl", "b.json"}) {
    EXPECT_THAT(
        problem_of(file(name, json + "{\"output\": \"caf\xe9\"}\n")),
        HasSubstr(
            ":2: byte 0xE9 at column 16 is not UTF-8; expected UTF-8: iconv -f WINDOWS-1252"));
  }
  EXPECT_EQ(rows_of(file("c.jsonl", "{\"output\": \"\\u0000\u20ac\"}\n"))[0]["output"],
            std::string("\0\u20ac", 4));
}

TEST_F(EntryFiles, TheFirstLineSaysWhatSeparatesFields) {
  const Json rows = {{{"q", "1,5"}, {"a", "b;c"}}};
  EXPECT_EQ(rows_of(file("semicolon.csv", "q;a\r\n1,5;\"b;c\"\r\n")), rows);
  EXPECT_EQ(rows_of(file("bar.csv", "\xef\xbb\xbf\"q\"|\"a\"\n1,5|b;c\n")), rows);
  EXPECT_EQ(rows_of(file("tab.csv", "q\ta\n1,5\tb;c\n")), rows);
  EXPECT_EQ(rows_of(file("comma.tsv", "q,a\n\"1,5\",b;c\n")), rows);
  EXPECT_EQ(rows_of(file("tie.csv", "q;x,a\n1,2\n"))[0]["q;x"], "1");
  EXPECT_EQ(rows_of(file("excel.csv", "sep=;\r\nq;a\r\n1,5;b\r\n"))[0]["q"], "1,5");
  EXPECT_THAT(problem_of(file("excel.csv", "sep=;\nq;a\n1;2;3\n")), HasSubstr("excel.csv:3: "));
  EXPECT_THAT(problem_of(file("more.csv", "q;a\n1;2;3\n")),
              HasSubstr("a field with a \";\" in it"));
}

#ifdef SFTBENCH_PARQUET_BUILT
TEST_F(EntryFiles, MembersOfNestedParquetHaveNoNullsAndViewsAreTexts) {
  EXPECT_EQ(rows_of(kFolder + "nulls.parquet"), read_json_file(kFolder + "nulls.json"));
}
#endif

TEST_F(EntryFiles, RowsOfTsvHaveTabsBetweenFieldsAndNamesOfLines) {
  const std::string path = file("a.tsv", "text\tother\na, b\tc\n\n\"d\ne\"\n");
  EXPECT_EQ(rows_of(path), Json::parse(R"([{"text": "a, b", "other": "c"}, {"text": "d\ne"}])"));
  const Entries entries = open_entries(path);
  EXPECT_EQ(entries.line_number(1), 4);
  EXPECT_THAT(
      problem_of(file("long.csv", "a,b\n1,2\n1,2,3\n")),
      HasSubstr("long.csv:3: the row has 3 fields, and the header has 2 columns; expected as "
                "many, and quotes around a field with a \",\" in it"));
  EXPECT_THAT(problem_of(file("open.csv", "a,b\n1,\"2\n")),
              HasSubstr("open.csv:2: a quote has no end"));
  EXPECT_THAT(problem_of(file("twice.csv", "a,a\n1,2\n")),
              HasSubstr("twice.csv:1: two columns are named 'a'"));
  const std::string made =
      "; expected UTF-8: iconv -f WINDOWS-1252 -t UTF-8 FILE makes it of Windows-1252 and Latin-1";
  EXPECT_THAT(problem_of(file("latin.csv", "a\nx\xe9\n")),
              EndsWith("latin.csv:2: byte 0xE9 at column 2 of a field is not UTF-8" + made));
  EXPECT_THAT(problem_of(file("name.csv", "\x93q\x94,b\n1,2\n")),
              EndsWith("name.csv:1: byte 0x93 at column 1 of a field is not UTF-8" + made));
}

TEST_F(EntryFiles, AnArrayAndObjectsWithoutLinesAreReadWhateverTheNameIs) {
  const Json rows = Json::parse(R"([{"a": "}"}, {"a": 2}])");
  for (const char* text : {"[{\"a\": \"}\"},\n{\"a\": 2}]", "{\"a\": \"}\"}{\"a\": 2}",
                           "{\n  \"a\": \"}\"\n}\n{\n  \"a\": 2\n}\n", "{\"a\": \"}\"}\n{\"a\": 2}",
                           "\xef\xbb\xbf{\n\"a\": \"}\"}\n{\"a\": 2}"}) {
    for (const char* name : {"a.jsonl", "a.json"})
      EXPECT_EQ(rows_of(file(name, text)), rows) << text;
  }
  EXPECT_THAT(problem_of(file("b.json", "{\n\"a\": 1}\nnot\n")),
              HasSubstr("b.json:3: the file has something else than objects"));
  EXPECT_THAT(problem_of(file("c.json", "{\"a\": 1}\nnot\n")),
              HasSubstr("c.json:2: not JSON at column "));
}

TEST_F(EntryFiles, WhatIsNoDataSaysWhatItIs) {
  const auto problem = [this](const std::string& name, const std::string& text) {
    return problem_of(file(name, text));
  };
  EXPECT_THAT(problem("lfs.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
              EndsWith("lfs.jsonl: the file is a Git LFS pointer, and the data are elsewhere; "
                       "expected the data themselves, which `git lfs pull` fetches"));
  EXPECT_THAT(problem("lfs.parquet", "version https://git-lfs.github.com/spec/v1\n"),
              HasSubstr("is a Git LFS pointer"));
  EXPECT_THAT(problem("page.json", "\n<!DOCTYPE html><html>"), HasSubstr("is a web page"));
  EXPECT_THAT(problem("a.jsonl", std::string("PK\x03\x04", 4)), HasSubstr("is a zip archive"));
  EXPECT_THAT(problem("b.jsonl", std::string("\xfd"
                                             "7zXZ",
                                             5)),
              HasSubstr("run xz -d FILE first"));
  EXPECT_THAT(problem("c.json", "ARROW1.."), HasSubstr("is Arrow; expected a name that ends in"));
  EXPECT_THAT(problem("d.jsonl.gz", "\x1f\x8b\x08 no"), HasSubstr("the file is damaged gzip"));
}

TEST_F(EntryFiles, FoldersOfSplitsStandForTheirTrainingData) {
  file("set/train/data-00000-of-00001.jsonl", "{\"a\": 1}\n");
  file("set/test/data-00000-of-00001.jsonl", "{\"a\": 2}\n");
  file("set/dataset_dict.json", R"({"splits": ["train", "test"]})");
  file("set/train/state.json", "{}");
  file("set/train/dataset_info.json", "{}");
  EXPECT_EQ(rows_of((folder_ / "set").string()), Json::parse(R"([{"a": 1}])"));
}

TEST_F(EntryFiles, MoreFilesThanAProcessMayHoldOpenAreRead) {
  constexpr int kFiles = 200;
  for (int i = 0; i < kFiles; ++i)
    file("many/" + std::to_string(1000 + i) + ".jsonl", "{\"a\": " + std::to_string(i) + "}\n");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit less = {128, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
  const Json rows = rows_of((folder_ / "many").string());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(rows.size(), static_cast<size_t>(kFiles));
  EXPECT_EQ(rows.back(), Json::parse(R"({"a": 199})"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
