// sweep --on ENGINE, as a user types it: groups, what is printed, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "cli/program.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// 2 models x 1, 16 GPUs x 1, 2 nodes: 1 GPU on 2 nodes breaks a rule.
constexpr const char* kSpace = R"(
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [llama3.1-8b]}}
- {identifier: gpu_model, propertyDomain: {values: [L40S, NVIDIA-H100-PCIe]}}
- {identifier: number_gpus, propertyDomain: {values: [1, 16]}}
- {identifier: number_nodes, propertyDomain: {values: [1, 2]}}
- {identifier: model_max_length, propertyDomain: {values: [512]}}
- {identifier: batch_size, propertyDomain: {values: [16]}}
)";

class SweepEnginesTest : public testing::Test {
 protected:
  SweepEnginesTest() : folder_(fresh_folder("engines")) {
    std::ofstream(folder_ / "space.yaml") << kSpace;
  }

  ProgramResult sweep(std::vector<std::string> words,
                      std::map<std::string, std::string> environment = {}) {
    words.insert(words.begin(), {"sweep", "space.yaml", "--backend", "simulate"});
    return run_program(words, std::move(environment), folder_);
  }

  fs::path folder_;
};

TEST_F(SweepEnginesTest, DryRunListsTheGroups) {
  const ProgramResult result = sweep({"--on", "slurm", "--dry-run", "--format", "csv"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* row : {"gpu1-l40s,1 node with 1 L40S,1,1,", "gpu1-nvidia-h100-pcie,",
                          "2x-gpu8-l40s,2 nodes with 8 L40S each,1,1,", "gpu16-nvidia-h100-pcie,",
                          "rules,1 node without GPUs,2,1,"}) {
    EXPECT_THAT(result.out, HasSubstr(row));
  }
}

TEST_F(SweepEnginesTest, RanksOnCpusAreDividedAmongNodes) {
  const ProgramResult result =
      sweep({"--on", "slurm", "--nodes", "2", "--ranks", "6", "--threads", "2", "--set",
             "number_gpus=0", "--set", "number_nodes=1", "--set", "batch_size=12"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("on 2 nodes without GPUs"), HasSubstr("--nodes=2\n"),
                    HasSubstr("--ntasks-per-node=3\n"), HasSubstr("--cpus-per-task=2\n"),
                    HasSubstr(" --ranks 6 "), HasSubstr("--worker -o results --launcher srun\n"),
                    Not(HasSubstr("--nodes 2"))));
}

TEST_F(SweepEnginesTest, WorkersGetTheCommandLine) {
  const ProgramResult result = sweep(
      {"--on", "slurm", "--set", "number_gpus=1", "--set", "number_nodes=1", "--max-retries", "2",
       "--no-retry-failed", "--log-level", "warn", "--env", "A=b c", "--slurm", "partition=gpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr(" sweep space.yaml "), HasSubstr("--set number_gpus=1"),
                                HasSubstr("--max-retries 2"), HasSubstr("--no-retry-failed"),
                                HasSubstr("--backend simulate"), HasSubstr("--log-level warn"),
                                HasSubstr("--set gpu_model=L40S --worker -o results"),
                                HasSubstr("export A='b c'"), HasSubstr("#SBATCH --partition=gpu"),
                                Not(HasSubstr("--env")), Not(HasSubstr("--slurm"))));
}

// At 1 USD an hour the larger batch of a GPU is the cheaper one.
TEST_F(SweepEnginesTest, EndsWithTheBestCellWhereItWaitsForItsWorkers) {
  const std::vector<std::string> words = {"--on",    "local",
                                          "--set",   "gpu_model=NVIDIA-H100-PCIe",
                                          "--set",   "number_gpus=1",
                                          "--set",   "number_nodes=1",
                                          "--set",   "batch_size=[2,16]",
                                          "--set",   "model_name=smollm2-135m",
                                          "--set",   "max_steps=3",
                                          "--price", "1"};
  const ProgramResult result = sweep(words);
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string best = "finetune_full_benchmark-v1.0.0, 512 tokens: batch_size=16 with ";
  EXPECT_THAT(result.err, HasSubstr(best));
  EXPECT_THAT(result.err,
              HasSubstr("per million dataset tokens (measured once), before batch_size=2"));
  EXPECT_THAT(result.err, HasSubstr("the report: sftbench report results --include-simulated"));
  const ProgramResult again = sweep(words);
  EXPECT_THAT(again.err, AllOf(HasSubstr("there is nothing to start"), HasSubstr(best)));
  const ProgramResult script = sweep({"--on", "slurm", "--set", "number_gpus=1", "--set",
                                      "number_nodes=1", "--set", "batch_size=[2,16,32]"});
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_THAT(script.err, Not(HasSubstr("best of"))) << "nothing was measured yet";
}

// Whoever kills the command, as a batch system does, wants its cores back.
TEST_F(SweepEnginesTest, WorkersOfThisMachineEndWithTheCommandThatIsKilled) {
  Program program({"sweep", "space.yaml", "--backend", "simulate", "--on", "local", "--set",
                   "number_gpus=0", "--set", "number_nodes=1", "--simulate", "sleep_s=600"},
                  {}, folder_);
  program.start();
  const fs::path log = folder_ / "results/workers/1.log";
  const auto says = [&log](const std::string& text) {
    for (int i = 0; i < 300; ++i) {
      std::ifstream file(log);
      const std::string told{std::istreambuf_iterator<char>(file), {}};
      if (told.find(text) != told.npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  };
  ASSERT_TRUE(says("start "));
  ::kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.finish().status, -SIGKILL);
  EXPECT_TRUE(says("interrupted"));
}

// A manifest is one file: what the command line names and workers read goes along.
TEST_F(SweepEnginesTest, SmallFilesOfTheCommandLineTravel) {
  std::ofstream(folder_ / "zero.json") << R"({"zero_optimization": {"stage": 2}})";
  std::ofstream(folder_ / "chat.jinja") << "{{ messages[0].content }} of a file";
  const ProgramResult result =
      sweep({"--on", "kubernetes", "--set", "number_gpus=1", "--set", "number_nodes=1", "--set",
             "gpu_model=L40S", "--deepspeed", "zero.json", "--chat-template", "chat.jinja"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("zero_optimization"), HasSubstr("messages[0].content }} of a file"),
                    HasSubstr("/zero.json"), HasSubstr("/chat.jinja")));
}

// Before anything is printed or submitted.
TEST_F(SweepEnginesTest, AModelThatWorkersWouldNotFindIsRefused) {
  fs::create_directory(folder_ / "tiny");
  std::ofstream(folder_ / "tiny/config.json") << R"({"model_type": "llama"})";
  std::ofstream(folder_ / "pairs.jsonl") << "{\"output\": \"a\"}\n";
  const std::vector<std::string> one = {"--set", "number_gpus=1",  "--set",  "number_nodes=1",
                                        "--set", "gpu_model=L40S", "--model"};
  const auto on = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), one.begin(), one.end());
    words.insert(words.end(), more.begin(), more.end());
    return sweep(words);
  };
  for (const std::string& model : {std::string("tiny"), (folder_ / "tiny").string()}) {
    const ProgramResult pods = on({"--on", "kubernetes"}, {model, "--data", "pairs.jsonl"});
    EXPECT_EQ(pods.status, 2);
    EXPECT_EQ(pods.out, "");
    EXPECT_THAT(pods.err, AllOf(HasSubstr("--model: found '" + model +
                                          "', and is not on the volume "
                                          "that pods share; expected a path below /data/"),
                                HasSubstr("--data: found 'pairs.jsonl'")));
  }
  const ProgramResult ray =
      on({"--on", "ray", "--ray-address", "http://127.0.0.1:1", "-o", "/proc/r"}, {"tiny"});
  EXPECT_EQ(ray.status, 2);
  EXPECT_THAT(ray.err, AllOf(HasSubstr("--model: found 'tiny', and " + (folder_ / "tiny").string() +
                                       " is not on the file system of --output"),
                             Not(HasSubstr("127.0.0.1"))));
}

TEST_F(SweepEnginesTest, WhatIsSettledNeedsNoWorker) {
  EXPECT_EQ(sweep({"--set", "number_gpus=1", "--set", "number_nodes=1"}).status, 0);
  const ProgramResult rest = sweep({"--on", "slurm", "--dry-run", "--format", "csv"});
  EXPECT_THAT(rest.out, AllOf(Not(HasSubstr("gpu1-")), HasSubstr("gpu16-l40s")));
  EXPECT_EQ(sweep({}).status, 0);
  const ProgramResult none = sweep({"--on", "kubernetes"});
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(none.err, HasSubstr("there is nothing to start"));
}

TEST_F(SweepEnginesTest, SubmitSaysWhereThereIsNoSlurmOrItRefuses) {
  const std::vector<std::string> words = {"--on", "slurm", "--submit", "--set", "gpu_model=L40S"};
  const ProgramResult none = sweep(words, {{"PATH", folder_.string()}});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("--submit: there is no sbatch on this machine"));
  const fs::path sbatch = folder_ / "sbatch";
  std::ofstream(sbatch) << "#!/bin/sh\n/bin/cat >>" << (folder_ / "scripts").string() << "\n[ -e "
                        << (folder_ / "once").string() << " ] && { echo 'sbatch: error: "
                        << "Batch job submission failed: no room' >&2; exit 1; }\n: >"
                        << (folder_ / "once").string() << "\necho '17;cluster'\n";
  fs::permissions(sbatch, fs::perms::owner_all);
  const ProgramResult refused = sweep(words, {{"PATH", folder_.string()}});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr("17  "));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("sbatch: refuses the group"), HasSubstr("no room"),
                                 HasSubstr("submitted before it: 17 (scancel 17 ends them)")));
}

// Scripts, manifests and jobs are read by others.
TEST_F(SweepEnginesTest, ASecretStaysOutOfWhatOthersRead) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--env", "HF_TOKEN=hunter2"},
           {"--env", "my_password=hunter2"},
           {"--env", "OTEL_EXPORTER_OTLP_HEADERS=authorization=hunter2"},
           {"--env", "MLFLOW_TRACKING_URI=http://me:hunter2@host"},
           {"--track", "mlflow=http://me:hunter2@host"},
           {"--track", "mlflow=http://host?token=hunter2"}}) {
    for (const char* engine : {"slurm", "kubernetes", "ray"}) {
      std::vector<std::string> all = {"--on", engine};
      all.insert(all.end(), words.begin(), words.end());
      const ProgramResult result = sweep(all);
      EXPECT_EQ(result.status, 2) << result.out;
      EXPECT_THAT(result.err, AllOf(HasSubstr("secret"), HasSubstr("--env "))) << words.back();
      EXPECT_THAT(result.out + result.err, Not(HasSubstr("hunter2")));
    }
  }
  for (const char* text :
       {"hub_token: hunter2", "comet_api_key: hunter2", "hub_model_id: http://me:hunter2@host",
        "hub_model_id: hf_hunter2hunter2hunter2"}) {
    const std::string file = (folder_ / "arguments.yaml").string();
    std::ofstream(file) << text << "\n";
    for (const char* engine : {"kubernetes", "ray"}) {
      const ProgramResult result = sweep({"--on", engine, "-o", "/data/r", "--arguments", file});
      EXPECT_EQ(result.status, 2) << result.out;
      EXPECT_THAT(result.err, AllOf(HasSubstr("holds a secret"), HasSubstr("arguments.yaml:1: ")))
          << text;
      EXPECT_THAT(result.out + result.err, Not(HasSubstr("hunter2")));
    }
  }
  const std::map<std::string, std::string> environment = {{"HF_TOKEN", "hunter2"}};
  const ProgramResult slurm = sweep({"--on", "slurm", "--env", "HF_TOKEN"}, environment);
  EXPECT_EQ(slurm.status, 0) << slurm.err;
  EXPECT_THAT(slurm.out, AllOf(HasSubstr("${HF_TOKEN:?"), Not(HasSubstr("hunter2"))));
  const ProgramResult pods =
      sweep({"--on", "kubernetes", "-o", "r", "--env", "HF_TOKEN"}, environment);
  EXPECT_EQ(pods.status, 0) << pods.err;
  EXPECT_THAT(pods.out, AllOf(HasSubstr("secretKeyRef"), HasSubstr("name: sftbench-env"),
                              HasSubstr("key: HF_TOKEN"), Not(HasSubstr("hunter2"))));
  const ProgramResult ray =
      sweep({"--on", "ray", "--ray-address", "http://127.0.0.1:1", "-o", "/r", "--env", "HF_TOKEN"},
            environment);
  EXPECT_EQ(ray.status, 2);
  EXPECT_THAT(ray.err, HasSubstr("Ray shows the environment of a job"));
  EXPECT_THAT(sweep({"--on", "local", "--env", "HF_TOKEN"}).err, HasSubstr("HF_TOKEN is not set"));
}

TEST_F(SweepEnginesTest, ResultsNeedNotStandOnThisMachine) {
  std::ofstream(folder_ / "space.yaml", std::ios::app)  // a range without a value
      << "- {identifier: max_steps, propertyDomain: {domainRange: [4, 4], interval: 1}}\n";
  const ProgramResult result = sweep({"--on", "slurm", "-o", "/nowhere"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("every cell is settled in /nowhere"));
}

TEST_F(SweepEnginesTest, AFolderThatALineOfSbatchCannotHoldIsRefused) {
  const ProgramResult result = sweep({"--on", "slurm", "-o", "Ra\ntouch X\n"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("--output: found 'Ra\\ntouch X\\n'"));
}

TEST_F(SweepEnginesTest, BadOptionsAreNamed) {
  const auto refusal = [this](std::vector<std::string> words) {
    const ProgramResult result = sweep(std::move(words));
    EXPECT_EQ(result.status, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(refusal({"--on", "slrum"}),
              AllOf(HasSubstr("--on: unknown engine 'slrum'"), HasSubstr("did you mean 'slurm'")));
  EXPECT_THAT(refusal({"--submit"}), HasSubstr("--on slurm with it"));
  EXPECT_THAT(refusal({"--on", "ray", "--slurm", "a=b"}),
              HasSubstr("--slurm: has no effect on ray"));
  EXPECT_THAT(refusal({"--workers", "2"}), HasSubstr("--on ENGINE with it"));
  EXPECT_THAT(refusal({"--nodes", "2"}), HasSubstr("--on ENGINE with it"));
  EXPECT_THAT(refusal({"--on", "slurm", "--nodes", "2", "--ranks", "3"}),
              HasSubstr("--ranks: 3 cannot be divided among 2 nodes (--nodes)"));
  EXPECT_THAT(refusal({"--on", "slurm", "--slurm", "time"}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refusal({"--on", "slurm", "--limit", "3"}), HasSubstr("--limit: is of one process"));
  EXPECT_THAT(refusal({"--on", "local", "--env", "1A=2"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refusal({"--on", "ray"}), HasSubstr("--ray-address: is not given"));
  EXPECT_THAT(refusal({"--on", "ray", "--ray-address", "http://127.0.0.1:1", "-o", "/r"}),
              HasSubstr("nothing answers"));
  EXPECT_THAT(refusal({"--on", "kubernetes", "--kubernetes", "quue=x"}),
              HasSubstr("did you mean 'queue'"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
