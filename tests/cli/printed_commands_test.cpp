// Commands that other commands print are run as they are printed, by a shell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/own_training_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

class PrintedCommandsTest : public OwnTrainingTest {
 protected:
  // The words that a shell makes of a command, without its first.
  std::vector<std::string> words(const std::string& command) const {
    const fs::path list = folder_ / "words";
    const std::string script =
        "set -- " + command + "\nshift\nfor word; do printf '%s\\0' \"$word\"; done";
    EXPECT_EQ(
        std::system(("sh -c " + shell_quoted(script) + " >" + shell_quoted(list.string())).c_str()),
        0);
    std::vector<std::string> found;
    const std::string text = read_file(list.string());
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\0', begin);
      found.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return found;
  }

  ProgramResult as_printed(const std::string& command, std::vector<std::string> more = {}) const {
    EXPECT_THAT(command, testing::StartsWith("sftbench "));
    std::vector<std::string> all = words(command);
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all, {{"CUDA_VISIBLE_DEVICES", ""}}, folder_);
  }
};

TEST_F(PrintedCommandsTest, OfFrontier) {
  write("arguments.yaml", "learning_rate: 0.25\n");
  const ProgramResult found = program({"--model",
                                       "my-llama",
                                       "--data",
                                       "pairs.json",
                                       "--template",
                                       "{{input}} -> {{output}}",
                                       "--arguments",
                                       "arguments.yaml",
                                       "--lora-targets",
                                       "all-linear",
                                       "--experiment",
                                       "lora",
                                       "--ranks",
                                       "2",
                                       "--set",
                                       "number_gpus=0",
                                       "--set",
                                       "model_max_length=16",
                                       "--from",
                                       "2",
                                       "--step",
                                       "2",
                                       "--to",
                                       "4",
                                       "--steps",
                                       "1",
                                       "--no-guess",
                                       "--format",
                                       "json"},
                                      "frontier");
  ASSERT_EQ(found.status, 0) << found.err;
  const auto command = Json::parse(found.out)["command"].get<std::string>();
  const ProgramResult run = as_printed(command);
  EXPECT_EQ(run.status, 0) << command << run.err;
  const Json job = Json::parse(as_printed(command, {"--dry-run"}).out);
  EXPECT_EQ(job["data"]["entry_template"], "{{input}} -> {{output}}");
  EXPECT_EQ(job["optimizer"]["learning_rate"], 0.25);
  EXPECT_EQ(job["lora"]["target_modules"], Json({"all-linear"}));
  EXPECT_EQ(job["device"]["ranks"], 2);
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 2);
  EXPECT_EQ(job["data"]["padding"], "max_length");
}

// No GPU is here: the job that it would train is the printed one.
TEST_F(PrintedCommandsTest, OfRecommend) {
  const ProgramResult found = program(
      {"--model", "my-llama", "--data", "pairs.json", "--template", "{{input}} -> {{output}}",
       "--gpus", "A100-80G", "--length", "64", "--set", "r=16", "--format", "json"},
      "recommend");
  ASSERT_EQ(found.status, 0) << found.err;
  const Json answer = Json::parse(found.out);
  const ProgramResult text = program(
      {"--model", "my-llama", "--data", "pairs.json", "--template", "{{input}} -> {{output}}",
       "--gpus", "A100-80G", "--length", "64", "--set", "r=16", "--format", "md"},
      "recommend");
  const std::string head = "- **measure it**: ";
  const size_t begin = text.out.find(head) + head.size();
  const std::string command = text.out.substr(begin, text.out.find('\n', begin) - begin);
  const ProgramResult dry = as_printed(command, {"--dry-run"});
  ASSERT_EQ(dry.status, 0) << command << dry.err;
  const Json job = Json::parse(dry.out);
  EXPECT_EQ(job["data"]["path"], (folder_ / "pairs.json").string());
  EXPECT_EQ(job["data"]["entry_template"], "{{input}} -> {{output}}");
  EXPECT_EQ(job["data"]["model_max_length"], 64);
  EXPECT_EQ(job["lora"]["rank"], 16);
  EXPECT_EQ(job["model"]["weights_directory"], (folder_ / "my-llama").string());
  EXPECT_EQ(job["batches"]["max_steps"], 10);
  EXPECT_EQ(job["device"]["ranks"], answer["cheapest"]["gpus"]);
}

// What the search chose: packed rows, a card that is not listed, and state on the host.
TEST_F(PrintedCommandsTest, OfRecommendedSwitches) {
  std::string texts;
  for (int i = 0; i < 64; ++i) texts += "{\"output\": \"a few words\"}\n";
  write("texts.jsonl", texts);
  const auto job_of = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"--method", "full", "--format", "md"});
    const ProgramResult found = program(words, "recommend");
    EXPECT_EQ(found.status, 0) << found.err;
    const std::string head = "- **measure it**: ";
    const size_t begin = found.out.find(head) + head.size();
    const std::string command = found.out.substr(begin, found.out.find('\n', begin) - begin);
    const ProgramResult dry = as_printed(command, {"--dry-run", "--weights", "random"});
    EXPECT_EQ(dry.status, 0) << command << dry.err;
    return Json::parse(dry.out);
  };
  const Json packed = job_of({"--model", "my-llama", "--data", "texts.jsonl", "--gpus", "My Card",
                              "--own", "2", "--flops-per-s", "1e14", "--memory-gb-per-s", "900",
                              "--memory-gib", "24", "--inside-gb-per-s", "20"});
  EXPECT_EQ(packed["data"]["padding"], "packed");
  EXPECT_EQ(packed["device"]["gpu_model"], "My Card");
  const Json offloaded =
      job_of({"--model", "llama3.2-3b", "--entries", "100", "--gpus", "RTX-4090", "--own", "1"});
  EXPECT_EQ(offloaded["optimizer"]["offload_state"], true);
  const Json sharded =
      job_of({"--model", "llama3.1-8b", "--entries", "100", "--gpus", "L40S", "--own", "8"});
  EXPECT_EQ(sharded["parallel"]["strategy"], "SHARD_GRAD_OP");
  const Json tiled = job_of({"--model", "llama3.1-8b", "--entries", "100", "--gpus", "L40S",
                             "--own", "8", "--stack", "sftbench"});
  EXPECT_EQ(tiled["activations"]["mlp_tiles"], 4);
  const Json whole =
      job_of({"--model", "qwen2.5-0.5b", "--entries", "100", "--gpus", "T4", "--own", "1"});
  EXPECT_EQ(whole["precision"]["autocast"], "fp16");
}

TEST_F(PrintedCommandsTest, OfSweep) {
  const ProgramResult swept =
      program({"--model", "my-llama", "--data", "pairs.json", "--template",
               "{{input}} -> {{output}}", "--set", "number_gpus=0", "--set", "batch_size=1,2",
               "--set", "max_steps=1", "--set", "model_max_length=16", "-o", "my results"},
              "sweep");
  ASSERT_EQ(swept.status, 0) << swept.err;
  const std::string head = "the report: ";
  const size_t begin = swept.err.find(head) + head.size();
  const std::string command = swept.err.substr(begin, swept.err.find('\n', begin) - begin);
  const ProgramResult report = as_printed(command);
  EXPECT_EQ(report.status, 0) << command << report.err;
  EXPECT_TRUE(fs::exists(folder_ / "report.html"));
  int repeated = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "my results")) {
    if (entry.path().extension() != ".json") continue;
    const Json result = read_json_file(entry.path().string());
    if (!result.contains("command") || ++repeated > 1) continue;
    const auto again = result["command"].get<std::string>();
    const ProgramResult run = as_printed(again);
    EXPECT_EQ(run.status, 0) << again << run.err;
  }
  EXPECT_EQ(repeated, 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
