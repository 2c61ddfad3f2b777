#include "sftbench/results/report_html.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "results/html/column_set.h"
#include "results/html/curve_set.h"
#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/results/scan.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kDataBegin = "id=\"data\">";

// What stands between the tags of the data block, and the page without it.
struct Page {
  std::string data, rest;
};

Page split(const std::string& html) {
  const size_t begin = html.find(kDataBegin) + kDataBegin.size();
  const size_t end = html.find('<', begin);
  return {html.substr(begin, end - begin), html.substr(0, begin) + html.substr(end)};
}

std::string base64_decoded(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int known = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(digit));
    if ((known += 6) >= 8) bytes += static_cast<char>(bits >> (known -= 8) & 0xff);
  }
  return bytes;
}

std::string inflated(const std::string& packed) {
  std::string bytes(size_t{1} << 22, '\0');
  uLongf size_bytes = bytes.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size_bytes,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  bytes.resize(size_bytes);
  return bytes;
}

// The data block as the page reads it.
struct Block {
  Json head;
  std::string columns;

  const Json& column(const std::string& group, const std::string& name) const {
    for (const Json& column : head.at("columns")) {
      if (column.at("group") == group && column.at("name") == name) return column;
    }
    throw std::runtime_error("no column " + group + "." + name);
  }
  template <typename T>
  std::vector<T> rows(const Json& column) const {
    std::vector<T> rows(head.at("rows").get<size_t>());
    std::memcpy(rows.data(), columns.data() + column.at("offset").get<size_t>(),
                rows.size() * sizeof(T));
    return rows;
  }
};

Block block_of(const std::string& html) {
  const std::string bytes = inflated(base64_decoded(split(html).data));
  uint32_t size_bytes = 0;
  std::memcpy(&size_bytes, bytes.data(), sizeof(size_bytes));
  EXPECT_EQ(size_bytes % 4, 0U) << "the columns would not be aligned";
  return {Json::parse(bytes.substr(4, size_bytes)), bytes.substr(4 + size_bytes)};
}

const Record::Names kInputNames = {"batch_size", "model_name", "gradient_checkpointing"};
const Record::Names kMeasuredNames = {"train_runtime"};
const Record::Names kFigureNames = {"host_peak_rss_bytes", "libtorch"};

// A record whose values stay for as long as the tests run.
Record record_of(const Record::Names& names, std::vector<Scalar> values) {
  static std::deque<std::vector<Scalar>> kept;
  return {&names, kept.emplace_back(std::move(values)).data()};
}

StoredResult valid_result(std::string_view model, int64_t batch_size, double runtime_s) {
  StoredResult result;
  result.file = "e/k.json";
  result.experiment = "e";
  result.status = Status::kValid;
  result.inputs = record_of(kInputNames, {Scalar::integer(batch_size), Scalar::text(model),
                                          Scalar::boolean(batch_size > 1)});
  result.measured = record_of(kMeasuredNames, {Scalar::number(runtime_s)});
  result.figures =
      record_of(kFigureNames, {Scalar::integer(int64_t{1} << 40 | 1), Scalar::text("1.13.1")});
  return result;
}

StoredResult failed_result(const std::string& text) {
  StoredResult result;
  result.file = "e/f.json";
  result.status = Status::kFailed;
  result.reason = Reason{ReasonCode::kNccl, text, text, text};
  return result;
}

TEST(ReportHtml, HoldsEveryValueByColumnWithTheUnitsAndGroupsThatItHas) {
  StoreScan scan;
  scan.results = {valid_result("a", 1, 2.5), failed_result("lost"), valid_result("b", 8, 1e-05)};
  const Block block = block_of(render_html(scan, {}));

  EXPECT_EQ(block.head.at("rows"), 3);
  const Json& models = block.column("input", "model_name");
  EXPECT_EQ(models.at("values"), Json::parse(R"(["a", "b"])"));
  EXPECT_THAT(block.rows<uint8_t>(models), ElementsAre(1, 0, 2));
  const Json& runtime = block.column("measured", "train_runtime");
  EXPECT_EQ(runtime.at("values"), Json::parse("[2.5, 1e-05]"));
  EXPECT_EQ(runtime.at("unit"), "s");
  EXPECT_TRUE(runtime.at("numeric"));
  EXPECT_EQ(block.column("input", "gradient_checkpointing").at("values"),
            Json::parse(R"(["false", "true"])"));
  EXPECT_EQ(block.column("outcome", "reason").at("values"), Json::parse(R"(["NCCL"])"));
  EXPECT_EQ(block.column("environment", "libtorch").at("values"), Json::parse(R"(["1.13.1"])"));
  EXPECT_EQ(block.column("extra", "host_peak_rss_bytes").at("values"),
            Json::parse("[1099511627777]"))
      << "a 32-bit float would lose digits";
}

TEST(ReportHtml, AColumnWithOneValueInEveryRowHasNoRows) {
  StoreScan scan;
  scan.results = {valid_result("a", 1, 1), valid_result("a", 2, 1)};
  const Block block = block_of(render_html(scan, {}));
  EXPECT_EQ(block.column("input", "model_name").at("store"), "one");
  EXPECT_FALSE(block.column("input", "model_name").contains("offset"));
  EXPECT_EQ(block.column("input", "batch_size").at("store"), "u8");
}

TEST(ReportHtml, AColumnThatSomeRowsLackIsNotTakenForConstant) {
  StoreScan scan;
  scan.results = {valid_result("a", 1, 1), failed_result("x")};
  const Block block = block_of(render_html(scan, {}));
  EXPECT_THAT(block.rows<uint8_t>(block.column("input", "model_name")), ElementsAre(1, 0));
  EXPECT_THAT(block.rows<uint8_t>(block.column("outcome", "message")), ElementsAre(0, 1));
}

TEST(ReportHtml, ManyDifferentNumbersAreFloatsAndMissingOnesNaN) {
  StoreScan scan;
  constexpr size_t kRows = html::kMostExactNumbers + 10;
  for (size_t i = 0; i < kRows; ++i) {
    scan.results.push_back(valid_result("a", 1, 0.1 * static_cast<double>(i)));
  }
  scan.results.push_back(failed_result("x"));
  const Block block = block_of(render_html(scan, {}));
  const Json& runtime = block.column("measured", "train_runtime");
  EXPECT_EQ(runtime.at("store"), "f32");
  const std::vector<float> rows = block.rows<float>(runtime);
  for (size_t i = 0; i < kRows; ++i) EXPECT_FLOAT_EQ(rows[i], 0.1F * static_cast<float>(i));
  EXPECT_TRUE(std::isnan(rows.back()));
}

TEST(ReportHtml, ManyDifferentTextsHaveWiderCodes) {
  StoreScan scan;
  std::deque<std::string> models;
  for (int i = 0; i < 300; ++i) {
    scan.results.push_back(valid_result(models.emplace_back("m" + std::to_string(i)), 1, 1));
  }
  const Block block = block_of(render_html(scan, {}));
  const Json& column = block.column("input", "model_name");
  EXPECT_EQ(column.at("store"), "u16");
  const std::vector<uint16_t> codes = block.rows<uint16_t>(column);
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(column.at("values").at(codes[i] - 1U), "m" + std::to_string(i));
  }
}

// The strongest form of "everything is escaped": outside of the data block, whose letters are those
// of base64, no page differs from any other.
TEST(ReportHtml, NothingOfAMeasurementIsMarkup) {
  const std::string evil =
      "</script><script>alert('\"')</script><!-- ]]> &amp; \\u0041 \xe2\x80\xa8";
  StoreScan scan;
  scan.results = {valid_result(evil, 1, 1), failed_result(evil)};
  scan.skipped = {{evil, evil}};
  const std::string page = render_html(
      scan,
      {.source = evil, .created_by = evil, .created_at = evil, .usd_per_gpu_hour = {{evil, 1.0}}});
  EXPECT_EQ(split(page).rest, split(render_html({}, {})).rest);
  EXPECT_EQ(split(page).data.find_first_not_of(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
            std::string::npos);
  const Block block = block_of(page);
  EXPECT_EQ(block.head.at("source"), evil);
  EXPECT_EQ(block.head.at("skipped").at(0).at("file"), evil);
  EXPECT_EQ(block.column("outcome", "evidence").at("values").at(0), evil);
}

TEST(ReportHtml, CurvesAreThereWhereTheFolderOfTheResultsIsNamed) {
  const std::filesystem::path results = fresh_results("report_html");
  put(results, sample_valid(), "a");
  put(results, sample_failed(), "b");
  const StoreScan scan = ResultStore(results).scan();
  EXPECT_FALSE(block_of(render_html(scan, {})).head.contains("curves"));
  const Block block = block_of(render_html(scan, {.results = results}));
  std::filesystem::remove_all(results);
  const Json& curves = block.head.at("curves");
  std::vector<uint32_t> offsets(3);
  std::memcpy(offsets.data(), block.columns.data() + curves.at("offsets").get<size_t>(), 12);
  // Of two steps, one of which is not finite, the loss; and of both the seconds.
  EXPECT_THAT(offsets, ElementsAre(0U, 36U + 32U, 36U + 32U));
  EXPECT_EQ(curves.at("offset").get<size_t>() % 4, 0U) << "it would not be aligned";
  EXPECT_EQ(curves.at("most_places"), html::kMostPlaces);
  EXPECT_EQ(curves.at("left_out"), 0);
  EXPECT_EQ(curves.at("without_series"), 1);
}

TEST(ReportHtml, BytesThatAreNoUtf8AreReplaced) {
  StoreScan scan;
  scan.results = {failed_result("cut \xc3 off")};
  const Block block = block_of(render_html(scan, {}));
  EXPECT_EQ(block.column("outcome", "message").at("values").at(0), "cut \xef\xbf\xbd off");
}

TEST(ReportHtml, APageWithoutResultsIsAPage) {
  const std::string page = render_html({}, {.source = "results"});
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(block_of(page).head.at("rows"), 0);
  EXPECT_EQ(block_of(page).head.at("source"), "results");
}

TEST(ReportHtml, ThePageAsksForNothingFromTheNetwork) {
  const std::string page = split(render_html({}, {})).rest;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* address : {"src=\"", "@import", "url(http", "fetch("}) {
    EXPECT_THAT(page, testing::Not(HasSubstr(address)));
  }
  EXPECT_THAT(page, testing::Not(HasSubstr("@DATA@")));
  EXPECT_THAT(page, testing::Not(HasSubstr("@STYLE@")));
  EXPECT_THAT(page, testing::Not(HasSubstr("@SCRIPT@")));
}

TEST(ColumnSet, NumbersAmongTextsAreTextsInTheirShortestSpelling) {
  html::ColumnSet columns;
  for (const Scalar& value : {Scalar::integer(4), Scalar::text("auto"), Scalar::number(0.5)}) {
    columns.begin_row();
    columns.scalar("input", "p", value);
  }
  const html::Column& column = columns.columns().front();
  EXPECT_FALSE(column.numeric());
  EXPECT_EQ(column.values(), Json::parse(R"(["4", "auto", "0.5"])"));
}

TEST(ColumnSet, WhatIsNotFiniteIsNoValue) {
  html::ColumnSet columns;
  columns.begin_row();
  columns.number("measured", "p", std::nan(""));
  columns.begin_row();
  columns.number("measured", "p", 3);
  EXPECT_THAT(columns.columns().front().codes(2), ElementsAre(0U, 1U));
}

TEST(ColumnSet, RowsMayNameColumnsInAnyOrder) {
  html::ColumnSet columns;
  columns.begin_row();
  columns.text("input", "a", "1");
  columns.text("input", "b", "2");
  columns.begin_row();
  columns.text("input", "b", "3");
  columns.text("input", "a", "4");
  ASSERT_EQ(columns.columns().size(), 2U);
  EXPECT_EQ(columns.columns()[0].values(), Json::parse(R"(["1", "4"])"));
  EXPECT_EQ(columns.columns()[1].values(), Json::parse(R"(["2", "3"])"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
