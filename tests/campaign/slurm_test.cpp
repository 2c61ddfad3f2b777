// Batch scripts for Slurm; that bash and a real Slurm run them: tests/distributed/campaign.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "campaign/campaign_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/campaign/engines.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Script {
  std::string text;
  std::vector<std::string> warnings;
};

Script script_of(const std::vector<CampaignCell>& cells,
                 const std::vector<std::string>& options = {}, const Grouping& grouping = kByGpus) {
  Script script;
  CampaignLog log;
  log.warn = [&script](const std::string& text) { script.warnings.push_back(text); };
  CampaignPlan plan = plan_of(group_cells(cells, grouping));
  plan.environment["NAME"] = "a b";
  std::vector<std::string> models;
  for (const WorkerGroup& group : plan.groups) models.push_back(group.need.gpu_model);
  std::ostringstream out;
  EXPECT_EQ(make_slurm_engine({options, false, models}, log)->start(plan, out), 0);
  script.text = out.str();
  return script;
}

std::string refusal(const std::vector<std::string>& options) {
  try {
    script_of({gpu_cell(1, 1, "L40S")}, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(SlurmTest, AGroupIsAnArrayOfWorkersThatMayBeStartedAgain) {
  const std::string text = script_of({gpu_cell(8), gpu_cell(8), gpu_cell(8)}).text;
  for (const char* line :
       {"#SBATCH --array=0-2\n", "#SBATCH --nodes=1\n", "#SBATCH --gpus-per-node=8\n",
        "#SBATCH --cpus-per-task=16\n", "#SBATCH --requeue\n", "#SBATCH --signal=B:USR1@120\n",
        "#SBATCH --job-name=my-space-gpu8-nvidia-h100-pcie\n", "export NAME='a b'\n",
        "attend '/opt/sft bench/sftbench' sweep 'spaces/my space.yaml'",
        "--set number_gpus=8 --set number_nodes=1 --worker -o results\n",
        "mkdir -p -- results/slurm\n",
        "scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\""}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(SlurmTest, CellsOfSeveralNodesAreStepsThatAWorkerStarts) {
  const std::string text = script_of({gpu_cell(16, 2), gpu_cell(16, 2)}, {}, {{}, 1}).text;
  for (const char* line :
       {"#SBATCH --nodes=2\n", "#SBATCH --gpus-per-node=8\n", "#SBATCH --ntasks-per-node=8\n",
        "#SBATCH --array=0\n", "#SBATCH --exclusive\n", "#SBATCH --cpus-per-task=2\n",
        "attend '/opt/sft bench/sftbench' sweep ", "--worker -o results --launcher srun\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  CampaignCell on_cpus = cpu_cell();
  on_cpus.need = DeviceNeed{2, 0, "", false, 12, 4};
  EXPECT_THAT(script_of({on_cpus}).text,
              AllOf(HasSubstr("--nodes=2\n"), HasSubstr("--ntasks-per-node=4\n"),
                    HasSubstr("--cpus-per-task=3\n"), HasSubstr("--launcher srun\n")));
}

TEST(SlurmTest, GivenOptionsStandInPlaceOfItsOwn) {
  const std::string text =
      script_of({cpu_cell(), gpu_cell(1, 1, "L40S"), gpu_cell(1, 1, "Tesla-T4")},
                {"partition=gpu", "--time=01:00:00", "cpus-per-task=4",
                 "hint=", "L40S:constraint=ada", "L40S:gres=gpu:l40s:1"})
          .text;
  EXPECT_THAT(text, AllOf(HasSubstr("#SBATCH --partition=gpu\n"), HasSubstr("--time=01:00:00\n"),
                          HasSubstr("#SBATCH --hint\n"), Not(HasSubstr("--exclusive")),
                          Not(HasSubstr("--cpus-per-task=2"))));
  const size_t l40s = text.find("with 1 L40S"), t4 = text.find("with 1 Tesla-T4");
  ASSERT_NE(l40s, std::string::npos);
  ASSERT_NE(t4, std::string::npos);
  const std::string of_t4 = text.substr(t4, l40s > t4 ? l40s - t4 : std::string::npos);
  const std::string of_l40s = text.substr(l40s, t4 > l40s ? t4 - l40s : std::string::npos);
  EXPECT_THAT(of_l40s, AllOf(HasSubstr("--constraint=ada\n"), HasSubstr("--gres=gpu:l40s:1\n"),
                             Not(HasSubstr("--gpus-per-node"))));
  EXPECT_THAT(of_t4, AllOf(Not(HasSubstr("constraint")), HasSubstr("--gpus-per-node=1\n")));
}

TEST(SlurmTest, AMeasurementOnAllCoresHasTheNodeForItself) {
  EXPECT_THAT(script_of({cpu_cell()}).text, HasSubstr("#SBATCH --exclusive\n"));
  CampaignCell two_cores = cpu_cell();
  two_cores.need->cores = 2;
  EXPECT_THAT(script_of({two_cores}).text,
              AllOf(HasSubstr("--cpus-per-task=2\n"), Not(HasSubstr("--exclusive"))));
}

TEST(SlurmTest, AnArrayHasNoIndexBeyondSlurmsLimit) {
  std::vector<CampaignCell> cells(2500, gpu_cell(1));
  const std::string text = script_of(cells, {}, {{}, 2500}).text;
  EXPECT_THAT(text, AllOf(HasSubstr("--array=0-1000\n"), HasSubstr("--array=0-497\n")));
}

// Slurm's tools, as scripts that come first in PATH: sbatch keeps what it is given and names its
// jobs 7, 77, and so on.
class SlurmSubmissionTest : public ::testing::Test {
 protected:
  SlurmSubmissionTest() {
    fs::create_directories(folder_);
    ::setenv("PATH", (folder_.string() + ":" + before_).c_str(), 1);
    tool("sbatch", "cat >> batches\nprintf 7 >> jobs\ncat jobs\n");
    fs::current_path(folder_);
  }
  ~SlurmSubmissionTest() override {
    fs::current_path(here_);
    ::setenv("PATH", before_.c_str(), 1);
    fs::remove_all(folder_);
  }

  void tool(const std::string& name, const std::string& script) {
    write_file_atomic(folder_ / name, "#!/bin/sh\n" + script);
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }

  std::string submit(int64_t workers) {
    fs::remove(folder_ / "batches");
    const std::vector<CampaignCell> cells(static_cast<size_t>(workers), gpu_cell(1));
    std::ostringstream out;
    EXPECT_EQ(make_slurm_engine({{}, true, {}}, {})
                  ->start(plan_of(group_cells(cells, {{}, workers})), out),
              0);
    return out.str();
  }
  std::string batches() const { return read_file(folder_ / "batches"); }

  const fs::path here_ = fs::current_path();
  const std::string before_ = std::getenv("PATH");
  const fs::path folder_ =
      fs::temp_directory_path() / ("sftbench-slurm-" + std::to_string(::getpid()));
};

// slurm.conf(5): the largest index is MaxArraySize less 1.
TEST_F(SlurmSubmissionTest, ArraysAreAsLongAsTheClusterTakes) {
  tool("scontrol", "echo 'MaxArrays = 9'; echo 'MaxArraySize            = 2'; echo 'Other = 5'\n");
  const std::string jobs = submit(5);
  EXPECT_THAT(jobs, AllOf(HasSubstr("7  "), HasSubstr("777  "), HasSubstr("2 workers"),
                          HasSubstr("1 worker ")));
  EXPECT_THAT(batches(), AllOf(HasSubstr("--array=0-1\n"), HasSubstr("--array=0\n")));
  tool("scontrol", "echo 'MaxArraySize = 1'\n");
  submit(2);
  EXPECT_THAT(batches(), AllOf(HasSubstr("--array=0\n"), Not(HasSubstr("--array=0-"))));
  for (const char* silent :
       {"echo 'MaxArraySize ='\n", "echo 'MaxArraySize = 0'\n", "echo 'Other = 5'\n", "exit 1\n"}) {
    tool("scontrol", silent);
    submit(1002);
    EXPECT_THAT(batches(), AllOf(HasSubstr("--array=0-1000\n"), HasSubstr("--array=0\n")))
        << silent;
  }
}

TEST_F(SlurmSubmissionTest, ARefusalNamesTheGroupAndWhatWasSubmittedBefore) {
  tool("scontrol", "echo 'MaxArraySize = 1'\n");
  tool("sbatch",
       "test -e batches && { echo 'Invalid account' >&2; exit 1; }\ncat > batches\necho "
       "'12;cluster'\n");
  try {
    submit(2);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("refuses the group"), HasSubstr("Invalid account"),
                                    HasSubstr("submitted before it: 12 (scancel 12 ends them)")));
  }
}

TEST_F(SlurmSubmissionTest, AMachineWithoutSbatchIsNoLoginNode) {
  fs::remove(folder_ / "sbatch");
  ::setenv("PATH", folder_.c_str(), 1);
  try {
    submit(1);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--submit: there is no sbatch on this machine"));
  }
}

TEST_F(SlurmSubmissionTest, TellsHowToSeeAndEndWhatItSubmitted) {
  tool("scontrol", "echo 'MaxArraySize = 1'\n");
  std::string said;
  CampaignLog log;
  log.info = [&said](const std::string& text) { said += text; };
  std::ostringstream out;
  make_slurm_engine({{}, true, {}}, log)
      ->start(plan_of(group_cells({gpu_cell(1), gpu_cell(1)}, {{}, 2})), out);
  EXPECT_EQ(
      said,
      "squeue --me shows them, sftbench status results the cells, scancel 7 77 ends them; logs "
      "are in results/slurm");
  EXPECT_TRUE(fs::is_directory(folder_ / "results/slurm"));
}

TEST(SlurmTest, SecretsComeFromWhereItIsSubmitted) {
  CampaignPlan plan = plan_of(group_cells({gpu_cell(1)}, kByGpus));
  plan.secrets = {"HF_TOKEN"};
  std::ostringstream out;
  make_slurm_engine({}, {})->start(plan, out);
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("# Submits 1 job array: "),
                    HasSubstr(": \"${HF_TOKEN:?is to be set "), HasSubstr("\nexport HF_TOKEN\n")));
}

TEST(SlurmTest, OnlyMeasurementsHaveANodeForThemselves) {
  CampaignPlan plan = plan_of(group_cells({cpu_cell(), invalid_cell()}, kByGpus));
  ASSERT_EQ(plan.groups.size(), 2u);
  const auto exclusive = [&plan] {
    std::ostringstream out;
    make_slurm_engine({}, {})->start(plan, out);
    const std::string text = out.str();
    const size_t rules = text.find("my-space-rules");
    EXPECT_NE(rules, std::string::npos);
    EXPECT_EQ(text.find("--exclusive", text.rfind("sbatch <<")), std::string::npos)
        << "a rule is settled without a measurement";
    return text.find("--exclusive") != std::string::npos;
  };
  EXPECT_TRUE(exclusive());
  plan.simulated = true;
  EXPECT_FALSE(exclusive());
}

TEST(SlurmTest, OptionsThatSayTheSameGiveWay) {
  const auto of = [](const std::string& option) {
    return script_of({gpu_cell(2, 1, "L40S")}, {option}).text;
  };
  for (const char* option : {"gpus=2", "gpus-per-task=2"})
    EXPECT_THAT(of(option),
                AllOf(HasSubstr("--cpus-per-task=4\n"), Not(HasSubstr("--gpus-per-node"))));
  EXPECT_THAT(of("cpus-per-gpu=8"),
              AllOf(HasSubstr("--gpus-per-node=2\n"), Not(HasSubstr("--cpus-per-task"))));
  EXPECT_THAT(of("---mem=4G"), HasSubstr("#SBATCH --mem=4G\n"));
}

TEST(SlurmTest, WhereSeveralModelsAreMustBeSaid) {
  const std::vector<CampaignCell> cells = {gpu_cell(1, 1, "L40S"), gpu_cell(1, 1, "Tesla-T4")};
  EXPECT_EQ(script_of(cells).warnings.size(), 1u);
  EXPECT_TRUE(script_of(cells, {"L40S:constraint=a", "Tesla-T4:constraint=b"}).warnings.empty());
}

TEST(SlurmTest, BadOptionsAreRefusedTogether) {
  EXPECT_THAT(refusal({"partition"}), HasSubstr("found 'partition'; expected KEY=VALUE"));
  for (const char* option : {"p=gpu", "Mem=4G", "mem_per=1", "mem{=1", "mem/=1", "mem:=1", "=1"})
    EXPECT_THAT(refusal({option}), HasSubstr("--slurm")) << option;
  EXPECT_THAT(refusal({"p=gpu"}), HasSubstr("the long name of an option"));
  EXPECT_EQ(refusal({"az09-=1"}), "nothing was refused");
  EXPECT_THAT(refusal({"comment=a\nb"}), HasSubstr("--slurm"));
  EXPECT_THAT(refusal({"array=1-3", "L40:time=1"}),
              AllOf(HasSubstr("'array' cannot be set: --workers N"),
                    HasSubstr("no cell needs the GPU model 'L40'"), HasSubstr("L40S")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
