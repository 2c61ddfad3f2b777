// sftbench run, with the fake engine: options to outcome, files and exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "cli/program.h"
#include "cli/run_log.h"
#include "launch/processes_of_test.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";

class RunTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    configure_small_dataset(folder_);
  }

  // One entity on the CPU. `extra` are more words; what they set replaces the default of the same
  // name.
  std::vector<std::string> arguments(const std::vector<std::string>& extra = {}) const {
    const auto given = [&extra](const std::string& beginning) {
      return std::any_of(extra.begin(), extra.end(), [&beginning](const std::string& word) {
        return word.rfind(beginning, 0) == 0;
      });
    };
    std::vector<std::string> words = {"run", "--experiment", kExperiment, "--config",
                                      (folder_ / "config.yaml").string()};
    if (!given("--weights")) words.insert(words.end(), {"--weights", "random"});
    if (!given("--output")) words.insert(words.end(), {"--output", results()});
    for (const auto& [name, value] :
         {std::pair<std::string, std::string>{"model_name", "smollm2-135m"},
          {"number_gpus", "0"},
          {"model_max_length", "64"},
          {"batch_size", "2"},
          {"max_steps", "3"}}) {
      if (!given(name + "=")) words.insert(words.end(), {"--set", name + "=" + value});
    }
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }

  std::string results() const { return (folder_ / "results").string(); }

  // The one result file.
  fs::path result_file() const {
    std::vector<fs::path> found;
    if (fs::exists(results())) {
      for (const auto& entry : fs::recursive_directory_iterator(results())) {
        if (entry.path().extension() == ".json") found.push_back(entry.path());
      }
    }
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? fs::path() : found.front();
  }

  Json result() const { return read_json_file(result_file().string()); }

  fs::path folder_;
};

TEST_F(RunTest, ThatMemoryCannotSufficeIsSaidBeforeTheRunBegins) {
  const ProgramResult large = run_program(arguments({"--set", "model_name=llama3.1-405b"}));
  const size_t said = large.err.find("llama3.1-405b needs at least about ");
  ASSERT_NE(said, std::string::npos) << large.err;
  EXPECT_LT(said, large.err.find("measuring "));
  EXPECT_THAT(large.err, HasSubstr("likely to end as OOM_HOST"));
  EXPECT_EQ(large.status, 0) << "the fake engine can";

  const ProgramResult small = run_program(arguments());
  EXPECT_THAT(small.err, testing::Not(HasSubstr("needs at least")));
}

TEST_F(RunTest, AValidRunPrintsItsPropertiesAndWritesOneFileAndItsLog) {
  const ProgramResult run = run_program(arguments());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("status      valid\n"));
  EXPECT_THAT(run.out, testing::ContainsRegex("train_runtime +[0-9.]+  s\n"));
  const fs::path file = result_file();
  EXPECT_EQ(file.parent_path().filename(), kExperiment);
  const std::string key = file.stem().string();
  EXPECT_THAT(file_names_below(results()),
              ElementsAre(key + ".json", key + ".log", key + ".series.json.gz"));
  EXPECT_EQ(schema_violation(file), "");
  Json json = result();
  EXPECT_EQ(json["inputs"]["model_max_length"], 64);
  EXPECT_EQ(json["inputs"]["weights"], "random");
  EXPECT_EQ(json["inputs"]["torch_dtype"], "bfloat16");  // a default
  EXPECT_EQ(json["environment"]["libtorch"], "0.0-fake");
  EXPECT_THAT(json["command"].get<std::string>(), StartsWith("sftbench run --experiment "));
  const std::string log = read_file(file.parent_path() / (key + ".log"));
  EXPECT_THAT(log, HasSubstr(" step: 3 epoch "));
  EXPECT_THAT(log, HasSubstr(" end: 3 steps"));
}

// tests/faults takes the folder away at any instant, also between its probe and the log.
TEST_F(RunTest, TheLogOfAFolderThatVanishedIsInANewOne) {
  const fs::path log = folder_ / "results" / kExperiment / "key.growing.log";
  { const RunLog opened(log); }
  EXPECT_TRUE(fs::is_regular_file(log));
}

TEST_F(RunTest, StdoutCarriesDataOnlyInEachFormat) {
  const ProgramResult json = run_program(arguments({"--format", "json"}));
  EXPECT_EQ(Json::parse(json.out), result());
  const ProgramResult line = run_program(arguments({"--format", "jsonl"}));
  EXPECT_EQ(Json::parse(line.out)["status"], "valid");
  EXPECT_EQ(std::count(line.out.begin(), line.out.end(), '\n'), 1);
  const ProgramResult csv = run_program(arguments({"--format", "csv"}));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
  const ProgramResult md = run_program(arguments({"--format", "md"}));
  EXPECT_THAT(md.out, StartsWith("| experiment_id"));
}

TEST_F(RunTest, ProgressGoesToStderrAndCanBeSwitchedOff) {
  const ProgramResult with = run_program(arguments());
  EXPECT_THAT(with.err, HasSubstr("step 3/3, loss 3.333, "));
  EXPECT_THAT(with.err, HasSubstr("warning: the fake engine trains nothing"));
  EXPECT_THAT(with.err, testing::Not(HasSubstr("\r")));  // not a terminal: lines, no bar
  const ProgramResult without = run_program(arguments({"--no-progress"}));
  EXPECT_THAT(without.err, testing::Not(HasSubstr("step 3/3")));
  const ProgramResult silent = run_program(arguments({"--log-level", "off"}));
  EXPECT_EQ(silent.err, "");
}

TEST_F(RunTest, TheSameInputsGiveTheSameKeyAndOthersAnother) {
  run_program(arguments());
  const std::string key = result_file().stem();
  run_program(arguments());
  EXPECT_THAT(file_names_below(results()),
              ElementsAre(key + ".2.json", key + ".2.log", key + ".2.series.json.gz", key + ".json",
                          key + ".log", key + ".series.json.gz"));
  run_program(arguments({"--set", "torch_dtype=float32", "--output", results() + "2"}));
  EXPECT_THAT(file_names_below(results() + "2"), testing::Not(testing::Contains(key + ".json")));
}

TEST_F(RunTest, AJobFileRepeatsTheRun) {
  const ProgramResult dry = run_program(arguments({"--dry-run"}));
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(file_names_below(results()), IsEmpty());
  std::ofstream(folder_ / "job.json") << dry.out;
  run_program(arguments());
  Json direct = result();
  fs::remove_all(results());
  const ProgramResult repeated = run_program(
      {"run", "--job", (folder_ / "job.json").string(), "--output", results(), "--format", "json"});
  EXPECT_EQ(repeated.status, 0) << repeated.err;
  EXPECT_EQ(result()["inputs"], direct["inputs"]);
  EXPECT_EQ(result()["entity_id"], direct["entity_id"]);
  EXPECT_EQ(result()["extra"]["loss"], direct["extra"]["loss"]);
}

TEST_F(RunTest, AJobMakesTheDatasetThatItsSpaceWouldMake) {
  std::vector<std::string> words = {"run",       "--experiment", kExperiment,
                                    "--weights", "random",       "--dry-run"};
  for (const char* set : {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64",
                          "batch_size=2", "max_steps=2", "dataset_id=news-chars-512-entries-256"}) {
    words.insert(words.end(), {"--set", set});
  }
  const std::map<std::string, std::string> bare = {{"XDG_DATA_HOME", (folder_ / "bare").string()}};
  const ProgramResult dry = run_program(words, bare);
  ASSERT_EQ(dry.status, 0) << dry.err;
  const fs::path dataset = Json::parse(dry.out)["data"]["path"].get<std::string>();
  EXPECT_FALSE(fs::exists(dataset));
  std::ofstream(folder_ / "job.json") << dry.out;
  const std::vector<std::string> job = {"run", "--job", (folder_ / "job.json").string(), "--output",
                                        results()};
  const ProgramResult run = run_program(job, bare);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(fs::exists(dataset)) << run.err;

  // Elsewhere it is a file like any other.
  Json moved = Json::parse(dry.out);
  moved["data"]["path"] = (folder_ / "elsewhere.jsonl").string();
  std::ofstream(folder_ / "job.json") << moved.dump();
  run_program(job, bare);
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere.jsonl"));
}

// What --dry-run printed, as it is after `edit`.
class RunJobTest : public RunTest {
 protected:
  ProgramResult run_job(const std::function<void(Json&)>& edit,
                        const std::vector<std::string>& more = {}) {
    Json job = Json::parse(run_program(arguments({"--dry-run"})).out);
    edit(job);
    std::ofstream(path()) << job.dump(2);
    std::vector<std::string> words = {"run", "--job", path(), "--output", results()};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  std::string path() const { return (folder_ / "job.json").string(); }
};

TEST_F(RunJobTest, AnEditedJobHasAKeyOfItsOwnAndSaysWhatWasTrained) {
  run_program(arguments());
  const std::string unedited = result_file().stem();
  fs::remove_all(results());
  const ProgramResult run = run_job([](Json& job) {
    job["batches"]["max_steps"] = 2;
    job["optimizer"]["learning_rate"] = 0.001;
  });
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("job.json was edited: batches.max_steps, optimizer.learning_rate; "
                                 "inputs and key of the result say so"));
  EXPECT_NE(result_file().stem(), unedited);
  Json json = result();
  EXPECT_EQ(json["extra"]["loss"].size(), 2u);
  EXPECT_EQ(json["inputs"]["max_steps"], 2);
  EXPECT_EQ(json["inputs"]["learning_rate"], 0.001);
  EXPECT_EQ(json["job"]["optimizer"]["learning_rate"], 0.001);
  EXPECT_THAT(json["entity_id"].get<std::string>() + json["experiment_id"].get<std::string>(),
              HasSubstr("max_steps.2"));
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunJobTest, AJobEditedIntoWhatASpaceSaysHasItsKey) {
  run_program(arguments({"--set", "max_steps=2"}));
  const std::string of_space = result_file().stem();
  fs::remove_all(results());
  run_job([](Json& job) { job["batches"]["max_steps"] = 2; });
  EXPECT_EQ(result_file().stem(), of_space);
}

TEST_F(RunJobTest, AResultIsAJobToo) {
  run_job([](Json& job) { job["seed"] = 7; });
  const std::string key = result_file().stem();
  const std::string kept = (folder_ / "kept.json").string();
  fs::rename(result_file(), kept);
  fs::remove_all(results());
  const ProgramResult run = run_program({"run", "--job", kept, "--output", results()});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(result_file().stem(), key);
  EXPECT_EQ(result()["job"]["seed"], 7);
}

TEST_F(RunJobTest, OptionsThatAJobHasNoEarFor) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--set", "bogus=1"},
                                             {"--set", "max_steps=2"},
                                             {"--weights", "random"},
                                             {"--ranks", "2"},
                                             {"--entity", "0"},
                                             {"--experiment", kExperiment},
                                             {"--config", (folder_ / "config.yaml").string()},
                                             {"--padding", "packed"},
                                             {"--sample-period", "0.5"}}) {
    const ProgramResult run = run_job([](Json&) {}, more);
    EXPECT_EQ(run.status, 2) << more.front();
    EXPECT_THAT(run.err, HasSubstr("sftbench: " + more.front() +
                                   ": has no effect on a job, which is resolved already; expected "
                                   "--job alone; edit the job, or measure a space"));
    EXPECT_THAT(file_names_below(results()), IsEmpty());
  }
  const ProgramResult space = run_job([](Json&) {}, {(folder_ / "space.yaml").string()});
  EXPECT_EQ(space.status, 2);
  EXPECT_THAT(space.err, HasSubstr("SPACE: has no effect on a job"));
}

TEST_F(RunJobTest, ThreadsAreTheMachinesMatterAndLeaveTheKey) {
  ASSERT_EQ(run_job([](Json&) {}).status, 0);
  const std::string key = result_file().stem();
  fs::remove_all(results());
  const ProgramResult run = run_job([](Json&) {}, {"--threads", "3"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(result_file().stem(), key);
  EXPECT_EQ(result()["job"]["device"]["threads"], 3);
  EXPECT_EQ(run_job([](Json&) {}, {"--threads", "-1"}).status, 2);
}

TEST_F(RunJobTest, InputsThatAreEditedAreRefused) {
  const ProgramResult run = run_job([](Json& job) { job["inputs"]["max_steps"] = 2; });
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("job.json: inputs: was edited, and follows from"));
  EXPECT_THAT(file_names_below(results()), IsEmpty());
}

TEST_F(RunJobTest, AConfigThatCannotBeDoneHasOneCodeBothWays) {
  fs::create_directory(folder_ / "model");
  Json config = Json::parse(run_program(arguments({"--dry-run"})).out)["model"]["hf_config"];
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> defects = {
      {"WEIGHTS", [](Json& c) { c["hidden_size"] = -1; }},
      {"WEIGHTS", [](Json& c) { c["num_attention_heads"] = 7; }},
      {"WEIGHTS", [](Json& c) { c.erase("vocab_size"); }},
      {"WEIGHTS", [](Json& c) { c["hidden_act"] = "sparkle"; }},
      {"UNSUPPORTED", [](Json& c) { c["model_type"] = "bert"; }}};
  for (const auto& [code, spoil] : defects) {
    Json spoilt = config;
    spoil(spoilt);
    std::ofstream(folder_ / "model/config.json") << spoilt.dump();
    std::ofstream(folder_ / "model.yaml")
        << "parameters: {data_directory: " << (folder_ / "data").string()
        << ", model_map: {smollm2-135m: " << (folder_ / "model").string() << "}}\n";
    std::vector<std::string> words = arguments();
    std::replace(words.begin(), words.end(), (folder_ / "config.yaml").string(),
                 (folder_ / "model.yaml").string());
    EXPECT_EQ(run_program(words).status, 4);
    EXPECT_EQ(result()["reason"]["code"], code) << spoilt;
    fs::remove_all(results());
    const auto edit = [&spoilt = spoilt](Json& job) { job["model"]["hf_config"] = spoilt; };
    EXPECT_EQ(run_job(edit).status, 4);
    EXPECT_EQ(result()["reason"]["code"], code) << spoilt;
    fs::remove_all(results());
  }
}

struct Ending {
  const char* engine;
  int status;
  const char* outcome;
  const char* code;
};

class RunEndingTest : public RunTest, public testing::WithParamInterface<Ending> {};

TEST_P(RunEndingTest, HasItsExitStatusAndReason) {
  const ProgramResult run = run_program(arguments(), {{"FAKE_ENGINE", GetParam().engine}});
  EXPECT_EQ(run.status, GetParam().status) << run.err;
  Json json = result();
  EXPECT_EQ(json["status"], GetParam().outcome);
  EXPECT_EQ(json["reason"]["code"], GetParam().code);
  EXPECT_THAT(json["reason"]["log"].get<std::string>(), EndsWith(".log"));
  EXPECT_TRUE(fs::exists(json["reason"]["log"].get<std::string>()));
  EXPECT_EQ(schema_violation(result_file()), "");
}

INSTANTIATE_TEST_SUITE_P(Endings, RunEndingTest,
                         testing::Values(Ending{"cuda-oom", 3, "invalid", "OOM_GPU"},
                                         Ending{"illegal-access", 3, "invalid", "OOM_GPU"},
                                         Ending{"nccl", 4, "failed", "NCCL"},
                                         Ending{"bad-alloc", 4, "failed", "OOM_HOST"},
                                         Ending{"internal", 4, "failed", "INTERNAL"}));

// --- what is decided before training ------------------------------------------------------------

TEST_F(RunTest, ABrokenRuleIsInvalidAndTrainsNothing) {
  const ProgramResult run =
      run_program(arguments({"--set", "number_gpus=2", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3",
                             "--set", "batch_size=3"}));
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_EQ(result()["status"], "invalid");
  EXPECT_EQ(result()["reason"]["code"], "RULE_1");
  EXPECT_TRUE(result()["reason"]["log"].is_null());
  EXPECT_EQ(result()["measured"], Json::parse(R"({"is_valid": 0})"));
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunTest, AskingForAGpuWhereThereIsNoneFails) {
  const ProgramResult run =
      run_program(arguments({"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3"}),
                  {{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()}});
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(result()["status"], "failed");
  EXPECT_EQ(result()["reason"]["code"], "UNSUPPORTED");
  EXPECT_EQ(result()["reason"]["message"],
            "number_gpus asks for 1 GPU on this machine, which has no NVIDIA driver");
  EXPECT_EQ(result()["reason"]["evidence"], "libnvidia-ml.so.1: Driver Not Loaded");
  EXPECT_EQ(result()["measured"], Json::object());
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunTest, AnotherGpuModelThanTheMachinesFailsAndNamesBoth) {
  const ProgramResult run =
      run_program(arguments({"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3"}),
                  {{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
                   {"FAKE_NVML_GPUS", "Tesla T4"}});
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(result()["reason"]["message"],
            "gpu_model asks for 'NVIDIA-H100-80GB-HBM3', but GPU 0 of this machine is 'Tesla T4'");
}

TEST_F(RunTest, AGpuRunHasGpuFiguresAndMfu) {
  const ProgramResult run =
      run_program(arguments({"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3"}),
                  {{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
                   {"FAKE_NVML_GPUS", "NVIDIA H100 80GB HBM3;NVIDIA H100 80GB HBM3"}});
  EXPECT_EQ(run.status, 0) << run.err;
  Json json = result();
  EXPECT_DOUBLE_EQ(json["measured"]["gpu_compute_utilization_avg"], 50);
  EXPECT_DOUBLE_EQ(json["measured"]["gpu_memory_utilization_peak"], 25);
  EXPECT_DOUBLE_EQ(json["measured"]["gpu_power_watts_max"], 350);
  EXPECT_DOUBLE_EQ(json["measured"]["gpu_power_percent_min"], 50);
  EXPECT_GT(json["extra"]["mfu"]["value"], 0);
  EXPECT_EQ(json["environment"]["driver"], "570.00");
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunTest, AMissingDatasetFailsWithTheCommandThatMakesIt) {
  fs::remove(folder_ / "data/news-tokens-16384plus-entries-4096.jsonl");
  const ProgramResult run = run_program(arguments());
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(result()["reason"]["code"], "DATA");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), HasSubstr("sftbench dataset text"));
}

TEST_F(RunTest, MissingWeightsFailWithTheCommandThatFetchesThem) {
  const ProgramResult run = run_program(arguments({"--weights", "auto"}));
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(result()["reason"]["code"], "WEIGHTS");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), HasSubstr("smollm2-135m"));
}

TEST_F(RunTest, AnEngineThatIsNotThereFails) {
  const ProgramResult run = run_program(arguments(), {{"SFTBENCH_ENGINE", "/nowhere/engine.so"}});
  EXPECT_EQ(run.status, 4);
  EXPECT_EQ(result()["reason"]["code"], "UNSUPPORTED");
  EXPECT_THAT(result()["reason"]["message"].get<std::string>(), HasSubstr("/nowhere/engine.so"));
}

TEST_F(RunTest, AnOutputFolderThatCannotBeMadeIsFoundBeforeTraining) {
  std::ofstream(folder_ / "file") << "";
  const ProgramResult run =
      run_program(arguments({"--output", (folder_ / "file/results").string()}));
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("file/results: --output: cannot make the folder: Not a directory; "
                                 "expected a folder that results can be written to"));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("measuring")));
}

// --- interrupts ---------------------------------------------------------------------------------

TEST_F(RunTest, CtrlCDuringTrainingLeavesNothingBehind) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program(arguments(), {{"FAKE_ENGINE", "slow"}});
    program.start();
    program.read_err_until("step 1/");
    kill(program.pid(), signal);
    const ProgramResult run = program.finish();
    EXPECT_EQ(run.status, 130) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr("interrupted; nothing was kept"));
    EXPECT_THAT(file_names_below(results()), IsEmpty());
  }
}

TEST_F(RunTest, ASecondCtrlCEndsAnEngineThatDoesNotListen) {
  Program program(arguments(), {{"FAKE_ENGINE", "stuck"}});
  program.start();
  program.read_err_until("step 1/");
  kill(program.pid(), SIGINT);
  program.read_err_until("once more to end at once");
  kill(program.pid(), SIGINT);
  const ProgramResult run = program.finish();
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_THAT(file_names_below(results()), IsEmpty());
}

// --- several ranks -------------------------------------------------------------------------------

std::vector<std::string> on_ranks(const std::string& ranks) {
  return {"--ranks", ranks, "--set", "batch_size=6"};
}

TEST_F(RunTest, ATraceThatCannotBeWrittenIsSaidBeforeAnythingIsMeasured) {
  for (const std::string& trace : {(folder_ / "missing/trace.json").string(), folder_.string()}) {
    const ProgramResult run = run_program(arguments({"--trace", trace}));
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("--trace: cannot write " + trace +
                                   "; expected a file in a folder that exists"));
    EXPECT_THAT(file_names_below(results()), IsEmpty());
  }
}

TEST_F(RunTest, RanksAreProcessesOfTheirOwnWithLogsOfTheirOwn) {
  const ProgramResult run = run_program(arguments(on_ranks("3")));
  EXPECT_EQ(run.status, 0) << run.err;
  const std::string key = result_file().stem().string();
  EXPECT_THAT(file_names_below(results()),
              ElementsAre(key + ".json", key + ".log", key + ".rank0.log", key + ".rank1.log",
                          key + ".rank2.log", key + ".series.json.gz"));
  Json json = result();
  EXPECT_EQ(json["inputs"]["cpu_ranks"], 3);
  EXPECT_EQ(json["extra"]["loss"].size(), 3u);
  EXPECT_EQ(json["extra"]["memory_bytes"]["host_peak_rss"].size(), 3u);
  EXPECT_EQ(json["environment"]["libtorch"], "0.0-fake");
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunTest, ARankThatFailsIsNamedWithItsLog) {
  const ProgramResult run =
      run_program(arguments(on_ranks("2")), {{"FAKE_ENGINE", "rank 1: internal"}});
  EXPECT_EQ(run.status, 4) << run.err;
  const fs::path log = result_file().replace_extension(".rank1.log");
  EXPECT_EQ(result()["reason"]["message"],
            "rank 1: the run ended with an unexpected error; its log: " + log.string());
  EXPECT_EQ(result()["reason"]["evidence"], "shapes do not match");
  EXPECT_EQ(result()["environment"]["libtorch"], "0.0-fake");
  EXPECT_THAT(read_file(log), HasSubstr("shapes do not match"));
  EXPECT_EQ(schema_violation(result_file()), "");
}

TEST_F(RunTest, InterruptingRanksLeavesNothing) {
  for (const char* mode : {"slow", "stuck"}) {
    const ProcessesOfTest processes;
    const auto mark = processes.variable();
    Program program(arguments(on_ranks("2")), {{"FAKE_ENGINE", mode}, mark});
    program.start();
    program.read_err_until("step 1/");
    kill(program.pid(), SIGINT);
    program.read_err_until("once more to end at once");
    if (mode == std::string("stuck")) kill(program.pid(), SIGINT);
    EXPECT_EQ(program.finish().status, 130) << mode;
    EXPECT_TRUE(processes.become(0, 5)) << mode;
    EXPECT_THAT(file_names_below(results()), IsEmpty()) << mode;
  }
}

TEST_F(RunTest, ABatchThatRanksCannotDivideIsRefused) {
  const ProgramResult run = run_program(arguments(on_ranks("4")));
  EXPECT_EQ(run.status, 4);
  EXPECT_EQ(result()["reason"]["message"],
            "batch_size 6 cannot be divided evenly by --ranks 4; a multiple of it works");
}

TEST_F(RunTest, SeveralNodesNeedALauncher) {
  const ProgramResult run =
      run_program(arguments({"--set", "number_gpus=2", "--set", "number_nodes=2", "--set",
                             "gpu_model=NVIDIA-H100-80GB-HBM3"}),
                  {{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
                   {"FAKE_NVML_GPUS", "NVIDIA H100 80GB HBM3"}});
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(result()["reason"]["code"], "UNSUPPORTED");
  EXPECT_THAT(
      result()["reason"]["message"].get<std::string>(),
      StartsWith("number_nodes 2: ranks on several machines are started inside an allocation "
                 "of Slurm or with --hosts A,B"));
}

TEST_F(RunTest, ARankIsNothingToStartByHand) {
  const ProgramResult run = run_program({"rank"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("sftbench rank is what this program starts for each rank: "));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
