#include "sftbench/cli/completion.h"

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
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

// What bash offers for the words typed so far; the last one is being completed.
std::vector<std::string> bash_offers(const std::vector<std::string>& words) {
  static const std::string script_path = [] {
    const std::string path = testing::TempDir() + "/sftbench_completion." + std::to_string(::getpid()) + ".bash";
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
  EXPECT_THAT(bash_offers({"sftbench", "run", "--ou"}), UnorderedElementsAre("--output"));
  EXPECT_THAT(bash_offers({"sftbench", "run", "--no-p"}), UnorderedElementsAre("--no-progress"));
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

}  // namespace
}  // namespace sftbench
