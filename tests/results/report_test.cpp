// ado's tables against what pandas wrote from the same figures (tests/reference/report.py).
#include "sftbench/results/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "results/entity_columns.h"
#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/base/file.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGolden = std::string(SFTBENCH_TEST_DATA) + "/report/";

StoreScan golden_scan() {
  const fs::path directory = fresh_results("golden");
  for (const Json& row : read_json_file(kGolden + "results.json")) {
    put(directory, measurement_from_json(row.at("measurement"), "results.json"),
        row.at("key").get<std::string>(), row.at("sample").get<int>());
  }
  StoreScan scan = ResultStore(directory).scan();
  EXPECT_TRUE(scan.skipped.empty());
  fs::remove_all(directory);
  return scan;
}

std::string csv(const ReportTable& table) {
  std::string text;
  write_csv(table, [&](std::string_view piece) { text += piece; });
  return text;
}

const ReportColumn& column(const ReportTable& table, const std::string& name) {
  for (const ReportColumn& column : table.columns) {
    if (column.name == name) return column;
  }
  throw std::runtime_error("no column " + name);
}

std::vector<std::string> cells(const ReportTable& table, const std::string& name) {
  std::vector<std::string> texts;
  for (const Scalar& cell : column(table, name).cells)
    append_python_str(texts.emplace_back(), cell);
  return texts;
}

TEST(AdoTableTest, TargetIsWhatPandasWrites) {
  const StoreScan scan = golden_scan();
  EXPECT_EQ(csv(ado_table(scan, {})), read_file(kGolden + "target.csv"));
}

class AggregateTest : public testing::TestWithParam<std::string> {};

// Fields that are numbers may differ in the last digits of a sum.
void expect_same_fields(const std::string& ours, const std::string& golden) {
  std::istringstream our_lines(ours);
  std::istringstream golden_lines(golden);
  std::string a;
  std::string b;
  while (std::getline(golden_lines, b)) {
    ASSERT_TRUE(std::getline(our_lines, a));
    std::istringstream our_fields(a);
    std::istringstream golden_fields(b);
    while (std::getline(golden_fields, b, ',')) {
      ASSERT_TRUE(std::getline(our_fields, a, ','));
      if (a == b) continue;
      ASSERT_THAT(b, testing::MatchesRegex("[0-9.e+-]+"));
      const double expected = std::stod(b);
      EXPECT_NEAR(std::stod(a), expected, 1e-14 * std::abs(expected));
    }
  }
  EXPECT_FALSE(std::getline(our_lines, a));
}

TEST_P(AggregateTest, NamesAndValuesAreThoseOfNumpy) {
  const StoreScan scan = golden_scan();
  const auto& names = aggregate_names();
  AdoLayout layout;
  layout.method =
      static_cast<Aggregate>(std::find(names.begin(), names.end(), GetParam()) - names.begin());
  expect_same_fields(csv(ado_table(scan, layout)),
                     read_file(kGolden + "target-" + GetParam() + ".csv"));
}

INSTANTIATE_TEST_SUITE_P(Methods, AggregateTest,
                         testing::Values("list", "mean", "median", "variance", "std", "min", "max"),
                         [](const auto& test) { return test.param; });

TEST(AdoTableTest, ObservedIsWhatPandasWrites) {
  AdoLayout layout;
  layout.observed = true;
  layout.method = Aggregate::kList;
  const StoreScan scan = golden_scan();
  EXPECT_EQ(csv(ado_table(scan, layout)), read_file(kGolden + "observed.csv"));
}

TEST(AdoTableTest, WideBeginsWithAdosColumnsAndHasRowsForFailures) {
  const StoreScan scan = golden_scan();
  const ReportTable target = ado_table(scan, {});
  AdoLayout layout;
  layout.wide = true;
  const ReportTable wide = ado_table(scan, layout);
  ASSERT_LT(target.columns.size(), wide.columns.size());
  for (size_t i = 0; i < target.columns.size(); ++i) {
    EXPECT_EQ(wide.columns[i].name, target.columns[i].name);
  }
  EXPECT_EQ(target.rows, 9U);
  EXPECT_EQ(wide.rows, 10U);
  EXPECT_THAT(cells(wide, "status"), ElementsAre("valid", "valid", "valid", "valid", "valid",
                                                 "valid", "invalid", "invalid", "failed", "valid"));
  EXPECT_THAT(cells(wide, "reason_code"),
              ElementsAre("None", "None", "None", "None", "None", "None", "OOM_GPU", "OOM_GPU",
                          "DATA", "None"));
  EXPECT_THAT(cells(wide, "n"), ElementsAre("1", "1", "2", "1", "3", "2", "1", "1", "1", "1"));
  EXPECT_EQ(cells(wide, "gradient_checkpointing")[0], "True");
  EXPECT_EQ(cells(wide, "host")[0], "h");
  EXPECT_EQ(cells(wide, "key")[8], "00000000000000000000000000000006");
}

TEST(AdoTableTest, AKeyWithDifferentOutcomesHasARowForEach) {
  const fs::path directory = fresh_results("outcomes");
  put(directory, sample_valid(), "k");
  put(directory, sample_invalid(), "k", 2);
  Measurement later = sample_valid();
  later.finished_at = "2026-11-30T00:00:00Z";
  put(directory, later, "k", 3);
  const StoreScan scan = ResultStore(directory).scan();
  const ReportTable table = ado_table(scan, {});
  EXPECT_THAT(cells(table, "is_valid"), ElementsAre("1", "0"));
  EXPECT_THAT(cells(short_table(scan), "n"), ElementsAre("2", "1"));
}

TEST(AdoTableTest, TextsOfAMeasurementAreNoFormulas) {
  const fs::path directory = fresh_results("formulas");
  Measurement m = sample_failed();
  m.inputs["=1+1"] = "@SUM(1)";
  m.inputs["shift"] = -1;
  m.reason->evidence = "=cmd|' /C calc'!A0 \x1b[2J";
  put(directory, m, "k");
  AdoLayout layout;
  layout.wide = true;
  const std::string text = csv(ado_table(ResultStore(directory).scan(), layout));
  EXPECT_THAT(text, HasSubstr(",\"'=1+1\","));
  EXPECT_THAT(text, HasSubstr(",\"'@SUM(1)\","));
  EXPECT_THAT(text, HasSubstr(",-1,"));
  EXPECT_THAT(text, HasSubstr(",\"'=cmd|' /C calc'!A0 \\x1b[2J\","));
}

TEST(AdoTableTest, OfNothingIsAHeader) {
  EXPECT_EQ(csv(ado_table({}, {})), "\n");
  EXPECT_EQ(short_table({}).rows, 0U);
}

TEST(AdoTableTest, CsvOfManyRowsKeepsTheirOrder) {
  ReportTable table;
  table.rows = 20000;
  table.columns = {{"x", {}}};
  for (int64_t i = 0; i < 20000; ++i) table.columns[0].cells.push_back(Scalar::integer(i * i));
  std::istringstream lines(csv(table));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, ",x");
  for (int64_t i = 0; std::getline(lines, line); ++i) {
    ASSERT_EQ(line, std::to_string(i) + "," + std::to_string(i * i));
  }
}

TEST(ShortTableTest, ShowsOnlyTheInputsThatDiffer) {
  const fs::path directory = fresh_results("short");
  Measurement m = sample_valid();
  m.extra["memory_bytes"]["host_peak_rss"] = {int64_t{3} << 30};
  m.measured["dataset_tokens_per_second"] = 100.0;
  put(directory, m, "a");
  m.measured["dataset_tokens_per_second"] = 110.0;
  put(directory, m, "a", 2);
  m.inputs["batch_size"] = 2;
  m.entity_id = "model_name.m-number_gpus.0";
  put(directory, m, "b");
  const StoreScan scan = ResultStore(directory).scan();
  const ReportTable table = short_table(scan);
  EXPECT_EQ(table.columns[0].name, "batch_size");
  EXPECT_EQ(table.columns[1].name, "status");
  EXPECT_THAT(cells(table, "batch_size"), ElementsAre("1", "2"));
  EXPECT_THAT(cells(table, "n"), ElementsAre("2", "1"));
  EXPECT_THAT(cells(table, "dataset_tokens_per_second"), ElementsAre("105.0", "110.0"));
  EXPECT_NEAR(*column(table, "spread_percent").cells[0].as_number(), 100.0 * 10 / 105, 1e-12);
  EXPECT_TRUE(column(table, "spread_percent").cells[1].is_null());
  EXPECT_THAT(cells(table, "peak_memory_gib"), ElementsAre("3.0", "3.0"));
}

TEST(ShortTableTest, AStoredNoneIsNotTheDefault) {
  const fs::path directory = fresh_results("none");
  Measurement m = sample_valid();
  put(directory, m, "default");
  m.inputs["response_template"] = nullptr;
  put(directory, m, "none");
  const StoreScan scan = ResultStore(directory).scan();
  AdoLayout wide;
  wide.wide = true;
  for (const ReportTable& table : {short_table(scan), ado_table(scan, wide)}) {
    EXPECT_THAT(cells(table, "response_template"),
                testing::UnorderedElementsAre("\\n### Response:", "None"));
  }
}

TEST(ShortTableTest, AMeasurementAloneShowsItsEntity) {
  const fs::path directory = fresh_results("alone");
  put(directory, sample_valid(), "a");
  const StoreScan scan = ResultStore(directory).scan();
  const ReportTable table = short_table(scan);
  EXPECT_EQ(table.columns[0].name, "model_name");
  EXPECT_EQ(table.columns[1].name, "number_gpus");
}

TEST(SelectTest, TakesWhatIsAskedForAndNoSimulationUnasked) {
  const fs::path directory = fresh_results("select");
  put(directory, sample_valid(), "a");
  put(directory, sample_failed(), "b");
  Measurement m = sample_valid();
  m.inputs["backend"] = "simulate";
  put(directory, m, "c");
  m = sample_valid();
  m.experiment = "finetune_lora_benchmark-v1.0.0";
  m.experiment_id = "SFTTrainer.finetune_lora_benchmark-v1.0.0-r.8";
  put(directory, m, "d");
  const auto keys = [&](const ReportFilter& filter, size_t expected_left_out) {
    StoreScan scan = ResultStore(directory).scan();
    EXPECT_EQ(select_results(scan, filter), expected_left_out);
    std::string all;
    for (const StoredResult& result : scan.results) all += result.key;
    return all;
  };
  ReportFilter filter;
  EXPECT_EQ(keys(filter, 1), "abd");
  filter.statuses = {Status::kFailed};
  EXPECT_EQ(keys(filter, 0), "b");
  filter.statuses = {Status::kFailed, Status::kValid};
  filter.simulated = true;
  EXPECT_EQ(keys(filter, 0), "abcd");
  filter.experiments = {"SFTTrainer.finetune_lora_benchmark-v1.0.0-r.8"};
  EXPECT_EQ(keys(filter, 0), "d");
  filter.experiments = {"finetune_lora_benchmark-v1.0.0", "finetune_full_benchmark-v1.0.0"};
  EXPECT_EQ(keys(filter, 0), "abcd");
}

TEST(SelectTest, AnExperimentThatIsNotThereIsAnInputError) {
  const fs::path directory = fresh_results("unknown");
  put(directory, sample_valid(), "a");
  StoreScan scan = ResultStore(directory).scan();
  ReportFilter filter;
  filter.experiments = {"finetune_full_benchmark-v1.0.1"};
  try {
    select_results(scan, filter);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "--experiment: no result of 'finetune_full_benchmark-v1.0.1'; expected one of "
                 "SFTTrainer.finetune_full_benchmark-v1.0.0, finetune_full_benchmark-v1.0.0; did "
                 "you mean 'finetune_full_benchmark-v1.0.0'?");
  }
}

TEST(WriteMeasurementsTest, GivesTheFilesWhole) {
  const fs::path directory = fresh_results("whole");
  put(directory, sample_valid(), "a");
  put(directory, sample_failed(), "b");
  const StoreScan scan = ResultStore(directory).scan();
  std::string lines;
  write_measurements(directory, scan, true, [&](std::string_view piece) { lines += piece; });
  EXPECT_EQ(lines,
            stored(sample_valid(), "a").dump() + "\n" + stored(sample_failed(), "b").dump() + "\n");
  std::string array;
  write_measurements(directory, scan, false, [&](std::string_view piece) { array += piece; });
  EXPECT_EQ(Json::parse(array), Json({stored(sample_valid(), "a"), stored(sample_failed(), "b")}));

  fs::remove(directory / scan.results[1].file);
  try {
    write_measurements(directory, scan, true, [](std::string_view) {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), (directory / scan.results[1].file).string() + ": is gone");
  }
}

TEST(EntityPropertiesTest, AreReadOffTheIdInItsOrder) {
  const Record::Names names = {"batch_size", "gpu_model", "model_name", "num_train_epochs"};
  const Scalar values[] = {Scalar::integer(8), Scalar(), Scalar::text("a-batch_size.3-b"),
                           Scalar::number(1.0)};
  const auto text = [&](const std::string& id) {
    std::string all;
    for (const auto& [name, value] : entity_properties(id, Record(&names, values))) {
      all += std::string(name) + "=";
      append_python_str(all, value);
      all += ";";
    }
    return all;
  };
  EXPECT_EQ(text("model_name.a-batch_size.3-b-gpu_model.None-batch_size.8"),
            "model_name=a-batch_size.3-b;gpu_model=None;batch_size=8;");
  // As the space spells a value that the inputs have in canonical form.
  EXPECT_EQ(text("num_train_epochs.1-batch_size.8"), "num_train_epochs=1;batch_size=8;");
  EXPECT_EQ(text("batch_size.8.5-gpu_model.L40S"), "batch_size=8.5;gpu_model=L40S;");
  EXPECT_EQ(text("an id of somebody else"), "");
  EXPECT_EQ(text(""), "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
