#include "sftbench/results/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

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

TEST(TableTest, FiguresHaveSixDigitsOrAllBeforeThePoint) {
  EXPECT_EQ(cell_text(0.123456789), "0.123457");
  EXPECT_EQ(cell_text(99999.96), "100000");
  EXPECT_EQ(cell_text(-1234567.4), "-1234567");
  EXPECT_EQ(cell_text(999999999999999.0), "999999999999999");
  EXPECT_EQ(cell_text(1e15), "1e+15");
  EXPECT_EQ(cell_text(-1e15), "-1e+15");
}

TEST(TableTest, WideTextsGoOnInFurtherLinesOfATerminal) {
  const Table table = {{"subject", "n", "found"},
                       {{"cpu", 2, "eight cores, all of them to use"},
                        {"disk", 10, "/var/lib/sftbench/datasets größe"}}};
  EXPECT_EQ(render(table, OutputFormat::kTable, 41),
            "subject   n  found\n"
            "cpu       2  eight cores, all of them to\n"
            "             use\n"
            "disk     10  /var/lib/sftbench/datasets\n"
            "             größe\n");
  // Words are broken, at their joints, where whole ones do not fit.
  EXPECT_EQ(render(table, OutputFormat::kTable, 33),
            "subject   n  found\n"
            "cpu       2  eight cores, all of\n"
            "             them to use\n"
            "disk     10  /var/lib/sftbench/\n"
            "             datasets größe\n");
  const std::string whole = render(table, OutputFormat::kTable);
  EXPECT_EQ(render(table, OutputFormat::kTable, 120), whole);
  EXPECT_EQ(render(table, OutputFormat::kMarkdown, 41), render(table, OutputFormat::kMarkdown));
}

TEST(TableTest, HeadingsOfATerminalAreBrokenBetweenTheirWords) {
  EXPECT_EQ(render(Table{{"train_samples_per_second", "r"}, {{5.88143, 4}, {10.25, 16}}},
                   OutputFormat::kTable, 12),
            "  train_   r\n"
            "samples_\n"
            "    per_\n"
            "  second\n"
            " 5.88143   4\n"
            "   10.25  16\n");
}

TEST(TableTest, ColumnsWithoutRoomOnATerminalStandUnderTheOthers) {
  const Table table = {{"model", "loss", "tokens"}, {{"llama", 5.5, 1234}, {"granite", 6, 99}}};
  EXPECT_EQ(render(table, OutputFormat::kTable, 15),
            "model    loss\n"
            "llama     5.5\n"
            "granite     6\n"
            "\n"
            "model    tokens\n"
            "llama      1234\n"
            "granite      99\n");
  // Rows that the first column does not tell apart are numbered.
  const Table alike = {{"model", "loss", "tokens"}, {{"llama", 5.5, 1234}, {"llama", 6, 99}}};
  EXPECT_EQ(render(alike, OutputFormat::kTable, 16),
            "row  model  loss\n"
            "  1  llama   5.5\n"
            "  2  llama     6\n"
            "\n"
            "row  tokens\n"
            "  1    1234\n"
            "  2      99\n");
  // What not even one column has room for is the terminal's to break.
  EXPECT_EQ(render(Table{{"tokens"}, {{1234567}}}, OutputFormat::kTable, 3), " tokens\n1234567\n");
}

TEST(TableTest, RangesStandInOneLineLikeNumbers) {
  const Table table = {{"model", "step_s"},
                       {{"a long name of a model", "0.45652 to 1.1575"}, {"b", "1 to 2"}}};
  EXPECT_EQ(render(table, OutputFormat::kTable, 28),
            "model      step_s\n"
            "a long     0.45652 to 1.1575\n"
            "name of a\n"
            "model\n"
            "b          1 to 2\n")
      << "28 columns are 9, 2 and 17";
}

TEST(TableTest, HeadingsAreNotBrokenWithinAUnit) {
  const Table table = {{"gpu", "tf32_TFLOP/s"}, {{"NVIDIA", 1}}};
  EXPECT_EQ(render(table, OutputFormat::kTable, 19),
            "gpu           tf32_\n"
            "            TFLOP/s\n"
            "NVIDIA            1\n")
      << "not tf32_TFLOP/ and s";
}

TEST(TableTest, LongNamesOfRowsDoNotLeadEachBlock) {
  const std::string first(41, 'a'), second(41, 'b');
  const Table table = {{"identifier", "loss", "tokens"}, {{first, 5.5, 12}, {second, 6, 99}}};
  const std::string text = render(table, OutputFormat::kTable, 17);
  EXPECT_EQ(text.substr(0, text.find('\n')), "row  identifier");
  EXPECT_EQ(text.substr(text.rfind("\n\n") + 2),
            "row  loss  tokens\n  1   5.5      12\n  2     6      99\n");
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
            "| name         |  tokens | note    |\n"
            "| ------------ | ------: | ------- |\n"
            "| llama, \"big\" | 1234567 |         |\n"
            "| größe\\|x     |       7 | \\[1,2\\] |\n");
}

// --- text from outside that would be more than text ----------------------------------------------

std::string one_cell(const Json& cell, OutputFormat format) {
  const std::string text = render(Table{{"c"}, {{cell}}}, format);
  const bool markdown = format == OutputFormat::kMarkdown;
  const size_t line = markdown ? text.rfind('\n', text.size() - 2) : text.find('\n');
  const size_t begin = line + (markdown ? 3 : 1);
  std::string found = text.substr(begin, text.size() - begin - (markdown ? 3 : 1));
  return found.erase(found.find_last_not_of(' ') + 1);
}

TEST(TableTest, NoCellOfCsvIsAFormula) {
  const auto csv = [](const Json& cell) { return one_cell(cell, OutputFormat::kCsv); };
  EXPECT_EQ(csv("=HYPERLINK(\"http://x\",1)"), "\"'=HYPERLINK(\"\"http://x\"\",1)\"");
  for (const char* sign :
       {"=", "+", "-", "@", "\t=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"}) {
    const std::string text = std::string(sign) + "cmd|' /C calc'!A0";
    EXPECT_EQ(csv(text), "\"'" + text + "\"");
  }
  EXPECT_EQ(csv("\r=1+1"), "\\x0d=1+1");
  EXPECT_EQ(csv("-"), "\"'-\"");
  EXPECT_EQ(csv("a=b"), "a=b");
  EXPECT_EQ(render(Table{{"=a"}, {}}, OutputFormat::kCsv), "\"'=a\"\n")
      << "a name of a column, too";
}

TEST(TableTest, NumbersStayNumbersInCsv) {
  const auto csv = [](const Json& cell) { return one_cell(cell, OutputFormat::kCsv); };
  EXPECT_EQ(csv(-1), "-1");
  EXPECT_EQ(csv(-2.5e-9), "-2.5e-09");
  for (const char* text : {"-1", "+1", "-1e-5", "+.5", "-12.25"}) EXPECT_EQ(csv(text), text);
  for (const char* text : {"-1+1", "--1", "+-1", "-inf", "-1 "})
    EXPECT_EQ(csv(text), "\"'" + std::string(text) + "\"");
}

TEST(TableTest, AnEmptyFirstCellKeepsItsColumn) {
  EXPECT_EQ(render(Table{{"a", "b"}, {{nullptr, 1}}}, OutputFormat::kCsv), "a,b\n,1\n");
}

TEST(TableTest, NoCellOfMarkdownIsMarkup) {
  const auto markdown = [](const Json& cell) { return one_cell(cell, OutputFormat::kMarkdown); };
  EXPECT_EQ(markdown("<img src=x>"), "\\<img src=x\\>");
  EXPECT_EQ(markdown("[a](http://x)"), "\\[a\\](http://x)");
  EXPECT_EQ(markdown("`a` **b** ~~c~~ &lt; $x$"),
            "\\`a\\` \\*\\*b\\*\\* \\~\\~c\\~\\~ \\&lt; \\$x\\$");
  EXPECT_EQ(markdown("_a_ model_max_length"), "\\_a\\_ model_max_length");
  EXPECT_EQ(markdown("a\\|b"), "a\\\\\\|b") << "an escape of the text's own escapes nothing";
  EXPECT_EQ(markdown("a\n| b |"), "a\\\\n\\| b \\|") << "no row of its own";
  EXPECT_EQ(render(Table{{"<b>"}, {}}, OutputFormat::kMarkdown), "| \\<b\\> |\n| ----: |\n");
}

TEST(TableTest, NoFormatForPeopleCommandsTheTerminal) {
  const std::string hostile = "a\x1b]0;title\x07\x1b[2J\rb\xc2\x9b;31m\x7f\u202e\xff";
  for (const OutputFormat format :
       {OutputFormat::kTable, OutputFormat::kMarkdown, OutputFormat::kCsv}) {
    const std::string text = render(Table{{hostile}, {{hostile}}}, format);
    EXPECT_EQ(text.find_first_of("\x1b\x07\r\x7f\xff"), std::string::npos) << text;
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
    EXPECT_EQ(text.find("\u202e"), std::string::npos);
  }
  EXPECT_EQ(one_cell("a\x1b[2J\nb", OutputFormat::kTable), "a\\x1b[2J\\nb");
}

TEST(TableTest, AnEmptyTableIsItsHeader) {
  EXPECT_EQ(render(Table{{"a", "b"}, {}}, OutputFormat::kTable), "a  b\n");
  EXPECT_EQ(render(Table{{"a", "b"}, {}}, OutputFormat::kJson), "[]\n");
  EXPECT_EQ(render(Table{{"a", "b"}, {}}, OutputFormat::kJsonLines), "");
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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
