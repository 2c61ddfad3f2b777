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

// What bash offers for what is typed; the last word is being completed.
std::vector<std::string> bash_offers(const std::string& line, const std::string& breaks = "=:") {
  const std::string program = SFTBENCH_EXECUTABLE;
  const std::string typed = program + line.substr(std::string("sftbench").size());
  const std::string command = "bash -c 'source <(" + program + " completion bash); COMP_WORDS=(" +
                              program + "); COMP_LINE=\"" + typed +
                              "\"; COMP_POINT=" + std::to_string(typed.size()) +
                              "; COMP_WORDBREAKS=\" " + breaks +
                              "\"; _sftbench; printf \"%s\\n\" \"${COMPREPLY[@]}\"' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << text;
  std::vector<std::string> offers;
  std::istringstream lines(text);
  for (std::string line_of; std::getline(lines, line_of);) {
    if (!line_of.empty()) offers.push_back(line_of);
  }
  return offers;
}

TEST(BashCompletionTest, OffersCommandsAndOptionsByTheirBeginning) {
  EXPECT_THAT(bash_offers("sftbench "),
              IsSupersetOf({"run", "expand", "doctor", "dataset", "--version"}));
  EXPECT_THAT(bash_offers("sftbench ru"), UnorderedElementsAre("run"));
  EXPECT_THAT(bash_offers("sftbench run --ou"),
              UnorderedElementsAre("--output", "--output-column", "--output-dir"));
  EXPECT_THAT(bash_offers("sftbench run --no-p"), UnorderedElementsAre("--no-progress"));
  EXPECT_THAT(bash_offers("sftbench status --wat"), UnorderedElementsAre("--watch"));
}

TEST(BashCompletionTest, FollowsSubcommandsOfSubcommands) {
  EXPECT_THAT(bash_offers("sftbench dataset te"), UnorderedElementsAre("text"));
  EXPECT_THAT(bash_offers("sftbench dataset text --tokens-"),
              UnorderedElementsAre("--tokens-input", "--tokens-output"));
  EXPECT_THAT(bash_offers("sftbench --no-progress dataset text --pro"),
              UnorderedElementsAre("--prompt"));
}

TEST(BashCompletionTest, OffersTheValuesOfAnOption) {
  EXPECT_THAT(bash_offers("sftbench run --format "),
              UnorderedElementsAre("table", "json", "jsonl", "csv", "md"));
  EXPECT_THAT(bash_offers("sftbench run --weights r"), UnorderedElementsAre("random"));
  EXPECT_THAT(bash_offers("sftbench --log-level w"), UnorderedElementsAre("warn"));
  EXPECT_THAT(bash_offers("sftbench completion z"), UnorderedElementsAre("zsh"));
}

TEST(BashCompletionTest, KnowsExperimentsModelsAndGpus) {
  EXPECT_THAT(bash_offers("sftbench run --experiment finetune_lora"),
              UnorderedElementsAre("finetune_lora_benchmark-v1.0.0"));
  EXPECT_THAT(bash_offers("sftbench experiments finetune_pt"),
              UnorderedElementsAre("finetune_pt_benchmark-v1.0.0"));
  EXPECT_THAT(bash_offers("sftbench models tiny"), UnorderedElementsAre("tinyllama-1.1b"));
  EXPECT_THAT(bash_offers("sftbench weights fetch tiny"), UnorderedElementsAre("tinyllama-1.1b"));
  EXPECT_THAT(bash_offers("sftbench gpus NVIDIA-H"),
              IsSupersetOf({"NVIDIA-H100-PCIe", "NVIDIA-H100-80GB-HBM3"}));
}

// With '=' among COMP_WORDBREAKS, as it comes, and without.
TEST(BashCompletionTest, KnowsPropertiesAndTheirValuesBehindSet) {
  EXPECT_THAT(bash_offers("sftbench run --set "),
              IsSupersetOf({"model_name=", "optim=", "batch_size=", "gpu_model="}));
  EXPECT_THAT(bash_offers("sftbench sweep --set model_n"), UnorderedElementsAre("model_name="));
  EXPECT_THAT(bash_offers("sftbench run --set model_name=tiny"),
              UnorderedElementsAre("tinyllama-1.1b"));
  EXPECT_THAT(bash_offers("sftbench run --set torch_dtype="),
              UnorderedElementsAre("bfloat16", "float32", "float16"));
  EXPECT_THAT(bash_offers("sftbench run --set torch_dtype=b", ":"),
              UnorderedElementsAre("torch_dtype=bfloat16"));
  EXPECT_THAT(bash_offers("sftbench run --set bf16=t"), UnorderedElementsAre("true"));
  EXPECT_THAT(bash_offers("sftbench run --set optim=adamw_t"),
              IsSupersetOf({"adamw_torch", "adamw_torch_fused"}));
  EXPECT_THAT(bash_offers("sftbench run --set batch_size="), UnorderedElementsAre())
      << "any number";
}

TEST(BashCompletionTest, LeavesFreeValuesToFileNames) {
  EXPECT_THAT(bash_offers("sftbench run --config "), UnorderedElementsAre());
}

// Every subcommand with its path, walked here anew.
void walk(const CLI::App& command, const std::string& path,
          std::vector<std::pair<std::string, const CLI::App*>>& all) {
  all.emplace_back(path, &command);
  for (const CLI::App* sub : command.get_subcommands(nullptr)) {
    if (!sub->get_group().empty()) walk(*sub, path + " " + sub->get_name(), all);
  }
}

TEST(CompletionTest, OffersEverySubcommandAndOption) {
  int exit_code = 0;
  CommonOptions common;
  CLI::App app;
  build_app(app, common, exit_code);
  std::vector<std::pair<std::string, const CLI::App*>> commands;
  walk(app, "sftbench", commands);
  EXPECT_GE(commands.size(), 9u);
  for (const auto& [path, command] : commands) {
    const std::string offered = "\n" + run_program({"complete", path + " "}).out;
    for (const CLI::App* sub : command->get_subcommands(nullptr)) {
      if (sub->get_group().empty()) continue;
      EXPECT_THAT(offered, HasSubstr("\n" + sub->get_name() + "\t" + sub->get_description()))
          << path;
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames())
        EXPECT_THAT(offered, HasSubstr("\n--" + name + "\t")) << path;
    }
  }
}

TEST(CompletionTest, WordsInQuotesAreOne) {
  EXPECT_EQ(run_program({"complete", "sftbench run --space 'a b' --no-prog"}).out.substr(0, 13),
            "--no-progress");
  EXPECT_EQ(run_program({"complete", "sftbench run --output run dataset te"}).out, "")
      << "no command below another that has none";
}

TEST(CompletionTest, RefusesAnotherShell) {
  EXPECT_THAT(run_program({"completion", "tcsh"}).err, HasSubstr("unknown shell 'tcsh'"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
