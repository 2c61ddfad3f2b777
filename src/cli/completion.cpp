#include "cli/completion.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

struct OptionWords {
  std::vector<std::string> names;  // with dashes
  std::string help;
  bool takes_value = false;
  std::vector<std::string> values;  // that are legal; empty: anything, files are offered
};

struct CommandWords {
  std::string path;  // "sftbench dataset text"
  std::vector<const CLI::App*> subcommands;
  std::vector<OptionWords> options;      // those of its parents included
  std::vector<std::string> positionals;  // legal values of positional arguments
};

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

// "optim=", "model_name=", ...
std::vector<std::string> settings_to_begin(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [property, values] : settings) words.push_back(property + "=");
  return words;
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

bool sets_property(const OptionWords& option) {
  return option.names.back() == "--set";
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.help = option.get_description();
  words.takes_value = option.get_items_expected_max() > 0;
  if (words.takes_value) words.values = values_of(option);
  return words;
}

void collect(const CLI::App& command, const std::string& path, std::vector<OptionWords> inherited,
             std::vector<CommandWords>& all) {
  CommandWords words;
  words.path = path;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      for (const std::string& value : values_of(*option)) words.positionals.push_back(value);
      for (std::string& name : names_for(path, Catalog::shipped())) {
        words.positionals.push_back(std::move(name));
      }
    } else {
      words.options.push_back(words_of(*option));
    }
  }
  // Options of the parents are legal behind a subcommand; --help is every command's own.
  for (OptionWords& option : inherited) {
    if (option.names.back() != "--help") words.options.push_back(option);
  }
  for (const CLI::App* sub : command.get_subcommands(nullptr)) words.subcommands.push_back(sub);
  all.push_back(words);
  for (const CLI::App* sub : words.subcommands) {
    collect(*sub, path + " " + sub->get_name(), words.options, all);
  }
}

std::vector<std::string> candidates(const CommandWords& command) {
  std::vector<std::string> words = command.positionals;
  for (const CLI::App* sub : command.subcommands) words.push_back(sub->get_name());
  for (const OptionWords& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// The branches of a `case` that follow the words typed so far into subcommands (bash and zsh).
std::string descent_cases(const std::vector<CommandWords>& commands) {
  std::string text;
  for (const CommandWords& command : commands) {
    for (const CLI::App* sub : command.subcommands) {
      const std::string path = command.path + " " + sub->get_name();
      text += "      " + quoted(path) + ") at=" + quoted(path) + " ;;\n";
    }
  }
  return text;
}

// `offer` turns an option's values into a command; a value without a list is left to file names.
template <typename Offer>
std::string value_cases(const std::vector<CommandWords>& commands, const Offer& offer) {
  std::string text;
  for (const CommandWords& command : commands) {
    for (const OptionWords& option : command.options) {
      if (!option.takes_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) {
        patterns.push_back(quoted(command.path + " " + name));
      }
      text += "    " + join(patterns, "|") + ") " + offer(option) + " ;;\n";
    }
  }
  return text;
}

// bash takes "--set optim=ad" for the words --set, optim, = and ad, unless its user has told it not
// to.
std::string bash_settings(const Settings& settings) {
  std::string text = R"(_sftbench_set() {
  local name=$1 values=
  case "$name" in
)";
  for (const auto& [property, values] : settings) {
    if (values.empty()) continue;
    text += "    " + property + ") values=" + quoted(join(values, " ")) + " ;;\n";
  }
  return text + R"(  esac
  COMPREPLY=($(compgen -P "$3" -W "$values" -- "$2"))
}
)";
}

std::string bash_script(const std::vector<CommandWords>& commands, const Settings& settings) {
  std::string text =
      "# bash completion for sftbench. Load it with: source <(sftbench completion bash)\n" +
      bash_settings(settings) + R"(_sftbench() {
  local at=sftbench word words= cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local before=${COMP_WORDS[COMP_CWORD-2]-} first=
  ((COMP_CWORD >= 3)) && first=${COMP_WORDS[COMP_CWORD-3]}
  COMPREPLY=()
  if [[ $prev == = && $first == --set ]]; then _sftbench_set "$before" "$cur" ''; return; fi
  if [[ $cur == = && $before == --set ]]; then _sftbench_set "$prev" '' ''; return; fi
  if [[ $prev == --set && $cur == *=* ]]; then
    _sftbench_set "${cur%%=*}" "${cur#*=}" "${cur%%=*}="
    return
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
)" + descent_cases(commands) +
      R"(    esac
  done
  case "$at $prev" in
)" + value_cases(commands, [&settings](const OptionWords& option) {
        if (sets_property(option)) {
          return "compopt -o nospace 2>/dev/null; COMPREPLY=($(compgen -W " +
                 quoted(join(settings_to_begin(settings), " ")) + " -- \"$cur\")); return";
        }
        if (option.values.empty()) return std::string("return");
        return "COMPREPLY=($(compgen -W " + quoted(join(option.values, " ")) +
               " -- \"$cur\")); return";
      });
  text += "  esac\n  case \"$at\" in\n";
  for (const CommandWords& command : commands) {
    text += "    " + quoted(command.path) + ") words=" + quoted(join(candidates(command), " ")) +
            " ;;\n";
  }
  return text + R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _sftbench sftbench
)";
}

// zsh separates a candidate from its description by a colon.
std::string described(const std::string& word, const std::string& help) {
  std::string escaped;
  for (const char c : word) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
  return quoted(escaped + ":" + help);
}

std::string zsh_words(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) all.push_back(quoted(word));
  return join(all, " ");
}

std::string zsh_settings(const Settings& settings) {
  std::string text = R"(_sftbench_set() {
  if ! compset -P '*='; then
    compadd -S '' -- )" +
                     zsh_words(settings_to_begin(settings)) + R"(
    return
  fi
  case "${IPREFIX%=}" in
)";
  for (const auto& [property, values] : settings) {
    if (values.empty()) continue;
    text += "    *" + property + ") compadd -- " + zsh_words(values) + " ;;\n";
  }
  return text + "  esac\n}\n";
}

std::string zsh_script(const std::vector<CommandWords>& commands, const Settings& settings) {
  std::string text = R"(#compdef sftbench
# zsh completion for sftbench. Load it with: source <(sftbench completion zsh)
)" + zsh_settings(settings) +
                     R"(_sftbench() {
  local at=sftbench word
  local -a found
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
)" + descent_cases(commands) +
                     R"(    esac
  done
  case "$at ${words[CURRENT-1]}" in
)" + value_cases(commands, [](const OptionWords& option) {
                       if (sets_property(option)) return std::string("_sftbench_set; return");
                       if (option.values.empty()) return std::string("_files; return");
                       return "compadd -- " + zsh_words(option.values) + "; return";
                     });
  text += "  esac\n  case \"$at\" in\n";
  for (const CommandWords& command : commands) {
    text += "    " + quoted(command.path) + ") found=(";
    for (const std::string& value : command.positionals) text += "\n      " + described(value, "");
    for (const CLI::App* sub : command.subcommands) {
      text += "\n      " + described(sub->get_name(), sub->get_description());
    }
    for (const OptionWords& option : command.options) {
      for (const std::string& name : option.names) {
        text += "\n      " + described(name, option.help);
      }
    }
    text += ") ;;\n";
  }
  return text + R"(  esac
  _describe 'sftbench' found
  _files
}
compdef _sftbench sftbench
)";
}

std::string fish_settings(const Settings& settings) {
  std::string text = "function __sftbench_set\n  switch (commandline -ct)\n";
  for (const auto& [property, values] : settings) {
    std::vector<std::string> words;
    for (const std::string& value : values) words.push_back(quoted(property + "=" + value));
    if (words.empty()) continue;
    text +=
        "    case " + quoted(property + "=*") + "\n      printf '%s\\n' " + join(words, " ") + "\n";
  }
  std::vector<std::string> beginnings;
  for (const std::string& word : settings_to_begin(settings)) beginnings.push_back(quoted(word));
  return text + "    case '*'\n      printf '%s\\n' " + join(beginnings, " ") + "\n  end\nend\n";
}

std::string fish_script(const std::vector<CommandWords>& commands, const Settings& settings) {
  std::string text =
      "# fish completion for sftbench. Load it with: sftbench completion fish | source\n" +
      fish_settings(settings);
  for (const CommandWords& command : commands) {
    // The condition: all subcommands of the path are typed, and none below it.
    std::vector<std::string> conditions;
    std::string rest = command.path.substr(std::string("sftbench").size());
    for (size_t at = 0; at < rest.size();) {
      const size_t end = std::min(rest.find(' ', at + 1), rest.size());
      conditions.push_back("__fish_seen_subcommand_from" + rest.substr(at, end - at));
      at = end;
    }
    std::vector<std::string> below;
    for (const CLI::App* sub : command.subcommands) below.push_back(sub->get_name());
    if (!below.empty()) {
      conditions.push_back("not __fish_seen_subcommand_from " + join(below, " "));
    }
    const std::string head =
        "complete -c sftbench" +
        (conditions.empty() ? std::string() : " -n " + quoted(join(conditions, "; and ")));
    for (const CLI::App* sub : command.subcommands) {
      text += head + " -a " + sub->get_name() + " -d " + quoted(sub->get_description()) + "\n";
    }
    if (!command.positionals.empty()) {
      text += head + " -a " + quoted(join(command.positionals, " ")) + "\n";
    }
    for (const OptionWords& option : command.options) {
      text += head;
      for (const std::string& name : option.names) {
        text += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
      }
      if (option.takes_value) text += " -r";
      if (sets_property(option)) text += " -f -a '(__sftbench_set)'";
      if (!option.values.empty()) text += " -f -a " + quoted(join(option.values, " "));
      text += " -d " + quoted(option.help) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<CommandWords> commands;
  collect(app, "sftbench", {}, commands);
  const Settings settings = settings_of(Catalog::shipped());
  if (shell == "bash") return bash_script(commands, settings);
  if (shell == "zsh") return zsh_script(commands, settings);
  if (shell == "fish") return fish_script(commands, settings);
  throw InputError({{.file = {},
                     .line = 0,
                     .key = "completion",
                     .message = "unknown shell '" + shell + "'",
                     .expected = "one of " + join(kShells),
                     .nearest = nearest_spelling(shell, kShells)}});
}

void add_completion_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("completion", "print a shell's completion script");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "the shell that it is for")
      ->type_name("{" + join(kShells, ",") + "}")
      ->required();
  command->footer(
      "\nExamples:\n  source <(sftbench completion bash)                        in ~/.bashrc\n"
      "  sftbench completion fish >~/.config/fish/completions/sftbench.fish");
  command->callback([&app, shell, &exit_code] {
    std::cout << completion_script(app, *shell);
    exit_code = 0;
  });
}

}  // namespace sftbench
