#include "cli/manual.h"

#include <iostream>

#include "cli/arguments.h"
#include "cli/first_screens.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Text that roff prints as it stands.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool begins = result.empty() || result.back() == '\n';
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '-' || c == '\\') result += '\\';
    result += c == '\\' ? 'e' : c;
  }
  return result;
}

std::string bold(const std::string& text) {
  return "\\fB" + plain(text) + "\\fR";
}

// Lines that keep their ends.
std::string as_typed(const std::string& text) {
  return ".nf\n" + plain(text) + "\n.fi\n";
}

std::string option_entry(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(bold("-" + name));
  for (const std::string& name : option.get_lnames()) names.push_back(bold("--" + name));
  if (names.empty()) names.push_back(bold(option.get_name(true)));
  const std::string value =
      option.get_items_expected_max() > 0 ? " " + plain(option.get_type_name()) : "";
  return ".TP\n" + join(names) + value + "\n" + plain(option.get_description()) + "\n";
}

std::string options_of(const CLI::App& command) {
  std::string text;
  bool takes_arguments = false;
  for (const CLI::Option* option : command.get_options()) {
    const bool elsewhere =
        option->get_group() == kTrainingArguments && command.get_name() != kArgumentsCommand;
    takes_arguments = takes_arguments || elsewhere;
    if (!elsewhere && !option->get_group().empty()) text += option_entry(*option);
  }
  if (takes_arguments)
    text += ".PP\nTraining arguments: see the command " + bold(kArgumentsCommand) + ".\n";
  return text;
}

std::string sections_of(const CLI::App& command, const std::string& path) {
  std::string text = ".SS " + plain(path) + "\n" + plain(command.get_description()) + "\n";
  text += options_of(command);
  if (const std::string footer = command.get_footer(); !footer.empty())
    text += ".PP\n" + as_typed(footer);
  for (const CLI::App* sub : command.get_subcommands(nullptr))
    text += sections_of(*sub, path + " " + sub->get_name());
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  std::string text = ".TH SFTBENCH 1 \"\" \"" + plain(version_text()) + "\" \"User Commands\"\n";
  text += ".SH NAME\nsftbench \\- measure what fine\\-tuning a language model costs\n";
  text += ".SH SYNOPSIS\n.B sftbench\n[OPTIONS] COMMAND [OPTIONS]\n";
  text += ".SH DESCRIPTION\n" + plain(app.get_description()) + "\n";
  text += ".SH OPTIONS\nEach command takes these, too.\n" + options_of(app);
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (!command->get_group().empty()) text += sections_of(*command, command->get_name());
  return text + ".SH EXAMPLES\n" + as_typed(app.get_footer());
}

void add_manual_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("manual", "print the man page")->group("");
  command->footer("\nExamples:\n  sftbench manual | man -l -");
  command->callback([&app, &exit_code] {
    std::cout << manual_page(app);
    exit_code = 0;
  });
}

}  // namespace sftbench
