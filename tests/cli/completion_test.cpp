#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cli/program.h"
#include "sftbench/cli/app.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

// What bash offers for the words typed so far; the last one is being completed.
std::vector<std::string> bash_offers(const std::vector<std::string>& words) {
  static const std::string script_path = [] {
    const std::string path =
        testing::TempDir() + "/sftbench_completion." + std::to_string(::getpid()) + ".bash";
    std::ofstream(path) << run_program({"completion", "bash"}).out;
    return path;
  }();
  std::string command = "bash -c 'source " + script_path + "; COMP_WORDS=(";
  for (const std::string& word : words) command += "\"" + word + "\" ";
  command += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
             "; _sftbench; printf \"%s\\n\" \"${COMPREPLY[@]}\"' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << text;
  std::vector<std::string> offers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) offers.push_back(line);
  }
  return offers;
}

TEST(BashCompletionTest, OffersCommandsAndOptionsByTheirBeginning) {
  EXPECT_THAT(bash_offers({"sftbench", ""}),
              IsSupersetOf({"run", "expand", "doctor", "dataset", "--version"}));
  EXPECT_THAT(bash_offers({"sftbench", "ru"}), UnorderedElementsAre("run"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--ou"}),
              UnorderedElementsAre("--output", "--output-column", "--output-dir"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--no-p"}), UnorderedElementsAre("--no-progress"));
  EXPECT_THAT(bash_offers({"sftbench", "status", "--pag"}), UnorderedElementsAre("--page"));
}

TEST(BashCompletionTest, FollowsSubcommandsOfSubcommands) {
  EXPECT_THAT(bash_offers({"sftbench", "dataset", "te"}), UnorderedElementsAre("text"));
  EXPECT_THAT(bash_offers({"sftbench", "dataset", "text", "--tokens-"}),
              UnorderedElementsAre("--tokens-input", "--tokens-output"));
  EXPECT_THAT(bash_offers({"sftbench", "--no-progress", "dataset", "text", "--pro"}),
              UnorderedElementsAre("--prompt"));
}

TEST(BashCompletionTest, OffersTheValuesOfAnOption) {
  EXPECT_THAT(bash_offers({"sftbench", "run", "--format", ""}),
              UnorderedElementsAre("table", "json", "jsonl", "csv", "md"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--weights", "r"}), UnorderedElementsAre("random"));
  EXPECT_THAT(bash_offers({"sftbench", "--log-level", "w"}), UnorderedElementsAre("warn"));
  EXPECT_THAT(bash_offers({"sftbench", "completion", "z"}), UnorderedElementsAre("zsh"));
}

TEST(BashCompletionTest, KnowsExperimentsModelsAndGpus) {
  EXPECT_THAT(bash_offers({"sftbench", "run", "--experiment", "finetune_lora"}),
              UnorderedElementsAre("finetune_lora_benchmark-v1.0.0"));
  EXPECT_THAT(bash_offers({"sftbench", "experiments", "finetune_pt"}),
              UnorderedElementsAre("finetune_pt_benchmark-v1.0.0"));
  EXPECT_THAT(bash_offers({"sftbench", "models", "smol"}), UnorderedElementsAre("smollm2-135m"));
  EXPECT_THAT(bash_offers({"sftbench", "weights", "fetch", "smol"}),
              UnorderedElementsAre("smollm2-135m"));
  EXPECT_THAT(bash_offers({"sftbench", "gpus", "NVIDIA-H"}),
              IsSupersetOf({"NVIDIA-H100-PCIe", "NVIDIA-H100-80GB-HBM3"}));
}

// The words as bash takes them apart: with '=' among COMP_WORDBREAKS, as it comes, and without.
TEST(BashCompletionTest, KnowsPropertiesAndTheirValuesBehindSet) {
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", ""}),
              IsSupersetOf({"model_name=", "optim=", "batch_size=", "gpu_model="}));
  EXPECT_THAT(bash_offers({"sftbench", "sweep", "--set", "model_n"}),
              UnorderedElementsAre("model_name="));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "model_name", "=", "smol"}),
              UnorderedElementsAre("smollm2-135m"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "torch_dtype", "="}),
              UnorderedElementsAre("bfloat16", "float32", "float16"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "torch_dtype=b"}),
              UnorderedElementsAre("torch_dtype=bfloat16"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "bf16", "=", "t"}),
              UnorderedElementsAre("true"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "optim", "=", "adamw_t"}),
              IsSupersetOf({"adamw_torch", "adamw_torch_fused"}));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--set", "batch_size", "=", ""}),
              UnorderedElementsAre())
      << "any number";
}

TEST(CompletionTest, ZshAndFishKnowThemToo) {
  const std::string zsh = run_program({"completion", "zsh"}).out;
  EXPECT_THAT(zsh, HasSubstr("'sftbench run --set') _sftbench_set; return"));
  EXPECT_THAT(zsh, HasSubstr("*torch_dtype) compadd -- 'bfloat16' "));
  const std::string fish = run_program({"completion", "fish"}).out;
  EXPECT_THAT(fish, HasSubstr("-l set -r -f -a '(__sftbench_set)'"));
  EXPECT_THAT(fish, HasSubstr("case 'torch_dtype=*'\n      printf '%s\\n' 'torch_dtype=bfloat16'"));
}

TEST(BashCompletionTest, LeavesFreeValuesToFileNames) {
  EXPECT_THAT(bash_offers({"sftbench", "run", "--config", ""}), UnorderedElementsAre());
}

// Every subcommand with its path, walked here anew.
void walk(const CLI::App& command, std::vector<const CLI::App*>& all) {
  all.push_back(&command);
  for (const CLI::App* sub : command.get_subcommands(nullptr)) walk(*sub, all);
}

TEST(CompletionTest, EverySubcommandAndOptionOccursInEachScript) {
  int exit_code = 0;
  CommonOptions common;
  CLI::App app;
  build_app(app, common, exit_code);
  std::vector<const CLI::App*> commands;
  walk(app, commands);
  EXPECT_GE(commands.size(), 9u);
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(app, shell);
    const bool fish = std::string(shell) == "fish";
    for (const CLI::App* command : commands) {
      EXPECT_THAT(script, HasSubstr(command->get_name())) << shell;
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) {
          EXPECT_THAT(script, HasSubstr((fish ? "-l " : "--") + name)) << shell;
        }
      }
    }
    EXPECT_EQ(completion_script(app, shell), run_program({"completion", shell}).out);
  }
}

TEST(CompletionTest, FishOffersACommandsOptionsBehindItOnly) {
  const std::string script = run_program({"completion", "fish"}).out;
  EXPECT_THAT(script, HasSubstr("-n '__fish_seen_subcommand_from dataset; and "
                                "__fish_seen_subcommand_from text' -l tokens-input -r"));
  EXPECT_THAT(script, HasSubstr("-l weights -r -f -a 'auto random'"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
