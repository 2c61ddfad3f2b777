// sftbench sweep, on simulated cells and, where a real child matters, with the fake engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/results/key_lock.h"
#include "sftbench/results/measurement.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

size_t occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    write_space("[64, 128, 256]", "[1, 2]");
  }

  // Cells: model_max_length x batch_size on two GPUs; an odd batch size breaks rule 1.
  void write_space(const std::string& lengths, const std::string& batches) {
    std::ofstream(space())
        << "experiments:\n- {experimentIdentifier: " << kExperiment
        << ", actuatorIdentifier: SFTTrainer, parameterization: [{property: "
           "{identifier: max_steps}, value: 3}]}\n"
           "entitySpace:\n"
           "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
           "- {identifier: number_gpus, propertyDomain: {values: [2]}}\n"
           "- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}\n"
        << "- {identifier: model_max_length, propertyDomain: {values: " << lengths
        << "}}\n- {identifier: batch_size, propertyDomain: {values: " << batches << "}}\n";
  }

  std::vector<std::string> arguments(const std::vector<std::string>& extra = {}) const {
    std::vector<std::string> words = {"sweep",     space(),   "-o", results().string(),
                                      "--backend", "simulate"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  ProgramResult sweep(const std::vector<std::string>& extra = {}) const {
    return run_program(arguments(extra));
  }

  std::string space() const { return (folder_ / "space.yaml").string(); }
  fs::path results() const { return folder_ / "results"; }

  std::vector<Json> measurements() const {
    std::vector<Json> all;
    for (const fs::path& file : files(".json")) all.push_back(read_json_file(file.string()));
    return all;
  }

  std::vector<fs::path> files(const std::string& extension) const {
    std::vector<fs::path> found;
    if (!fs::exists(results())) return found;
    for (const auto& entry : fs::recursive_directory_iterator(results())) {
      if (entry.path().extension() == extension) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::map<std::string, int> statuses() const {
    std::map<std::string, int> counts;
    for (const Json& measurement : measurements()) {
      const Json& reason = measurement.at("reason");
      const std::string code = reason.is_null() ? "" : " " + reason.at("code").get<std::string>();
      ++counts[measurement.at("status").get<std::string>() + code];
    }
    return counts;
  }

  // Everything but results and logs.
  std::vector<std::string> litter() const {
    std::vector<std::string> names = file_names_below(results());
    names.erase(std::remove_if(names.begin(), names.end(),
                               [](const std::string& name) {
                                 const bool growing = name.find(".growing.") != std::string::npos;
                                 const fs::path extension = fs::path(name).extension();
                                 return !growing && (extension == ".json" || extension == ".log" ||
                                                     extension == ".gz");
                               }),
                names.end());
    return names;
  }

  fs::path folder_;
};

// At 100 USD the cheaper of two batches is the faster one. Simulated speed varies by a little.
TEST_F(SweepTest, EndsWithTheBestCellItsRunnerUpAndTheCommandOfTheReport) {
  write_space("[256]", "[2, 32]");
  const ProgramResult result = sweep({"--repeats", "3", "--price", "100"});
  EXPECT_THAT(result.err, HasSubstr("256 tokens: batch_size=32 with "));
  EXPECT_THAT(result.err, HasSubstr("per million dataset tokens (measured 3 times), before "));
  EXPECT_THAT(result.err, HasSubstr("the report: sftbench report "));
  EXPECT_THAT(result.err, HasSubstr(" --include-simulated --format html -o report.html"));
  const ProgramResult again = sweep({"--repeats", "3"});
  EXPECT_THAT(again.err, HasSubstr("best of ")) << "what stands in the store counts, too";
  EXPECT_THAT(sweep({"--price", "1", "--prices", "x"}).err, HasSubstr("exclude each other"));
  EXPECT_THAT(sweep({"--log-level", "warn"}).err, Not(HasSubstr("best of ")));
}

// Welch's interval of the logarithms of these is 1.0004 to 1.0007.
TEST_F(SweepTest, WhatIsCalledSeparableDiffersInWhatIsPrinted) {
  write_space("[256]", "[2, 32]");
  ASSERT_EQ(sweep({"--repeats", "3"}).status, 0);
  std::map<int64_t, double> rates = {{2, 183.1}, {32, 183.0}};
  for (const fs::path& file : files(".json")) {
    Measurement result =
        measurement_from_json(parse_json(read_file(file), file.string()), file.string());
    double& rate = rates.at(result.inputs["batch_size"].get<int64_t>());
    result.measured["dataset_tokens_per_second"] = rate += 0.01;
    write_file_atomic(file, to_json(result).dump());
  }
  // Two devices cost 3.6 USD an hour, 1000 USD for a million seconds: 1000 / 183.12 and 1000 /
  // 183.02.
  const std::string told = sweep({"--repeats", "3", "--price", "1.8"}).err;
  EXPECT_THAT(told, HasSubstr("batch_size=2 with 5.4609 USD per million dataset tokens (measured 3 "
                              "times), before batch_size=32 with 5.4639 USD (measured 3 times)"));
  EXPECT_THAT(told, HasSubstr(": separable (ratio 1.0005, 95 %: 1.0004 to 1.0007)"));
}

TEST_F(SweepTest, RunsASearchOfAnAdoOperationFile) {
  write_space("[128, 256, 512, 1024]", "[1, 2, 4, 8, 16, 32]");
  const auto with = [this](const std::string& algorithm, const std::vector<std::string>& more) {
    const std::string file = (folder_ / "operation.yaml").string();
    std::ofstream(file) << "spaces: [space-1]\noperation:\n  module: {operatorName: ray_tune, "
                           "operationType: search}\n  parameters: {tuneConfig: {metric: "
                           "dataset_tokens_per_second, mode: max, num_samples: 9, search_alg: "
                        << algorithm << "}}\n";
    std::vector<std::string> words = {"--operation", file};
    words.insert(words.end(), more.begin(), more.end());
    return sweep(words);
  };
  const std::string bayes =
      "{name: bayesopt, params: {random_state: 11, random_search_steps: 4, utility_kwargs: {kind: "
      "ei}}}";
  const ProgramResult result = with(bayes, {"--format", "csv"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(statuses(), (std::map<std::string, int>{{"valid", 9}}))
      << "what breaks a rule is not asked for";
  EXPECT_THAT(result.err, HasSubstr("search by Gaussian process and expected improvement, for the "
                                    "highest dataset_tokens_per_second, seed 11"));
  EXPECT_THAT(result.err, HasSubstr("searched 9 cells, 9 of them valid: the highest"));
  const ProgramResult again = with(bayes, {"--format", "csv"});
  EXPECT_THAT(again.out, HasSubstr("valid,,0,9\n")) << "the same seed asks for the same cells";
  EXPECT_THAT(with(bayes, {"--seed", "12"}).err, HasSubstr("seed 12"));
  EXPECT_THAT(with(bayes, {"--dry-run"}).err, HasSubstr("no place beside a search"));
  EXPECT_THAT(with(bayes, {"--worker"}).err, HasSubstr("no place beside a search"));
  EXPECT_THAT(with(bayes, {"--on", "local"}).err, HasSubstr("is a search, whose next cell"));
  EXPECT_THAT(with("{name: random, params: {points_to_evaluate: [{batch_size: 3, "
                   "model_max_length: 128}]}}",
                   {})
                  .err,
              HasSubstr("batch_size 3 is not in the space"));
}

TEST_F(SweepTest, MeasuresEveryCellAndTheNextOneMeasuresNothing) {
  const ProgramResult first = sweep({"--format", "csv"});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out,
            "status,reason,measured_now,measured_before\nvalid,,3,0\ninvalid,RULE_1,3,0\n");
  EXPECT_THAT(statuses(),
              UnorderedElementsAre(std::pair("valid", 3), std::pair("invalid RULE_1", 3)));
  EXPECT_THAT(litter(), IsEmpty());
  const ProgramResult second = sweep({"--format", "csv"});
  EXPECT_EQ(second.status, 0);
  EXPECT_EQ(second.out, "status,reason,measured_now,measured_before\nvalid,,0,3\ninvalid,,0,3\n");
}

TEST_F(SweepTest, EveryResultKeepsToTheSchemaAndSaysWhatItIs) {
  write_space("[64]", "[1, 2]");
  sweep();
  ASSERT_THAT(files(".json"), SizeIs(2));
  for (const fs::path& file : files(".json")) {
    EXPECT_EQ(schema_violation(file), "");
    const Json measurement = read_json_file(file.string());
    EXPECT_EQ(measurement.at("inputs").at("backend"), "simulate");
    EXPECT_THAT(measurement.at("command").get<std::string>(),
                HasSubstr("--entity " + measurement.at("entity_id").get<std::string>()));
  }
}

TEST_F(SweepTest, TheCommandOfAResultRepeatsIt) {
  sweep();
  for (const Json& measurement : measurements()) {
    if (measurement.at("status") != "valid") continue;
    std::vector<std::string> words;
    std::istringstream command(measurement.at("command").get<std::string>());
    for (std::string word; command >> word;) words.push_back(word);
    words.erase(words.begin());  // sftbench
    words.insert(words.end(), {"-o", (folder_ / "again").string(), "--format", "json"});
    const ProgramResult again = run_program(words);
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(parse_json(again.out, "stdout").at("inputs"), measurement.at("inputs"));
    EXPECT_EQ(parse_json(again.out, "stdout").at("measured").at("train_runtime"),
              measurement.at("measured").at("train_runtime"));
  }
}

TEST_F(SweepTest, OneLinePerEventWhenStderrIsNoTerminal) {
  const ProgramResult result = sweep();
  EXPECT_THAT(result.err, HasSubstr("sweep of 6 cells, claimed by locks ("));
  EXPECT_THAT(result.err, HasSubstr("start    model_max_length=64 batch_size=2\n"));
  EXPECT_EQ(occurrences(result.err, "start "), 3u);
  EXPECT_EQ(occurrences(result.err, "] valid "), 3u);
  EXPECT_THAT(result.err, HasSubstr("[6/6]"));
  EXPECT_THAT(result.err, HasSubstr("invalid  model_max_length=256 batch_size=1: RULE_1: "));
  EXPECT_THAT(result.err, HasSubstr("6 of 6 cells are settled in "));
}

TEST_F(SweepTest, WhatFailsIsTriedAgainByTheNextSweepUnlessAskedNotTo) {
  const ProgramResult failing = sweep({"--simulate", "fail=INTERNAL"});
  EXPECT_EQ(failing.status, 4);
  EXPECT_THAT(statuses(), UnorderedElementsAre(std::pair("failed INTERNAL", 3),
                                               std::pair("invalid RULE_1", 3)));
  const ProgramResult left_alone = sweep({"--no-retry-failed", "--format", "csv"});
  EXPECT_EQ(left_alone.status, 4);
  EXPECT_THAT(left_alone.out, HasSubstr("failed,,0,3\n"));
  const ProgramResult mended = sweep();
  EXPECT_EQ(mended.status, 0);
  EXPECT_THAT(statuses(),
              UnorderedElementsAre(std::pair("valid", 3), std::pair("invalid RULE_1", 3)));
}

TEST_F(SweepTest, HowManyWereMeasuredSideBySideStandsInTheResultAndTheReportTellsThemApart) {
  write_space("[64, 128]", "[2, 4]");
  sweep({"--jobs", "1"});
  for (const Json& result : measurements())
    EXPECT_EQ(result.at("environment").at("concurrent_cells"), 0);
  const std::vector<std::string> report = {"report", results().string(), "--include-simulated"};
  EXPECT_THAT(run_program(report).err, Not(HasSubstr("concurrent")));
  write_space("[64, 128, 256, 512]", "[2, 4]");
  sweep({"--jobs", "2"});
  std::map<int, int> counts;
  for (const Json& result : measurements()) {
    ++counts[result.at("environment").at("concurrent_cells").get<int>()];
    EXPECT_EQ(schema_violation(files(".json").front()), "");
  }
  EXPECT_GE(counts[1], 2);
  EXPECT_EQ(counts[0] + counts[1], 8);
  const ProgramResult mixed = run_program(report);
  EXPECT_EQ(mixed.status, 0);
  EXPECT_THAT(mixed.err, HasSubstr("warning: measured beside different numbers of concurrent cells "
                                   "(sweep --jobs): "));
  EXPECT_THAT(mixed.out, HasSubstr("concurrent_cells"));
}

TEST_F(SweepTest, ADamagedResultIsMeasuredAnewAndKeptAside) {
  write_space("[64]", "[2]");
  sweep();
  const fs::path file = files(".json").front();
  std::string text = read_file(file);
  const size_t digit = text.find_first_of("123456789", text.find("train_runtime"));
  text[digit] = text[digit] == '9' ? '8' : '9';
  std::ofstream(file) << text;
  const ProgramResult again = sweep({"--format", "csv"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("valid,,1,0\n"));
  EXPECT_THAT(again.err, HasSubstr("is not what the measurement wrote: its checksum is "));
  EXPECT_EQ(read_file(file.string() + ".aside"), text);
  EXPECT_THAT(sweep({"--format", "csv"}).out, HasSubstr("valid,,0,1\n"));
}

TEST_F(SweepTest, RetriesWithinOneSweepAreCounted) {
  const ProgramResult result = sweep({"--simulate", "fail=NCCL", "--max-retries", "2"});
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(occurrences(result.err, "start "), 9u);
  EXPECT_EQ(occurrences(result.err, "; will be tried again"), 6u);
  EXPECT_EQ(occurrences(result.err, "] failed "), 3u);
}

TEST_F(SweepTest, GpuMemoryMakesACellInvalidForGood) {
  EXPECT_EQ(sweep({"--simulate", "oom_gpu_above_gib=0.001"}).status, 0);
  EXPECT_THAT(statuses(), UnorderedElementsAre(std::pair("invalid OOM_GPU", 3),
                                               std::pair("invalid RULE_1", 3)));
  EXPECT_THAT(sweep({"--format", "csv"}).out, HasSubstr("invalid,,0,6\n"));
}

TEST_F(SweepTest, RepeatsKeepEverySampleOfWhatIsValid) {
  EXPECT_EQ(sweep({"--repeats", "3"}).status, 0);
  EXPECT_THAT(files(".json"), SizeIs(3 * 3 + 3));
  std::map<std::string, std::vector<double>> runtimes;
  for (const Json& measurement : measurements()) {
    if (measurement.at("status") != "valid") continue;
    runtimes[measurement.at("entity_id")].push_back(measurement.at("measured").at("train_runtime"));
  }
  for (const auto& [entity, samples] : runtimes) {
    EXPECT_THAT(samples, SizeIs(3));
    EXPECT_NE(samples[0], samples[1]) << "a sample is a measurement of its own";
  }
  const ProgramResult again = sweep({"--repeats", "4"});
  EXPECT_EQ(occurrences(again.err, "start "), 3u);
  EXPECT_THAT(files(".json"), SizeIs(4 * 3 + 3));
}

TEST_F(SweepTest, LimitEndsTheSweepAfterSoManyCells) {
  const ProgramResult result = sweep({"--limit", "2"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(files(".json"), SizeIs(2));
  EXPECT_THAT(result.err, HasSubstr("the limit of 2 is reached"));
  sweep({"--limit", "2"});
  EXPECT_THAT(files(".json"), SizeIs(4));
  EXPECT_THAT(sweep({"--limit", "2"}).err, Not(HasSubstr("limit of")));
}

TEST_F(SweepTest, DryRunSaysWhatWouldHappenAndWritesNothing) {
  const ProgramResult before = sweep({"--dry-run", "--format", "jsonl"});
  EXPECT_EQ(before.status, 0);
  EXPECT_FALSE(fs::exists(results()));
  EXPECT_EQ(occurrences(before.out, R"("action":"measure")"), 3u);
  EXPECT_EQ(occurrences(before.out, R"("action":"record as invalid","reason":"RULE_1: )"), 3u);
  sweep({"--limit", "3"});
  const ProgramResult after = sweep({"--dry-run", "--format", "jsonl"});
  EXPECT_EQ(occurrences(after.out, R"("action":"measure")") +
                occurrences(after.out, R"("action":"record as invalid")"),
            3u);
}

TEST_F(SweepTest, OneEntityOfASpace) {
  EXPECT_EQ(sweep({"--entity", "3"}).status, 0);
  ASSERT_THAT(measurements(), SizeIs(1));
  EXPECT_THAT(measurements().front().at("entity_id").get<std::string>(),
              StartsWith("batch_size.2-gpu_model.NVIDIA-H100-PCIe-model_max_length.128-"));
}

TEST_F(SweepTest, AnOperationSaysWhichEntitiesInWhichOrder) {
  std::ofstream(folder_ / "walk.yaml")
      << "spaces: [any]\noperation:\n  module: {operatorName: random_walk, operationType: search}\n"
         "  parameters: {numberEntities: 4, batchSize: 2, maxRetries: 1, singleMeasurement: true, "
         "samplerConfig: {samplerType: generator, mode: random}}\n";
  const std::vector<std::string> words = {"--operation", (folder_ / "walk.yaml").string(), "--seed",
                                          "7"};
  const ProgramResult result = sweep(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("sweep of 4 cells, claimed by "));
  EXPECT_THAT(files(".json"), SizeIs(4));
  const ProgramResult again = sweep(words);
  EXPECT_EQ(occurrences(again.err, "start "), 0u) << "a seed repeats the choice";
}

TEST_F(SweepTest, ASelectorOnAnEmptyFolderSaysWhyNothingIsMeasured) {
  std::ofstream(folder_ / "walk.yaml")
      << "spaces: [any]\noperation:\n  module: {operatorName: random_walk, operationType: search}\n"
         "  parameters: {numberEntities: 2, samplerConfig: {samplerType: selector, mode: "
         "sequential}}\n";
  const std::vector<std::string> words = {"--operation", (folder_ / "walk.yaml").string()};
  std::vector<std::string> dry = words;
  dry.push_back("--dry-run");
  for (const auto& asked : {words, dry}) {
    const ProgramResult result = sweep(asked);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr("no entity is taken: a selector takes those that have results"));
  }
  EXPECT_EQ(sweep({"--limit", "2"}).status, 0);
  EXPECT_THAT(sweep(words).err, Not(HasSubstr("taken: ")));
}

TEST_F(SweepTest, TheBreakerStopsASweepOnABrokenMachine) {
  write_space("[64, 128, 256, 512, 1024]", "[2, 4, 6, 8]");
  const ProgramResult result = sweep({"--simulate", "exit_at_step=1", "--max-quick-failures", "4"});
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(files(".json"), SizeIs(4));
  EXPECT_THAT(result.err, HasSubstr("stopped: 4 measurements in a row failed, each within 10 s"));
  EXPECT_EQ(sweep().status, 0);
  EXPECT_THAT(files(".json"), SizeIs(20));
}

TEST_F(SweepTest, TheFirstInterruptEndsChildrenAndTheNextSweepGoesOn) {
  Program program(arguments({"--simulate", "sleep_s=0.3", "--jobs", "2"}));
  program.start();
  program.read_err_until("batch_size=2: ");  // one has ended, another runs
  ::kill(program.pid(), SIGINT);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the same command goes on from there"));
  EXPECT_THAT(litter(), IsEmpty());
  EXPECT_LT(files(".json").size(), 6u);
  for (const auto& [status, count] : statuses()) EXPECT_THAT(status, Not(HasSubstr("KILLED")));
  EXPECT_EQ(sweep().status, 0);
  EXPECT_THAT(files(".json"), SizeIs(6));
}

TEST_F(SweepTest, TheSecondInterruptEndsChildrenThatDoNotListen) {
  Program program(arguments({"--simulate", "hang_at_step=1"}));
  program.start();
  program.read_err_until("start ");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(program.pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(program.pid(), SIGINT);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_LT(result.wall_s, 3);
  EXPECT_THAT(litter(), IsEmpty());
}

TEST_F(SweepTest, AHangIsEndedByTheStallTimeoutAndARunThatIsTooLongByTheTimeout) {
  write_space("[64]", "[2]");
  EXPECT_EQ(sweep({"--simulate", "hang_at_step=1", "--stall-timeout", "0.3"}).status, 4);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("failed HANG", 1)));
  EXPECT_EQ(sweep({"--simulate", "sleep_s=10", "--timeout", "0.3"}).status, 4);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("failed TIMEOUT", 1)));
}

TEST_F(SweepTest, ACrashCostsOneMeasurement) {
  EXPECT_EQ(sweep({"--simulate", "crash_at_step=2"}).status, 4);
  EXPECT_THAT(statuses(), UnorderedElementsAre(std::pair("failed INTERNAL", 3),
                                               std::pair("invalid RULE_1", 3)));
}

TEST_F(SweepTest, TwoSweepsOnOneFolderShareTheWork) {
  write_space("[64, 128, 256, 512]", "[2, 4, 6]");
  Program first(arguments({"--simulate", "sleep_s=0.02"}));
  Program second(arguments({"--simulate", "sleep_s=0.02"}));
  first.start();
  second.start();
  const ProgramResult one = first.finish(), two = second.finish();
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(occurrences(one.err, "start ") + occurrences(two.err, "start "), 12u);
  EXPECT_GT(occurrences(one.err, "start "), 0u);
  EXPECT_GT(occurrences(two.err, "start "), 0u);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("valid", 12)));
  EXPECT_THAT(litter(), IsEmpty());
}

TEST_F(SweepTest, WhatFailsInOneOfTwoSweepsIsNotMeasuredByBoth) {
  Program first(arguments({"--simulate", "sleep_s=0.05", "--simulate", "crash_at_step=3"}));
  Program second(arguments({"--simulate", "sleep_s=0.05", "--simulate", "crash_at_step=3"}));
  first.start();
  second.start();
  const ProgramResult one = first.finish(), two = second.finish();
  EXPECT_EQ(one.status, 4);
  EXPECT_EQ(two.status, 4);
  EXPECT_EQ(occurrences(one.err, "start ") + occurrences(two.err, "start "), 3u);
}

TEST_F(SweepTest, ACellThatSomebodyElseMeasuresIsWaitedForAndTheHolderIsNamed) {
  write_space("[64, 128]", "[2]");
  const std::string key =
      parse_json(sweep({"--dry-run", "--format", "json"}).out, "stdout")[0].at("key");
  fs::create_directories(results() / kExperiment);
  auto lock = KeyLock::try_acquire(results() / kExperiment / (key + ".lock"));
  ASSERT_TRUE(lock);
  Program program(arguments());
  program.start();
  const std::string seen = program.read_err_until("[1/2] valid");
  EXPECT_THAT(seen,
              HasSubstr("process " + std::to_string(::getpid()) + "; looked at again at the end"));
  lock.reset();
  EXPECT_EQ(program.finish().status, 0);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("valid", 2)));
}

// A short form of tests/faults/sweeps.py.
TEST_F(SweepTest, KilledAtAnyInstantItGoesOnAndLosesNothing) {
  write_space("[64, 128, 256, 512, 1024]", "[2, 4, 6, 8]");
  std::map<fs::path, std::string> final_files;
  for (int i = 0; i < 8; ++i) {
    Program program(arguments({"--simulate", "sleep_s=0.01", "--jobs", "2"}));
    program.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 13 * i));
    ::kill(program.pid(), SIGKILL);
    program.finish();
    for (const fs::path& file : files(".json")) {
      const std::string text = read_file(file);
      EXPECT_EQ(parse_json(text, file.string()).at("status"), "valid");
      const auto [known, is_new] = final_files.emplace(file, text);
      EXPECT_EQ(known->second, text) << "a result was written twice";
    }
  }
  EXPECT_EQ(sweep().status, 0);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("valid", 20)));
  EXPECT_THAT(litter(), IsEmpty());
}

TEST_F(SweepTest, AResultThatCannotBeWrittenStopsItAndLosesNothing) {
  write_space("[64, 128, 256]", "[2]");
  ASSERT_EQ(sweep({"--limit", "1"}).status, 0);
  const std::string finished = read_file(files(".json").front());
  fs::remove_all(folder_ / "elsewhere");
  Program program(arguments());
  program.limit_file_bytes(1000);
  program.start();
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 2) << "the probe finds it before anything is measured";
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_EQ(read_file(files(".json").front()), finished);
}

TEST_F(SweepTest, AFileThatIsNoMeasurementIsNamedAndKeptAside) {
  write_space("[64]", "[2]");
  sweep();
  const fs::path file = files(".json").front();
  std::ofstream(file) << "{\"torn";
  const ProgramResult result = sweep();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(file.string()));
  EXPECT_THAT(result.err, HasSubstr("it is measured anew, the file is kept aside"));
  EXPECT_EQ(read_file(file.string() + ".aside"), "{\"torn");
  EXPECT_EQ(read_json_file(file.string()).at("status"), "valid");
}

// What stands in the place of one result costs no other cell, and waits for nobody.
TEST_F(SweepTest, NoRegularFileInThePlaceOfAResultIsKeptAside) {
  write_space("[64, 128, 256]", "[2]");
  sweep();
  const fs::path file = files(".json").front();
  const std::pair<const char*, std::function<void()>> kKinds[] = {
      {"pipe", [&] { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); }},
      {"folder", [&] { fs::create_directories(file / "inside"); }},
      {"link to a pipe",
       [&] {
         ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
         fs::create_symlink(folder_ / "pipe", file);
       }},
      {"link to nothing", [&] { fs::create_symlink("/nonexistent/x", file); }},
      {"link to a device", [&] { fs::create_symlink("/dev/zero", file); }}};
  for (const auto& [kind, plant] : kKinds) {
    fs::remove_all(file);
    plant();
    const ProgramResult result = sweep();
    EXPECT_EQ(result.status, 0) << kind << ": " << result.err;
    EXPECT_LT(result.wall_s, 20) << kind;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file))) << kind;
    EXPECT_EQ(files(".json").size(), 3) << kind;
  }
}

TEST_F(SweepTest, WhatIsInTheWayOfOneCellIsNotInTheWayOfOthers) {
  write_space("[64, 128, 256]", "[2]");
  sweep();
  const fs::path file = files(".json").front();
  const std::string key = file.stem().string();
  const auto blocked = [&](const fs::path& place, const std::vector<std::string>& extra) {
    for (const fs::path& result : files(".json")) fs::remove(result);
    fs::create_directories(place / "inside");
    const ProgramResult result = sweep(extra);
    EXPECT_EQ(result.status, 6) << place << result.err;
    EXPECT_THAT(result.err, HasSubstr("1 cell left to others: " + place.string() + ": "));
    EXPECT_EQ(files(".json").size(), 2) << place;
    fs::remove_all(place);
    EXPECT_EQ(sweep(extra).status, 0) << place;
  };
  blocked(file.parent_path() / (key + ".lock"), {});
  blocked(file.parent_path() / (key + ".growing.log"), {});
  const auto pipe_in_place_of_lease = [&] {
    for (const fs::path& result : files(".json")) fs::remove(result);
    const fs::path place = results() / ".leases" / key;
    fs::create_directories(place.parent_path());
    ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
    const ProgramResult result = sweep();
    EXPECT_EQ(result.status, 6) << result.err;
    EXPECT_THAT(result.err, HasSubstr("cannot make a lease: no folder stands there; remove it"));
    EXPECT_EQ(files(".json").size(), 2);
  };
  pipe_in_place_of_lease();
}

TEST_F(SweepTest, ManyCellsAtATimeOnSimulatedDevices) {
  write_space("[64, 128, 256, 512]", "[2, 4]");
  const ProgramResult result = sweep({"--jobs", "8", "--simulate", "sleep_s=0.2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(result.wall_s, 8 * 0.6) << "8 cells of 0.6 s";
}

// --- real children, fake engine ------------------------------------------------------------------

class RealSweepTest : public SweepTest {
 protected:
  void SetUp() override {
    SweepTest::SetUp();
    configure_small_dataset(folder_);
  }

  std::vector<std::string> words(const std::vector<std::string>& extra) const {
    std::vector<std::string> words = {
        "sweep",  "--experiment",     kExperiment,
        "-o",     results().string(), "--weights",
        "random", "--config",         (folder_ / "config.yaml").string()};
    for (const char* assignment : {"batch_size=2", "model_max_length=64", "max_steps=3"}) {
      words.insert(words.end(), {"--set", assignment});
    }
    words.insert(words.end(), {"--set", "number_gpus=" + number_gpus_});
    words.insert(words.end(), {"--set", "model_name=" + model_name_});
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  std::string number_gpus_ = "0";
  std::string model_name_ = "smollm2-135m";
};

TEST_F(RealSweepTest, WhatIsMissingOrCannotBeDoneFailsByNameAndStartsNoChild) {
  const ProgramResult result =
      run_program(words({"--set", "dataset_id=news-chars-512-entries-256"}));
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("failed DATA", 1)));
  EXPECT_EQ(occurrences(result.err, "start "), 0u);
}

TEST_F(RealSweepTest, AMachineWithoutTheGpusFailsTheCellAsUnsupported) {
  number_gpus_ = "1";
  const ProgramResult result = run_program(words({"--set", "gpu_model=NVIDIA-H100-PCIe"}));
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(statuses(), ElementsAre(std::pair("failed UNSUPPORTED", 1)));
  EXPECT_EQ(occurrences(result.err, "start "), 0u);
}

TEST_F(RealSweepTest, EachMeasurementSeesItsOwnGpuAlone) {
  number_gpus_ = "1";
  const ProgramResult result =
      run_program(words({"--set", "gpu_model=Tesla-T4", "--set",
                         "gradient_accumulation_steps=[1,2]", "--jobs", "auto"}),
                  {{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
                   {"FAKE_NVML_GPUS", "Tesla T4;Tesla T4"}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(statuses(), ElementsAre(std::pair("valid", 2)));
  EXPECT_EQ(occurrences(result.err, " on GPU-"), 2u);
  std::vector<double> watts;  // the fake driver's readings tell one device from the other
  for (const Json& measurement : measurements()) {
    watts.push_back(measurement.at("measured").at("gpu_power_watts_avg"));
  }
  EXPECT_NE(watts[0], watts[1]);
}

TEST_F(RealSweepTest, AChildHasItsOwnCoresAndThreads) {
  const ProgramResult result = run_program(words({"--threads", "1"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(" on core "));
  ASSERT_THAT(measurements(), SizeIs(1));
  EXPECT_EQ(measurements().front().at("environment").at("cores"), 1);
}

TEST_F(RealSweepTest, ACellWhoseMemoryCannotSufficeIsAnnouncedAndMeasuredNevertheless) {
  model_name_ = "[smollm2-135m, llama3.1-405b]";
  ProgramResult result = run_program(words({}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(occurrences(result.err, "warning  "), 1u) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning  model_name=llama3.1-405b: llama3.1-405b needs at "
                                    "least about "));
  EXPECT_THAT(statuses(), ElementsAre(std::pair("valid", 2))) << "measured with the fake engine";

  fs::remove_all(results());
  result = run_program(words({"--no-progress"}));
  EXPECT_THAT(result.err, HasSubstr("llama3.1-405b needs at least about "));

  fs::remove_all(results());
  model_name_ = "smollm2-135m";
  result = run_program(words({"--host-memory", "300MiB"}));
  EXPECT_THAT(result.err, HasSubstr("300 MiB are available (--host-memory)"));
}

TEST_F(RealSweepTest, BadOptionsAreNamedBeforeAnythingIsMeasured) {
  const auto error = [this](const std::vector<std::string>& extra) {
    const ProgramResult result = run_program(words(extra));
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--jobs", "many"}),
              HasSubstr("--jobs: found 'many'; expected a number of measurements"));
  EXPECT_THAT(error({"--jobs", "0"}), HasSubstr("--jobs: found '0'"));
  EXPECT_THAT(error({"--threads", "60000"}),
              HasSubstr("--threads: found 60000 for each of 1 rank"));
  EXPECT_THAT(error({"--repeats", "0"}), HasSubstr("--repeats"));
  EXPECT_THAT(error({"--host-memory", "much"}), HasSubstr("--host-memory"));
  EXPECT_THAT(error({"--operation", "absent.yaml"}), HasSubstr("absent.yaml"));
  EXPECT_THAT(error({"--simulate", "steps=2"}), HasSubstr("--simulate: nothing is simulated"));
  EXPECT_FALSE(fs::exists(results()));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
