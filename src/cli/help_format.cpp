#include "cli/help_format.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/definition_list.h"
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
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() {
  return std::make_shared<WrappedHelp>();
}

}  // namespace sftbench
