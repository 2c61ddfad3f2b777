// Datasets of the hub as a user gives them: dataset fetch, --data, argument files, show, predict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "huggingface/fake_hub.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HubDataTest : public testing::Test {
 protected:
  HubDataTest() {
    hub_.datasets["org/pairs"] = small_dataset();
    fs::create_directory(folder_ / "my-llama");
    for (const char* source : {"/training/llama", "/training/tokenizer"})
      fs::copy(std::string(SFTBENCH_TEST_DATA) + source, folder_ / "my-llama");
  }

  ProgramResult program(std::vector<std::string> words,
                        std::map<std::string, std::string> more = {}) const {
    std::map<std::string, std::string> variables = {
        {"HF_ENDPOINT", hub_.url()}, {"HF_TOKEN", ""},     {"HF_HOME", (folder_ / "home").string()},
        {"HF_TOKEN_PATH", ""},       {"HF_HUB_CACHE", ""}, {"HF_HUB_OFFLINE", ""}};
    for (const auto& [name, value] : more) variables[name] = value;
    return run_program(std::move(words), variables, folder_);
  }
  ProgramResult run(std::vector<std::string> words, const char* command = "run",
                    const std::string& data = "org/pairs") const {
    std::vector<std::string> all = {command,       "--model",  "my-llama",      "--set",
                                    "max_steps=1", "--set",    "number_gpus=0", "--threads",
                                    "1",           "--format", "json"};
    if (!data.empty())
      all.insert(all.end(),
                 {"--data", data, "--input-column", "input", "--output-column", "output"});
    all.insert(all.end(), words.begin(), words.end());
    return program(std::move(all), {{"SFTBENCH_ENGINE", ""}});
  }
  Json job(std::vector<std::string> words, const std::string& data = "org/pairs") const {
    words.emplace_back("--dry-run");
    const ProgramResult result = run(std::move(words), "run", data);
    if (result.status != 0) throw std::runtime_error(result.err);
    return Json::parse(result.out);
  }
  void fetch(const std::string& name = "org/pairs") const {
    const ProgramResult fetched = program({"dataset", "fetch", name});
    ASSERT_EQ(fetched.status, 0) << fetched.err;
  }
  fs::path snapshot() const {
    return folder_ / "home" / "hub" / "datasets--org--pairs" / "snapshots" /
           hub_.datasets.at("org/pairs").commit;
  }

  fs::path folder_ =
      fs::canonical(fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name()));
  FakeHub hub_;
};

TEST_F(HubDataTest, ADatasetIsFetchedByItsName) {
  const ProgramResult fetched =
      program({"dataset", "fetch", "org/pairs", "org/pairs::test", "--format", "json"});
  ASSERT_EQ(fetched.status, 0) << fetched.err;
  const Json rows = Json::parse(fetched.out);
  EXPECT_EQ(rows[0]["dataset"], "org/pairs");
  EXPECT_EQ(rows[0]["hub_id"], "org/pairs");
  EXPECT_EQ(rows[0]["files"], 3);
  EXPECT_EQ(rows[0]["snapshot"], snapshot().string());
  EXPECT_EQ(rows[0]["problem"], nullptr);
  EXPECT_EQ(rows[1]["dataset"], "org/pairs::test");
  EXPECT_TRUE(fs::exists(snapshot() / "data/test-00000-of-00001.jsonl"));
  const ProgramResult other =
      program({"dataset", "fetch", "org/pairs", "--revision", "v2", "-o", "elsewhere"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere/hub/datasets--org--pairs/refs/v2"));
}

TEST_F(HubDataTest, WhatCannotBeFetchedIsExplained) {
  EXPECT_THAT(program({"dataset", "fetch"}).err,
              HasSubstr("nothing says which datasets to fetch; expected hub ids, as ORG/NAME"));
  const ProgramResult name = program({"dataset", "fetch", "pairs"});
  EXPECT_EQ(name.status, 2);
  EXPECT_THAT(name.err, HasSubstr("'pairs' is no hub id as ORG/NAME"));
  EXPECT_THAT(program({"dataset", "fetch", "org/a@v1", "--revision", "v2"}).err,
              HasSubstr("--revision: is given, and org/a@v1 names one, too"));
  EXPECT_THAT(program({"dataset", "fetch", "org/a", "--revision", "../x"}).err,
              HasSubstr("--revision: '../x' is no revision"));
  const ProgramResult offline =
      program({"dataset", "fetch", "org/pairs"}, {{"HF_HUB_OFFLINE", "1"}});
  EXPECT_EQ(offline.status, 2);
  EXPECT_THAT(offline.err, HasSubstr("HF_HUB_OFFLINE: is set, so nothing is fetched"));
  EXPECT_TRUE(hub_.hub().requests().empty());
  hub_.datasets["org/pairs"].token = "hf_other";
  const ProgramResult gated = program({"dataset", "fetch", "org/pairs"});
  EXPECT_EQ(gated.status, 4);
  EXPECT_THAT(gated.err, HasSubstr("error: org/pairs: org/pairs is gated (status 401): accept its "
                                   "terms at " +
                                   hub_.url() + "/datasets/org/pairs, then give a token"));
  EXPECT_THAT(gated.out, HasSubstr("incomplete"));
}

TEST_F(HubDataTest, WithoutFetchNothingIsAskedFor) {
  const ProgramResult absent = run({});
  EXPECT_EQ(absent.status, 2);
  EXPECT_THAT(absent.err,
              HasSubstr("--data: org/pairs is no file or folder, and no dataset of the hub that is "
                        "here; expected a file, a folder, or first: sftbench dataset fetch "
                        "org/pairs, or --fetch beside it"));
  const ProgramResult dry = run({"--fetch", "--dry-run"});
  EXPECT_EQ(dry.status, 2);
  EXPECT_THAT(dry.err, HasSubstr("first: sftbench dataset fetch org/pairs"));
  for (const char* command : {"sweep", "expand"}) {
    const ProgramResult other = run({}, command);
    EXPECT_EQ(other.status, 2) << command;
    EXPECT_THAT(other.err, HasSubstr("first: sftbench dataset fetch org/pairs")) << command;
  }
  EXPECT_TRUE(hub_.hub().requests().empty());
  EXPECT_THAT(run({}, "run", "data/pairs.jsonl").err,
              HasSubstr("--data: no such file: data/pairs.jsonl; expected a file"));
}

TEST_F(HubDataTest, ARunFetchesAndTrainsOnIt) {
  const ProgramResult first = run({"--fetch"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("not here, so fetched: org/pairs"));
  const Json inputs = Json::parse(first.out)["inputs"];
  EXPECT_EQ(inputs["dataset_id"], "org/pairs");
  EXPECT_EQ(inputs["training_data"].get<std::string>().size(), 32u);
  EXPECT_FALSE(inputs.contains("training_data_path"));
  const size_t before = hub_.hub().requests().size();
  const ProgramResult again = run({"--fetch"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(hub_.hub().requests().size(), before) << "what is here is not asked for";
  EXPECT_EQ(run({"-o", "offline"}).status, 0);
}

TEST_F(HubDataTest, TheJobHasTheCommitAndTheContentsDigest) {
  fetch();
  const Json printed = job({});
  EXPECT_EQ(printed["data"]["path"], snapshot().string());
  EXPECT_EQ(printed["data"]["dataset_id"], "org/pairs");
  // The same files in a folder are the same data.
  fs::create_directory(folder_ / "copy");
  for (const char* shard : {"train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"})
    write_file_atomic(folder_ / "copy" / shard, read_file(snapshot() / "data" / shard));
  EXPECT_EQ(job({}, "copy")["inputs"]["training_data"], printed["inputs"]["training_data"]);
  EXPECT_NE(job({}, "org/pairs@main")["inputs"], job({}, "copy")["inputs"]);
  EXPECT_EQ(job({}, "org/pairs@main")["inputs"], printed["inputs"]);
}

TEST_F(HubDataTest, AFolderOfThatNameComesFirst) {
  fetch();
  fs::create_directories(folder_ / "org" / "pairs");
  write_file_atomic(folder_ / "org/pairs/own.jsonl", "{\"input\": \"a\", \"output\": \"b\"}\n");
  const Json printed = job({});
  EXPECT_EQ(printed["data"]["path"], (folder_ / "org/pairs").string());
  EXPECT_EQ(printed["inputs"]["dataset_id"], "pairs");
}

TEST_F(HubDataTest, ASplitEvaluates) {
  const ProgramResult ran = run({"--fetch", "--eval-data", "org/pairs::test"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json result = Json::parse(ran.out);
  EXPECT_TRUE(result["extra"].contains("evaluation")) << result["extra"].dump();
  EXPECT_NE(result["inputs"]["validation_data"], result["inputs"]["training_data"]);
}

TEST_F(HubDataTest, AConfigIsChosen) {
  hub_.datasets["org/pairs"].files["README.md"] = {
      "---\nconfigs:\n- config_name: a\n  data_files: data/test*\n- config_name: b\n  data_files: "
      "data/train*\n---\n"};
  const ProgramResult several = run({"--fetch"});
  EXPECT_EQ(several.status, 4);
  EXPECT_THAT(several.err, HasSubstr("DATA: org/pairs has several configs and no default one; "
                                     "expected one of a, b, as NAME:CONFIG"));
  fetch("org/pairs:a");
  const Json printed = job({}, "org/pairs:a");
  EXPECT_EQ(printed["data"]["path"], snapshot().string() + ":a");
  EXPECT_EQ(printed["inputs"]["dataset_id"], "org/pairs:a");
  const ProgramResult unknown = run({}, "run", "org/pairs:c");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("org/pairs:c: has no config c; expected one of a, b"));
}

TEST_F(HubDataTest, ASpaceMayNameDatasets) {
  const std::vector<std::string> words = {"--fetch",
                                          "--set",
                                          R"(training_data_path=["org/pairs", "org/more"])",
                                          "--set",
                                          "input_column_name=input",
                                          "--set",
                                          "output_column_name=output",
                                          "-o",
                                          "swept"};
  hub_.datasets["org/more"] = small_dataset();
  hub_.datasets["org/more"].files.erase("data/train-00001-of-00002.jsonl");
  const ProgramResult swept = run(words, "sweep", "");
  ASSERT_EQ(swept.status, 0) << swept.err;
  EXPECT_THAT(swept.err, AllOf(HasSubstr("not here, so fetched: org/more, org/pairs"),
                               HasSubstr("org/more: data/train is there in 1 of 2 parts")));
  const ProgramResult absent = run({"--set", "training_data_path=org/none"}, "run", "");
  EXPECT_EQ(absent.status, 4);
  EXPECT_THAT(
      absent.err,
      HasSubstr("DATA: training_data_path org/none is no file or folder, and the dataset of "
                "the hub is not at hand; fetch it: sftbench dataset fetch org/none, or with "
                "--fetch"));
}

TEST_F(HubDataTest, TheCacheOfAConfigurationIsUsed) {
  write_file_atomic(folder_ / "config.yaml", "parameters: {fetch_weights: true, hf_home: " +
                                                 (folder_ / "other").string() + "}\n");
  const ProgramResult ran = run({"--config", "config.yaml"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(fs::exists(folder_ / "other/hub/datasets--org--pairs/refs/main"));
  EXPECT_EQ(Json::parse(ran.out)["inputs"]["training_data"].get<std::string>().size(), 32u);
  write_file_atomic(folder_ / "config.yaml",
                    "parameters: {hf_home: " + (folder_ / "third").string() + "}\n");
  EXPECT_THAT(run({"--config", "config.yaml"}).err,
              HasSubstr("sftbench dataset fetch org/pairs -o " + (folder_ / "third").string()));
}

TEST_F(HubDataTest, ArgumentFilesMayNameThem) {
  fetch();
  fetch("org/pairs::test");
  const auto path_of = [this](const std::string& text) {
    write_file_atomic(folder_ / "arguments.yaml", text);
    return job({"--arguments", "arguments.yaml"}, "")["data"];
  };
  EXPECT_EQ(path_of("dataset_name: org/pairs\ndataset_text_field: output\n")["path"],
            snapshot().string());
  EXPECT_EQ(
      path_of("dataset_name: org/pairs\ndataset_train_split: test\ndataset_text_field: output\n")
          ["path"],
      snapshot().string() + "::test");
  EXPECT_EQ(path_of("train_path: org/pairs\ndataset_text_field: output\n")["path"],
            snapshot().string());
  EXPECT_EQ(
      path_of("datasets: [{data_paths: [org/pairs], data_handlers: [{name: tokenize, arguments: "
              "{fn_kwargs: {dataset_text_field: output}}}]}]\n")["path"],
      snapshot().string());
  const Json mixed = path_of(
      "datasets: [{data_paths: [org/pairs], sampling: 0.5, data_handlers: [{name: tokenize, "
      "arguments: "
      "{fn_kwargs: {dataset_text_field: output}}}]}, {data_paths: ['org/pairs::test'], sampling: "
      "0.5, "
      "data_handlers: [{name: tokenize, arguments: {fn_kwargs: {dataset_text_field: "
      "output}}}]}]\n");
  EXPECT_EQ(mixed["mixture"]["sets"][1]["path"], snapshot().string() + "::test");
  EXPECT_EQ(mixed["dataset_id"], "org/pairs+org/pairs::test");
  write_file_atomic(folder_ / "arguments.yaml", "dataset_config: en\n");
  EXPECT_THAT(run({"--arguments", "arguments.yaml"}, "run", "").err,
              HasSubstr("dataset_config: is given alone; expected dataset_name beside it"));
  write_file_atomic(folder_ / "arguments.yaml",
                    "dataset_name: org/pairs\ntraining_data_path: other.jsonl\n");
  EXPECT_THAT(run({"--arguments", "arguments.yaml"}, "run", "").err, HasSubstr("one of them"));
}

TEST_F(HubDataTest, ShowCountAndPredictReadTheCache) {
  const ProgramResult absent = program({"dataset", "show", "org/pairs"});
  EXPECT_EQ(absent.status, 2);
  EXPECT_THAT(absent.err, HasSubstr("first: sftbench dataset fetch org/pairs"));
  fetch();
  const ProgramResult shown =
      program({"dataset", "show", "org/pairs", "--first", "2", "--response-template", "None"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("four"));
  const ProgramResult counted = program({"dataset", "count", "org/pairs", "--format", "json"});
  ASSERT_EQ(counted.status, 0) << counted.err;
  EXPECT_EQ(Json::parse(counted.out)[0]["entries"], 3);
  const ProgramResult predicted =
      run({"--flops-per-s", "1e11", "--memory-gb-per-s", "10"}, "predict");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
}

TEST_F(HubDataTest, AJobThatWasPrintedRunsWithoutTheHub) {
  fetch();
  write_file_atomic(folder_ / "job.json", job({}).dump());
  const ProgramResult ran =
      program({"run", "--job", "job.json", "--format", "json"}, {{"SFTBENCH_ENGINE", ""}});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["inputs"]["dataset_id"], "org/pairs");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
