#include "sftbench/cli/app.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <vector>

#include "cli/arguments.h"
#include "cli/completion.h"
#include "cli/dataset.h"
#include "cli/doctor.h"
#include "cli/expand.h"
#include "cli/experiments.h"
#include "cli/explain.h"
#include "cli/first_screens.h"
#include "cli/frontier.h"
#include "cli/gpus.h"
#include "cli/help_format.h"
#include "cli/import.h"
#include "cli/launched_run.h"
#include "cli/log_format.h"
#include "cli/manual.h"
#include "cli/measure.h"
#include "cli/models.h"
#include "cli/node.h"
#include "cli/predict.h"
#include "cli/rank.h"
#include "cli/recommend.h"
#include "cli/report.h"
#include "cli/run.h"
#include "cli/status.h"
#include "cli/sweep.h"
#include "cli/weights.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/command_text.h"
#include "sftbench/base/cpu_instructions.h"
#include "sftbench/base/error.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/launch/child_request.h"
#include "sftbench/launch/node_launch.h"
#include "sftbench/launch/rank_request.h"
#include "sftbench/launch/rehearsal.h"
#include "sftbench/results/key_lock.h"

namespace sftbench {
namespace {

constexpr const char* kExamples = R"(
Examples:
  sftbench doctor                     what this machine can run
  sftbench expand space.yaml          the entities of a space, with verdicts
  sftbench run space.yaml --entity 3  measure one of them
  sftbench sweep space.yaml           measure all of them, resumable
  sftbench status results             how far that is, and who measures what
  sftbench run --experiment finetune_full_benchmark-v1.0.0 --weights random \
    --set model_name=smollm2-135m --set number_gpus=0 \
    --set model_max_length=512 --set batch_size=1     measure without a file

sftbench COMMAND --help, or sftbench help COMMAND, has more of each.
Exit status: 0 measured, valid; 2 usage or input error; 3 invalid; 4 failed;
5 another process measures it; 6 cells remain; 130 interrupted.)";

void set_up_logging() {
  auto logger = spdlog::stderr_logger_mt("sftbench");
  logger->set_formatter(log_format("%H:%M:%S %l: %v", terminal_columns(STDERR_FILENO)));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

// "run" of "sftbench run SPACE": the innermost subcommand that was chosen.
const CLI::App* chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  for (auto subcommands = command->get_subcommands(); !subcommands.empty();
       subcommands = command->get_subcommands()) {
    command = subcommands.front();
  }
  return command;
}

std::string full_name(const CLI::App* command) {
  if (command->get_parent() == nullptr) return command->get_name();
  return full_name(command->get_parent()) + " " + command->get_name();
}

std::vector<std::string> option_names(const CLI::App* command) {
  std::vector<std::string> names;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command->get_subcommands(nullptr)) names.push_back(sub->get_name());
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_spelling(word, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

// Options of other programs, and what is meant.
constexpr std::pair<const char*, const char*> kOptionsOfOthers[] = {
    {"gpu", "gpu_model"},
    {"gpu_type", "gpu_model"},
    {"gpus", "number_gpus"},
    {"num_gpus", "number_gpus"},
    {"n_gpus", "number_gpus"},
    {"num_nodes", "number_nodes"},
    {"batch", "batch_size"},
    {"length", "model_max_length"},
    {"max_length", "model_max_length"},
    {"seq_len", "model_max_length"},
    {"seq_length", "model_max_length"},
    {"max_seq_len", "model_max_length"},
    {"sequence_length", "model_max_length"},
    {"context_length", "model_max_length"},
    {"lr", "learning_rate"},
    {"rank", "r"},
    {"lora_rank", "r"},
    {"lora_r", "r"},
    {"dtype", "torch_dtype"},
    {"precision", "torch_dtype"},
};

// "--set max_steps=VALUE" for "--max-steps", which somebody took for an option. Empty where nothing
// serves.
std::string option_instead(const std::string& option, const CLI::App& command) {
  if (command.get_option_no_throw("--set") == nullptr) return {};
  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "load_in_4bit" && command.get_option_no_throw("--method") != nullptr)
    return "--method qlora";
  for (const auto& [word, property] : kOptionsOfOthers) {
    if (name == word) name = property;
  }
  const std::vector<Experiment>& experiments = Catalog::shipped().experiments;
  const bool known = std::any_of(
      experiments.begin(), experiments.end(),
      [&name](const Experiment& experiment) { return experiment.find(name) != nullptr; });
  return known ? "--set " + name + "=VALUE" : std::string();
}

void print_error(const std::string& who, const std::string& message) {
  const std::string text = who + ": " + terminal_text(message);
  std::fprintf(stderr, "%s\n", wrapped(text, terminal_columns(STDERR_FILENO)).c_str());
}

// "--limit: given 2 times; expected once" for CLI11's "--limit: At Most 1 required but received 2".
std::string mismatch_message(const std::string& text) {
  const size_t colon = text.find(": ");
  const std::string received = " required but received ";
  if (const size_t times = text.find(received); text.find(": At Most 1 ") == colon) {
    return text.substr(0, colon) + ": given " + text.substr(times + received.size()) +
           " times; expected once";
  }
  const bool missing = text.size() > 8 && text.rfind(" missing") == text.size() - 8;
  return missing ? text.substr(0, colon) + ": its value is missing" : text;
}

// "--dry-run: found 'x'; expected no value" for "Could not convert: --dry-run = x". All that take
// values check them before CLI11 converts them.
std::string conversion_message(const std::string& text) {
  const std::string head = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (text.rfind(head, 0) != 0 || equals == std::string::npos) return text;
  return text.substr(head.size(), equals - head.size()) + ": found '" + text.substr(equals + 3) +
         "'; expected no value";
}

std::string message_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) return conversion_message(text);
  return dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr ? mismatch_message(text)
                                                                       : text;
}

// Texts of which nothing is something.
bool may_be_empty(const std::string& option) {
  return option == "--response-template" || option == "--response-delimiter" ||
         option == "--prompt";
}

// Most options take "" for "not given": `--output-dir "$UNSET"` would train and keep nothing.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::App* command = chosen_command(app); command != nullptr;
       command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      const auto& words = option->results();
      if (option->get_items_expected_max() == 0 || may_be_empty(option->get_name())) continue;
      if (std::count(words.begin(), words.end(), "") > 0)
        throw CLI::ValidationError(option->get_name() + " has an empty value");
    }
  }
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = chosen_command(app);
  const std::string name = full_name(command);
  const std::string unknown = unknown_word_message(app);
  const std::string message = unknown.empty() ? message_of(error) : unknown;
  if (command->get_name() == "run") {
    if (const std::optional<RankPlace> place = launcher_place(process_environment())) {
      return decline(*place, InputError("run: " + message));
    }
  }
  print_error(name, message);
  std::fprintf(stderr, "%s --help shows what there is\n", name.c_str());
  return kUsageExitCode;
}

}  // namespace

int report(const InputError& error) {
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    print_error("sftbench", to_string(diagnostic));
  }
  return kUsageExitCode;
}

std::string unknown_word_message(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) return {};
  const CLI::App* command = chosen_command(app);
  const std::string& word = unknown.front();
  if (word.size() > 1 && word.front() == '-') {
    const std::string option = word.substr(0, word.find('='));
    const std::string near = did_you_mean(option, option_names(command));
    const std::string instead = option_instead(option, *command);
    // recommend has short options of its own for GPUs and rows, which are nearer than a property.
    const bool asks_for_gpus = command->get_option_no_throw("--max-gpus") != nullptr;
    if (instead.empty() || (asks_for_gpus && !near.empty()))
      return "unknown option '" + option + "'" + near;
    return "unknown option '" + option + "'; expected " + instead;
  }
  const std::vector<std::string> subcommands = subcommand_names(command);
  if (subcommands.empty()) return "unexpected argument '" + word + "'";
  return "unknown command '" + word + "'" + did_you_mean(word, subcommands);
}

void build_app(CLI::App& app, CommonOptions& common, int& exit_code) {
  app.description("Measures what fine-tuning a language model costs: this way, on these devices.");
  app.name("sftbench");
  app.set_version_flag("--version", version_text(),
                       "print version, commit, build type and compiler");
  app.set_help_flag("-h", "print the main options");
  app.set_help_all_flag("--help", "print all options");
  app.add_option("--log-level", common.log_level,
                 "least that goes to stderr: trace, debug, info, warn, error, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->option_text("LEVEL=" + common.log_level);
  app.add_flag("--no-progress", common.no_progress, "no progress on stderr");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kExamples);
  app.formatter(help_format());
  app.parse_complete_callback([&app, &common] {
    refuse_empty_values(app);
    spdlog::set_level(spdlog::level::from_str(common.log_level));
  });

  add_run_command(app, common, exit_code);
  add_sweep_command(app, common, exit_code);
  add_status_command(app, exit_code);
  add_expand_command(app, exit_code);
  add_predict_command(app, exit_code);
  add_recommend_command(app, exit_code);
  add_frontier_command(app, exit_code);
  add_explain_command(app, exit_code);
  add_import_command(app, exit_code);
  add_report_command(app, exit_code);
  add_experiments_command(app, exit_code);
  add_models_command(app, exit_code);
  add_gpus_command(app, exit_code);
  add_dataset_command(app, common, exit_code);
  add_weights_command(app, common, exit_code);
  add_doctor_command(app, exit_code);
  add_arguments_command(app, exit_code);
  add_completion_command(app, exit_code);
  add_manual_command(app, exit_code);
  group_options(app);
}

namespace {

// Behind "sftbench help".
struct UnknownCommand {
  std::string of;  // what has no such command
  std::string message;
};

// CLI11 would show what help there is of the words before.
void require_commands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    if (word == "-h" || word == "--help") continue;
    const std::vector<std::string> known = subcommand_names(command);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      throw UnknownCommand{full_name(command),
                           "unknown command '" + word + "'" + did_you_mean(word, known)};
    }
    command = command->get_subcommand(word);
  }
}

// Options that went, and what serves instead.
void refuse_former_options(const std::vector<std::string>& words) {
  constexpr std::pair<const char*, const char*> kFormer[] = {
      {"--until-known",
       "--stop-at-precision 1, which ends each run early, or sftbench recommend, which names the "
       "best"},
      {"--distribute-one-rank",
       "two ranks: --ranks 2, or number_gpus 2, whose sharding and communication are measured"},
      {"--context-rotation", "none of it: keys and values travel in a ring"},
      {"--save-residuals", "bench/truth/residuals.sh, which a build with benchmarks runs"},
      {"--after", "--evidence with own measurements, which move a prediction"}};
  for (const std::string& word : words) {
    if (word == "--") return;
    for (const auto& [option, instead] : kFormer) {
      if (word.substr(0, word.find('=')) == option)
        throw InputError({{{}, 0, option, "is no option any more", instead, {}}});
    }
  }
}

// Options of version 0.1 under their present names, with a note, until version 0.3.
void take_old_names(std::vector<std::string>& words) {
  constexpr std::pair<const char*, const char*> kRenamed[] = {
      {"--claims", "--locking"},
      {"--stop-when-known", "--stop-at-precision"},
      {"--worst-batch-first", "--largest-batch-first"}};
  for (std::string& word : words) {
    if (word == "--") return;
    for (const auto& [old_name, name] : kRenamed) {
      const std::string_view given = std::string_view(word).substr(0, word.find('='));
      if (given != old_name) continue;
      spdlog::warn("{} is called {} now", old_name, name);
      word.replace(0, given.size(), name);
    }
  }
}

bool knows_option(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw(name) != nullptr) return true;
  const std::vector<const CLI::App*> below = app.get_subcommands(nullptr);
  return std::any_of(below.begin(), below.end(),
                     [&name](const CLI::App* command) { return knows_option(*command, name); });
}

// "--output-dir=" has an empty value. CLI11 would take the next word for it.
std::vector<std::string> with_empty_values(const CLI::App& app,
                                           const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    const bool is_option = word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1;
    const std::string name = word.substr(0, word.size() - 1);
    const bool is_empty = is_option && knows_option(app, name);
    all.push_back(is_empty ? name : word);
    if (is_empty) all.emplace_back();
  }
  return all;
}

// The command line as CLI11 takes it, the last word first. "sftbench help run" is "sftbench run
// --help", and "sftbench version" is "sftbench --version", as users of other programs type them.
std::vector<std::string> command_words(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  reveal_secrets(words);
  take_old_names(words);
  refuse_former_options(words);
  words = with_empty_values(app, words);
  if (words.front() == "help") {
    words.erase(words.begin());
    require_commands(app, words);
    words.push_back("--help");
  } else if (words.size() == 1 && words.front() == "version") {
    words.front() = "--version";
  }
  std::reverse(words.begin(), words.end());
  return words;
}

int run_command(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == kMeasureCommand) return measure_for_parent();
  if (argc == 2 && std::string_view(argv[1]) == kRankCommand) return rank_for_parent();
  if (argc == 2 && std::string_view(argv[1]) == kRehearseCommand) return rehearse_for_parent();
  if (argc == 2 && std::string_view(argv[1]) == kNodeCommand) return node_for_parent();
  if (argc > 2 && std::string_view(argv[1]) == kTetherCommand) return tether(argv + 2);
  int exit_code = 0;
  CommonOptions common;
  CLI::App app;
  build_app(app, common, exit_code);
  set_up_logging();
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that may not grow (ulimit -f) is an error like a full disk
  try {
    limit_libraries();
    if (argc == 1) {
      std::fputs(app.help().c_str(), stderr);
      return kUsageExitCode;
    }
    app.parse(command_words(app, argc, argv));
    return exit_code;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const UnknownCommand& error) {
    print_error(error.of, error.message);
    std::fprintf(stderr, "%s --help shows what there is\n", error.of.c_str());
    return kUsageExitCode;
  } catch (const CLI::ParseError& error) {
    try {
      return usage_error(app, error);
    } catch (const InputError& of_launcher) {
      return report(of_launcher);
    }
  } catch (const KeyBusy& error) {
    report(error);
    return kBusyExitCode;
  } catch (const InputError& error) {
    return report(error);
  } catch (const std::filesystem::filesystem_error& error) {  // a name too long, a closed folder
    return report(InputError(error.path1().string() + ": " + error.code().message()));
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "sftbench: %s: there is not enough memory for this\n",
                 std::string(to_string(ReasonCode::kOomHost)).c_str());
    return kFailedExitCode;
  } catch (const RunError& error) {
    print_error("sftbench", std::string(to_string(error.code())) + ": " + error.what());
    return sftbench::exit_code(makes_invalid(error.code()) ? Status::kInvalid : Status::kFailed);
  } catch (const std::exception& error) {
    // What CLI11 lets through of a flag with a number: --no-retry-failed=99999999999999999999
    if (std::string_view(error.what()) == "stoll")
      return report(
          InputError("a flag takes no number that large; leave out '=' and what follows"));
    std::fprintf(stderr, "sftbench: a bug, please report it with the command: %s\n",
                 terminal_text(error.what()).c_str());
    return kFailedExitCode;
  }
}

// What was printed may stand in a buffer still: that the disk is full shows when it is written out.
// A reader that has gone (EPIPE) has seen what it wanted.
int with_output_written(int code) {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || errno == EPIPE || code != 0) return code;
  const std::string reason = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  print_error("sftbench", "cannot write to the standard output" + reason);
  return kUsageExitCode;
}

}  // namespace

int run_app(int argc, char** argv) {
  return with_output_written(run_command(argc, argv));
}

}  // namespace sftbench
