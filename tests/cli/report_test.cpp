// sftbench report: what it prints where, and what it refuses.
#include "cli/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "cli/program.h"
#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/advise/evidence.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// One command line: what went to stdout, what to the log, and the text of its error.
struct Report {
  std::string out, log, error;

  explicit Report(std::vector<std::string> arguments) {
    std::ostringstream lines;
    const auto before = spdlog::default_logger();
    auto logger = std::make_shared<spdlog::logger>(
        "report_test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(logger);
    CLI::App app;
    int exit_code = -1;
    add_report_command(app, exit_code);
    arguments.insert(arguments.begin(), "report");
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
      EXPECT_EQ(exit_code, 0);
    } catch (const InputError& input_error) {
      error = input_error.what();
    }
    std::fflush(stdout);
    out = testing::internal::GetCapturedStdout();
    log = lines.str();
    spdlog::set_default_logger(before);
  }
};

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    put(directory_, sample_valid(), "a");
    put(directory_, sample_invalid(), "b");
    put(directory_, sample_failed(), "c");
  }
  void TearDown() override { fs::remove_all(directory_); }

  const fs::path directory_ = fresh_results("cli_report");
  const std::string dir_ = directory_.string();
};

TEST_F(ReportTest, TheTableIsOnStdoutAndWhatItIsOfInTheLog) {
  const Report report({dir_});
  EXPECT_EQ(report.error, "");
  EXPECT_THAT(report.out, testing::StartsWith("model_name  number_gpus  status   reason"));
  EXPECT_EQ(std::count(report.out.begin(), report.out.end(), '\n'), 4);
  EXPECT_EQ(report.log, "info: " + dir_ +
                            ": 3 results: 1 valid, 1 invalid, 1 failed\n"
                            "info: 2 measurements are not valid; --wide shows why\n");
  EXPECT_THAT(Report({dir_, "--format", "md"}).out, testing::StartsWith("| model_name |"));
}

TEST_F(ReportTest, TheShortTableSaysWhereReasonsAre) {
  const std::string folder = directory_.string();
  EXPECT_THAT(Report({folder}).log, HasSubstr("2 measurements are not valid; --wide shows why"));
  EXPECT_THAT(Report({folder, "--wide"}).log, Not(HasSubstr("shows why")));
  EXPECT_THAT(Report({folder, "--status", "valid"}).log, Not(HasSubstr("shows why")));
}

TEST_F(ReportTest, CsvIsAdosAndSaysWhatItLeavesOut) {
  const Report report({dir_, "--format", "csv"});
  EXPECT_THAT(report.out,
              testing::StartsWith(
                  ",identifier,generatorid,experiment_id,model_name,number_gpus,is_valid,"));
  EXPECT_EQ(std::count(report.out.begin(), report.out.end(), '\n'), 3);
  EXPECT_THAT(report.log, HasSubstr("1 failed measurement without a row, as in ado; --wide shows"));
  const Report wide({dir_, "--format", "csv", "--wide"});
  EXPECT_EQ(std::count(wide.out.begin(), wide.out.end(), '\n'), 4);
  EXPECT_THAT(wide.out, HasSubstr(",gpu_power_percent_max,status,reason_code,"));
  EXPECT_THAT(Report({dir_, "--format", "csv", "--aggregate", "mean"}).out,
              HasSubstr(",train_runtime-mean,"));
  EXPECT_THAT(Report({dir_, "--format", "csv", "--property-format", "observed"}).out,
              testing::StartsWith(",finetune_full_benchmark-v1.0.0-is_valid,"));
}

TEST_F(ReportTest, JsonHasTheMeasurementsWhole) {
  const Json all = Json::parse(Report({dir_, "--format", "json"}).out);
  EXPECT_EQ(all, Json({stored(sample_valid(), "a"), stored(sample_invalid(), "b"),
                       stored(sample_failed(), "c")}));
  const std::string lines = Report({dir_, "--format", "jsonl", "--status", "invalid,failed"}).out;
  EXPECT_EQ(lines, stored(sample_invalid(), "b").dump() + "\n" +
                       stored(sample_failed(), "c").dump() + "\n");
}

TEST_F(ReportTest, HtmlIsAPageAndGoesToAFileWhole) {
  const fs::path page = directory_ / "report.html";
  const Report report({dir_, "--format", "html", "-o", page.string()});
  EXPECT_EQ(report.out, "");
  EXPECT_THAT(report.log, HasSubstr("wrote " + page.string()));
  EXPECT_THAT(read_file(page), testing::StartsWith("<!DOCTYPE html>"));
}

TEST_F(ReportTest, AFileThatCannotBeWrittenIsAnInputError) {
  put(directory_, "file", "");
  const Report report({dir_, "-o", dir_ + "/file/report.txt"});
  EXPECT_THAT(report.error, HasSubstr(dir_ + "/file"));
  EXPECT_EQ(report.out, "");
}

TEST_F(ReportTest, SimulatedResultsAreNoEvidenceUnlessAskedFor) {
  Measurement m = sample_valid();
  m.inputs["backend"] = "simulate";
  put(directory_, m, "s");
  const Report report({dir_, "--format", "jsonl"});
  EXPECT_THAT(report.out, Not(HasSubstr("simulate")));
  EXPECT_THAT(report.log, HasSubstr("warning: left out 1 simulated result, no evidence about any "
                                    "machine; --include-simulated shows them"));
  const Report all({dir_, "--format", "jsonl", "--include-simulated"});
  EXPECT_THAT(all.out, HasSubstr("simulate"));
  EXPECT_THAT(all.log, HasSubstr("4 results"));
}

class ImportedReportTest : public ReportTest {
 protected:
  void SetUp() override {
    ReportTest::SetUp();
    Evidence valid;
    valid.source = "t.csv:3";
    valid.stack = "fms-hf-tuning";
    valid.experiment = "finetune_lora_benchmark-v1.0.0";
    valid.inputs = {{"model_name", "llama3-8b"}, {"number_gpus", 2}};
    valid.outcome = EvidenceOutcome::kValid;
    valid.tokens_per_second = 4321;
    Evidence again = valid;
    again.source = "t.csv:4";
    again.tokens_per_second = 4399;
    Evidence died = valid;
    died.source = "t.csv:5";
    died.outcome = EvidenceOutcome::kOutOfMemory;
    died.tokens_per_second.reset();
    fs::create_directories(directory_ / "evidence");
    write_file_atomic(directory_ / "evidence" / "t.jsonl", evidence_text({valid, again, died}));
  }
};

TEST_F(ImportedReportTest, RowsOfOthersAreShownOnlyWhenAskedForAndNeverMixed) {
  const Report own({dir_});
  EXPECT_THAT(own.out, Not(HasSubstr("t.csv")));
  EXPECT_THAT(own.log, HasSubstr("3 results: 1 valid, 1 invalid, 1 failed"));
  const Report both({dir_, "--imported"});
  EXPECT_EQ(both.error, "");
  EXPECT_THAT(both.log, HasSubstr("6 results: 3 valid, 2 invalid, 1 failed"));
  // One configuration, measured twice by others: still two rows.
  EXPECT_THAT(both.out, testing::ContainsRegex("t\\.csv:3 +fms-hf-tuning.* 4321"));
  EXPECT_THAT(both.out, testing::ContainsRegex("t\\.csv:4 +fms-hf-tuning.* 4399"));
  EXPECT_THAT(both.out, testing::ContainsRegex("t\\.csv:5 .*OOM_GPU"));
  const Report wide({dir_, "--imported", "--wide", "--format", "csv", "--status", "valid",
                     "--experiment", "finetune_lora_benchmark-v1.0.0"});
  EXPECT_EQ(wide.error, "");
  EXPECT_EQ(std::count(wide.out.begin(), wide.out.end(), '\n'), 3) << wide.out;
  EXPECT_THAT(wide.out, HasSubstr("4321"));
}

TEST_F(ImportedReportTest, WhatCannotShowThemRefuses) {
  for (const std::string format : {"json", "jsonl", "html"}) {
    EXPECT_THAT(Report({dir_, "--imported", "--format", format}).error,
                HasSubstr("--imported: has no effect on --format " + format));
  }
  EXPECT_THAT(Report({dir_, "--imported", "--format", "csv"}).error, HasSubstr("ado's columns"));
  EXPECT_THAT(Report({dir_, "--imported", "--compare", dir_}).error,
              HasSubstr("--imported: has no effect with --compare"));
  fs::remove_all(directory_ / "evidence");
  EXPECT_THAT(Report({dir_, "--imported"}).error,
              HasSubstr("has no evidence; sftbench import puts it there"));
}

TEST_F(ReportTest, SkippedFilesAreNamedAndCounted) {
  put(directory_, "e/cut.json", "{\"schema\": \"sftbench");
  for (int i = 0; i < 30; ++i) put(directory_, "e/" + std::to_string(100 + i) + ".json", "");
  const Report report({dir_, "--format", "csv"});
  EXPECT_EQ(std::count(report.out.begin(), report.out.end(), '\n'), 3);
  EXPECT_THAT(report.log, HasSubstr("warning: skipped " + dir_ + "/e/100.json: empty\n"));
  EXPECT_THAT(report.log, Not(HasSubstr("129.json")));
  EXPECT_THAT(report.log, HasSubstr("skipped 11 more; --log-level debug names them"));
  EXPECT_THAT(report.log, HasSubstr("1 failed; 31 files skipped\n"));
}

TEST_F(ReportTest, CompareJoinsWithAnotherDirectory) {
  const fs::path other = fresh_results("cli_report_other");
  Measurement m = sample_valid();
  put(other, m, "a");
  const Report table({dir_, "--compare", other.string(), "--property", "train_runtime"});
  EXPECT_EQ(table.error, "");
  EXPECT_THAT(table.out, HasSubstr("noise unknown"));  // two steps
  m.extra["step_seconds"] = {6.0, 6.5, 6.2};
  put(directory_, m, "a");
  put(other, m, "a");
  const Report csv({dir_, "--compare", other.string(), "--property", "train_runtime", "--format",
                    "csv", "--status", "valid"});
  EXPECT_THAT(csv.out, HasSubstr(",12.5,12.5,1.0,"));
  EXPECT_THAT(csv.out, HasSubstr(",1,1,steps,no difference\n"));
  EXPECT_THAT(csv.log, HasSubstr("1 configuration in both, 0 only in " + dir_ + ", 0 only in " +
                                 other.string()));
  EXPECT_THAT(csv.log, HasSubstr("0 of 1 differ beyond the noise"));
  fs::remove_all(other);
}

TEST_F(ReportTest, VaryPairsConfigurationsThatDifferInOneInput) {
  Measurement m = sample_valid();
  m.extra["step_seconds"] = {6.0, 6.5, 6.2};
  m.inputs["varied"] = "one";
  put(directory_, m, "varied_one");
  m.inputs["varied"] = "two";
  m.measured["train_runtime"] = 25;
  put(directory_, m, "varied_two");
  const std::vector<std::string> words = {dir_,     "--status",   "valid",
                                          "--vary", "varied",     "--baseline",
                                          "one",    "--property", "train_runtime"};
  const Report table(words);
  EXPECT_EQ(table.error, "");
  EXPECT_THAT(table.out, HasSubstr("varied   beside  pairs  judged  ratio"));
  EXPECT_THAT(table.out, HasSubstr("higher"));
  std::vector<std::string> csv = words;
  csv.insert(csv.end(), {"--format", "csv"});
  EXPECT_THAT(Report(csv).out, HasSubstr("1,m,0,two,one,valid,25,12.5,"));
  EXPECT_THAT(Report(csv).out, HasSubstr("0,m,0,default,one,valid,12.5,12.5,"));
}

TEST_F(ReportTest, OptionsThatWouldChangeNothingAreErrors) {
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), dir_);
    const Report report(std::move(arguments));
    EXPECT_EQ(report.out, "");
    return report.error;
  };
  EXPECT_EQ(error({"--format", "json", "--wide"}),
            "--wide: has no effect on --format json, which has the measurements whole");
  EXPECT_EQ(error({"--format", "html", "--wide"}),
            "--wide: has no effect on --format html, which always has everything");
  EXPECT_EQ(error({"--format", "csv", "--wide", "--property-format", "observed"}),
            "--wide: has no effect with --property-format observed");
  EXPECT_EQ(error({"--aggregate", "mean"}), "--aggregate: belongs to --format csv or --wide");
  EXPECT_EQ(error({"--property-format", "observed"}),
            "--property-format: observed belongs to --format csv");
  EXPECT_EQ(error({"--property", "mfu"}),
            "--property: says what --compare and --vary compare; neither is given");
  EXPECT_EQ(error({"--compare", dir_, "--wide"}), "--wide: has no effect with --compare");
  EXPECT_EQ(error({"--compare", dir_, "--format", "html"}),
            "--compare: a page of comparisons is not there; table, md, csv, json, jsonl are");
  EXPECT_EQ(error({"--vary", "optim", "--compare", dir_}),
            "--vary: and --compare exclude each other");
  EXPECT_EQ(error({"--baseline", "1"}),
            "--baseline: is a value of what --vary varies, which is not given");
  EXPECT_EQ(error({"--vary", "optim", "--wide"}), "--wide: has no effect with --vary");
  EXPECT_EQ(error({"--vary", "optim", "--price", "2"}), "--price: has no effect with --vary");
  EXPECT_EQ(error({"--compare", dir_, "--prices", "mine.yaml"}),
            "--prices: has no effect with --compare");
  EXPECT_EQ(error({"--price", "2", "--format", "html"}),
            "--price: has no effect on --format html, which asks for prices itself");
  EXPECT_EQ(error({"--price", "2", "--format", "csv"}),
            "--price: has no effect on ado's columns; --wide has the cost behind them");
}

TEST_F(ReportTest, PricesThatAreNoneAreErrors) {
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), dir_);
    return Report(std::move(arguments)).error;
  };
  EXPECT_THAT(error({"--price", "2", "--prices", "mine.yaml"}),
              HasSubstr("--price: and --prices exclude each other; expected one of them"));
  EXPECT_THAT(error({"--price", "2e6"}),
              HasSubstr("is no price of one device and hour; expected a number up to 1000000"));
  EXPECT_THAT(error({"--prices", "nowhere.yaml"}), HasSubstr("nowhere.yaml: cannot open"));
  EXPECT_EQ(run_program({"report", dir_, "--price", "0"}).status, 2);
  EXPECT_EQ(run_program({"run", "space.yaml", "--price", "free"}).status, 2);
}

TEST_F(ReportTest, PricedTablesHaveTheCost) {
  Measurement trained = sample_valid();
  trained.measured["dataset_tokens_per_second"] = 1000.0;
  put(directory_, trained, "d");
  const Report table({dir_, "--price", "2", "--wide"});
  EXPECT_THAT(table.out, HasSubstr("usd_per_million_dataset_tokens"));
  const Report json({dir_, "--price", "2", "--format", "jsonl", "--status", "valid"});
  EXPECT_THAT(json.out, HasSubstr("\"cost\":{\"currency\":\"USD\",\"per_device_hour\":2.0"));
  const Report plain({dir_, "--format", "jsonl"});
  EXPECT_EQ(plain.out.find("\"cost\":"), std::string::npos);
}

TEST_F(ReportTest, UnknownWordsGetTheNearestSpelling) {
  EXPECT_EQ(
      Report({dir_, "--format", "htlm"}).error,
      "--format: unknown value 'htlm'; expected one of table, json, jsonl, csv, md, html; did "
      "you mean 'html'?");
  EXPECT_EQ(Report({dir_, "--format", "csv", "--aggregate", "meen"}).error,
            "--aggregate: unknown value 'meen'; expected one of median, mean, variance, std, min, "
            "max, list; did you mean 'mean'?");
  EXPECT_EQ(Report({dir_, "--status", "faild"}).error,
            "--status: unknown value 'faild'; expected one of valid, invalid, failed; did you mean "
            "'failed'?");
  EXPECT_EQ(Report({dir_, "--format", "csv", "--property-format", "targets"}).error,
            "--property-format: unknown value 'targets'; expected one of target, observed; did you "
            "mean 'target'?");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
