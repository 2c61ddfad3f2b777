#include "cli/arguments.h"

#include <iostream>
#include <memory>

#include "cli/first_screens.h"

namespace sftbench {

void add_argument_options(CLI::App& command, std::vector<GivenOption>& given) {
  for (const ArgumentOption& argument : argument_options()) {
    CLI::Option* option = nullptr;
    if (argument.type == nullptr) {
      option = command.add_flag_callback(
          argument.option,
          [&given, &argument] {
            given.push_back({&argument, "true"});
          },
          argument.help);
    } else {
      option = command.add_option_function<std::string>(
          argument.option,
          [&given, &argument](const std::string& text) {
            given.push_back({&argument, text});
          },
          argument.help);
      option->type_name(argument.type);
    }
    option->group(kTrainingArguments);
  }
}

void add_arguments_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      kArgumentsCommand, "the training arguments of run, sweep, predict, frontier and expand");
  const auto given = std::make_shared<std::vector<GivenOption>>();
  add_argument_options(*command, *given);
  command->footer(R"(
Those in a file, as transformers, trl and others name them: --arguments FILE.
Of both, and of --set, the option counts.

Examples:
  sftbench arguments
  sftbench run --model ./my-llama --data chats.jsonl --learning-rate 2e-5 \
    --experiment finetune_lora --lora-r 16 --lora-targets all-linear)");
  command->callback([&app, given, &exit_code] {
    if (!given->empty())
      throw CLI::ValidationError("sftbench arguments trains nothing: sftbench run takes them");
    std::cout << app.help("", CLI::AppFormatMode::All);
    exit_code = 0;
  });
}

}  // namespace sftbench
