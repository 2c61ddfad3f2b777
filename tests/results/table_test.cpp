#include "sftbench/results/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

Table sample() {
  return {{"name", "tokens", "note"},
          {{"llama, \"big\"", 1234567.25, nullptr}, {"größe|x", 7, Json::array({1, 2})}}};
}

TEST(TableTest, TableAlignsNumbersToTheRightAndShortensThem) {
  EXPECT_EQ(render(sample(), OutputFormat::kTable),
            "name           tokens  note\n"
            "llama, \"big\"  1234567\n"
            "größe|x             7  [1,2]\n");
}

TEST(TableTest, CsvQuotesWhatRfc4180Quotes) {
  EXPECT_EQ(render(sample(), OutputFormat::kCsv),
            "name,tokens,note\n"
            "\"llama, \"\"big\"\"\",1234567.25,\n"
            "größe|x,7,\"[1,2]\"\n");
}

TEST(TableTest, JsonKeepsTypesAndNulls) {
  EXPECT_EQ(Json::parse(render(sample(), OutputFormat::kJson))[0],
            Json::parse(R"({"name": "llama, \"big\"", "tokens": 1234567.25, "note": null})"));
  EXPECT_EQ(render(sample(), OutputFormat::kJsonLines),
            "{\"name\":\"llama, \\\"big\\\"\",\"tokens\":1234567.25,\"note\":null}\n"
            "{\"name\":\"größe|x\",\"tokens\":7,\"note\":[1,2]}\n");
}

TEST(TableTest, MarkdownEscapesBarsAndMarksNumberColumns) {
  EXPECT_EQ(render(sample(), OutputFormat::kMarkdown),
            "| name         |  tokens | note  |\n"
            "| ------------ | ------: | ----- |\n"
            "| llama, \"big\" | 1234567 |       |\n"
            "| größe\\|x     |       7 | [1,2] |\n");
}

TEST(TableTest, AnEmptyTableIsItsHeader) {
  EXPECT_EQ(render({{"a", "b"}, {}}, OutputFormat::kTable), "a  b\n");
  EXPECT_EQ(render({{"a", "b"}, {}}, OutputFormat::kJson), "[]\n");
  EXPECT_EQ(render({{"a", "b"}, {}}, OutputFormat::kJsonLines), "");
}

TEST(TableTest, UnknownFormatNamesTheNearestOne) {
  try {
    output_format("jason");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "--format: unknown format 'jason'; expected one of table, json, jsonl, csv, md; did "
        "you mean 'json'?");
  }
  EXPECT_EQ(output_format("md"), OutputFormat::kMarkdown);
}

}  // namespace
}  // namespace sftbench
