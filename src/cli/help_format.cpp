#include "cli/help_format.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/arguments.h"
#include "cli/definition_list.h"
#include "cli/first_screens.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr size_t kHelpNameColumns = 36;
constexpr size_t kColumnsOfAFile = 80;
constexpr size_t kFewestColumns = 60;
constexpr size_t kMostColumns = 120;

size_t columns() {
  const size_t of_terminal = terminal_columns(STDOUT_FILENO);
  return of_terminal == 0 ? kColumnsOfAFile : std::clamp(of_terminal, kFewestColumns, kMostColumns);
}

class WrappedHelp : public CLI::Formatter {
 public:
  WrappedHelp() { column_width(kHelpNameColumns); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    if (const size_t value = name.find('{'); value != std::string::npos) name.resize(value);
    return entry(name + make_option_opts(option), make_option_desc(option));
  }

  // -h asks for the first screen, --help for all of one command.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const std::string words = words_of(app);
    const std::string_view screen = first_screen(words);
    if (mode == CLI::AppFormatMode::Normal && !screen.empty()) return std::string(screen);
    elsewhere_ = words != kArgumentsCommand;
    return Formatter::make_help(app, std::move(name), CLI::AppFormatMode::Normal);
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group != kTrainingArguments || !elsewhere_)
      return Formatter::make_group(std::move(group), is_positional, std::move(options));
    return "\n" + group + ": sftbench help " + kArgumentsCommand + "\n";
  }

  std::string make_subcommand(const CLI::App* sub) const override {
    return entry(sub->get_display_name(true), sub->get_description());
  }

 private:
  static std::string entry(const std::string& name, const std::string& description) {
    std::ostringstream out;
    CLI::detail::format_help(out, name, join(wrap(description, columns() - kHelpNameColumns), "\n"),
                             kHelpNameColumns);
    return out.str();
  }

  static std::string words_of(const CLI::App* command) {
    if (command->get_parent() == nullptr) return {};
    const std::string before = words_of(command->get_parent());
    return before.empty() ? command->get_name() : before + " " + command->get_name();
  }

  mutable bool elsewhere_ = false;  // than at the command that shows training arguments
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() {
  return std::make_shared<WrappedHelp>();
}

}  // namespace sftbench
