#include "cli/completion.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <memory>

#include "sftbench/base/command_text.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

// Each asks the program: what it offers is what it takes.
constexpr std::string_view kBash =
    R"(# bash completion for sftbench. Load it with: source <(sftbench completion bash)
_sftbench() {
  local line=${COMP_LINE:0:COMP_POINT} IFS=$'\n'
  local word=${line##*[[:space:]]}
  COMPREPLY=($("${COMP_WORDS[0]}" complete "$line" 2>/dev/null | cut -f 1))
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
  # bash takes "--set optim=ad" for the words --set, optim, = and ad, unless its user has told it not to.
  [[ $word != *=* || $COMP_WORDBREAKS != *=* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
}
complete -o default -F _sftbench sftbench
)";
constexpr std::string_view kZsh = R"(#compdef sftbench
# zsh completion for sftbench. Load it with: source <(sftbench completion zsh)
_sftbench() {
  local -a found begun
  found=("${(@f)$(${words[1]} complete "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
  begun=("${(@M)found:#*=}")  # names of properties, behind which a value comes
  found=("${(@)found:#(|*=)}")
  (( ${#begun} == 0 )) || compadd -S '' -a begun
  (( ${#begun} + ${#found} )) || _files
  found=("${(@)found//:/\\:}")
  found=("${(@)found/$'\t'/:}")
  (( ${#found} == 0 )) || _describe sftbench found
}
if [[ ${funcstack[1]} == _sftbench ]]; then _sftbench; else compdef _sftbench sftbench; fi
)";
constexpr std::string_view kFish =
    R"(# fish completion for sftbench. Load it with: sftbench completion fish | source
function __sftbench
  set -l found (sftbench complete (commandline -cp | string collect) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c sftbench -f -a '(__sftbench)'
)";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// What --set takes: properties of the experiments, and of each the values that have a name.
using Settings = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> values_of(const PropertySpec& property) {
  if (property.kind == PropertyKind::kBoolean) return {"true", "false"};
  std::vector<std::string> values = property.values;
  if (property.kind == PropertyKind::kStringList) values.clear();  // a list is no word
  if (property.nullable && !values.empty()) values.emplace_back("None");
  return values;
}

Settings settings_of(const Catalog& catalog) {
  Settings settings;
  for (const std::string& name : catalog.experiment_names()) {
    for (const PropertySpec& property : catalog.experiment(name)->properties) {
      std::vector<std::string>& values = settings[property.identifier];
      for (const std::string& value : values_of(property)) {
        if (std::find(values.begin(), values.end(), value) == values.end()) {
          values.push_back(value);
        }
      }
    }
  }
  return settings;
}

// Names that a command's positional argument takes.
std::vector<std::string> names_for(const std::string& path, const Catalog& catalog) {
  if (path == "sftbench models" || path == "sftbench weights fetch" ||
      path == "sftbench weights check") {
    return catalog.models.names();
  }
  if (path == "sftbench gpus") return catalog.gpus.names();
  if (path == "sftbench experiments") return catalog.experiment_names();
  return {};
}

// The legal values, where the type's name lists them: "auto|random", or "TEXT:{a,b,c}" as
// CLI::IsMember writes it. Names in capitals ("N|ID") stand for values of any kind.
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.rfind('{');
  if (open != std::string::npos && type.back() == '}') {
    return split(type.substr(open + 1, type.size() - open - 2), ',');
  }
  const bool lower =
      std::none_of(type.begin(), type.end(), [](unsigned char c) { return std::isupper(c) != 0; });
  if (lower && type.find('|') != std::string::npos) return split(type, '|');
  if (option.check_lname("experiment")) return Catalog::shipped().experiment_names();
  return option.check_lname("format") ? output_format_names() : std::vector<std::string>{};
}

// A word that may stand next, and what it means.
using Offers = std::vector<std::pair<std::string, std::string>>;

// The words of a line. The last one is being typed, and empty behind a space.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (size_t at = 0; (at = end_of_word(line, at, words.back())) < line.size(); ++at) {
    if (!words.back().empty()) words.emplace_back();
  }
  return words;
}

// Options of the parents are legal behind a subcommand. --help is every command's own.
std::vector<const CLI::Option*> options_of(const CLI::App* command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::App* at = command; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      const bool of_parent = at != command;
      if (of_parent &&
          (option->get_positional() || option->check_name("-h") || option->check_lname("help")))
        continue;
      if (!option->get_group().empty()) options.push_back(option);
    }
  }
  return options;
}

// "model_name=", or behind it every value that has a name.
Offers settings_offered(const std::string& typed) {
  Offers offers;
  const std::string property = typed.substr(0, typed.find('='));
  for (const auto& [name, values] : settings_of(Catalog::shipped())) {
    if (typed == property) {
      offers.emplace_back(name + "=", "");
    } else if (name == property) {
      for (const std::string& value : values) offers.emplace_back(name + "=" + value, "");
    }
  }
  return offers;
}

Offers behind(const CLI::Option& option, const std::string& typed) {
  if (option.check_lname("set")) return settings_offered(typed);
  Offers offers;
  for (const std::string& value : values_of(option)) offers.emplace_back(value, "");
  return offers;
}

Offers offers_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = "sftbench";
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    for (const CLI::App* below : command->get_subcommands(nullptr)) {
      if (below->get_name() != words[i]) continue;
      command = below;
      path += " " + words[i];
      break;
    }
  }
  const std::string before = words.size() < 2 ? std::string() : words[words.size() - 2];
  Offers offers;
  for (const CLI::Option* option : options_of(command)) {
    if (before.starts_with("-") && option->check_name(before) &&
        option->get_items_expected_max() > 0)
      return behind(*option, words.back());
    if (option->get_positional()) {
      for (const std::string& value : values_of(*option)) offers.emplace_back(value, "");
      for (const std::string& name : names_for(path, Catalog::shipped()))
        offers.emplace_back(name, "");
    }
    for (const std::string& name : option->get_snames())
      offers.emplace_back("-" + name, option->get_description());
    for (const std::string& name : option->get_lnames())
      offers.emplace_back("--" + name, option->get_description());
  }
  for (const CLI::App* below : command->get_subcommands(nullptr)) {
    if (!below->get_group().empty())
      offers.emplace_back(below->get_name(), below->get_description());
  }
  return offers;
}

void complete(const CLI::App& app, const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  for (const auto& [word, meaning] : offers_of(app, words)) {
    if (word.starts_with(words.back()))
      std::cout << word << (meaning.empty() ? "" : "\t" + meaning) << '\n';
  }
}

}  // namespace

void add_completion_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("completion", "print a shell's completion script");
  const auto shell = std::make_shared<std::string>();
  const std::map<std::string, std::string_view> scripts = {
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  command->add_option("shell", *shell, "the shell that it is for")
      ->type_name("{bash,zsh,fish}")
      ->required();
  command->footer(
      "\nExamples:\n  source <(sftbench completion bash)                        in ~/.bashrc\n"
      "  sftbench completion fish >~/.config/fish/completions/sftbench.fish");
  command->callback([scripts, shell, &exit_code] {
    const auto script = scripts.find(*shell);
    if (script == scripts.end()) {
      throw InputError({{.file = {},
                         .line = 0,
                         .key = "completion",
                         .message = "unknown shell '" + *shell + "'",
                         .expected = "one of bash, zsh, fish",
                         .nearest = nearest_spelling(*shell, {"bash", "zsh", "fish"})}});
    }
    std::cout << script->second;
    exit_code = 0;
  });
  CLI::App* asked = app.add_subcommand("complete", "what those scripts ask for")->group("");
  asked->footer("\nExamples:\n  sftbench complete 'sftbench ru'");
  const auto line = std::make_shared<std::string>();
  asked->add_option("LINE", *line, "what was typed, up to the cursor")->required();
  asked->callback([&app, line, &exit_code] {
    complete(app, *line);
    exit_code = 0;
  });
}

}  // namespace sftbench
