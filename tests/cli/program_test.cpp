// The driver of the other tests, and what holds for the executable as a whole.
#include "cli/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "sftbench/base/clock.h"
#include "sftbench/cli/app.h"

namespace sftbench {

namespace fs = std::filesystem;

Program::Program(std::vector<std::string> arguments, std::map<std::string, std::string> environment,
                 fs::path directory)
    : arguments_(std::move(arguments)), directory_(std::move(directory)) {
  environment_ = {{"SFTBENCH_ENGINE", SFTBENCH_FAKE_ENGINE},
                  {"SFTBENCH_HOME", SFTBENCH_SOURCE_DIR},
                  {"XDG_DATA_HOME", testing::TempDir() + "/cli_data"},
                  {"XDG_CACHE_HOME", testing::TempDir() + "/cli_cache"},
                  {"HF_HOME", testing::TempDir() + "/cli_hub"},
                  {"FAKE_NVML_GPUS", ""},
                  {"SFTTRAINER_PARAMETERS_FILE", ""},
                  {"CUDA_VISIBLE_DEVICES", ""}};
  for (auto& [name, value] : environment) environment_[name] = value;
}

void Program::start() {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe(out.data()) != 0 || pipe(err.data()) != 0) return;
  begin_s_ = steady_seconds();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const int end : {out[0], out[1], err[0], err[1]}) close(end);
    for (const auto& [name, value] : environment_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
    if (!directory_.empty() && chdir(directory_.c_str()) != 0) _exit(126);
    if (file_limit_bytes_) {
      const rlimit limit = {*file_limit_bytes_, *file_limit_bytes_};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::string executable = SFTBENCH_EXECUTABLE;
    std::vector<char*> words = {executable.data()};
    for (std::string& argument : arguments_) words.push_back(argument.data());
    words.push_back(nullptr);
    execv(executable.c_str(), words.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

std::string Program::read_err_until(const std::string& text) {
  std::array<char, 4096> buffer{};
  while (err_text_.find(text) == std::string::npos) {
    const ssize_t got = read(err_, buffer.data(), buffer.size());
    if (got <= 0) break;
    err_text_.append(buffer.data(), static_cast<size_t>(got));
  }
  return err_text_;
}

ProgramResult Program::finish() {
  ProgramResult result;
  std::array<pollfd, 2> ends = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&result.out, &err_text_};
  std::array<char, 65536> buffer{};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    poll(ends.data(), ends.size(), -1);
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t got = read(ends[i].fd, buffer.data(), buffer.size());
      if (got > 0) {
        texts[i]->append(buffer.data(), static_cast<size_t>(got));
      } else {
        close(ends[i].fd);
        ends[i].fd = -1;
      }
    }
  }
  int status = 0;
  rusage usage{};
  wait4(pid_, &status, 0, &usage);
  result.wall_s = steady_seconds() - begin_s_;
  result.peak_rss_kib = usage.ru_maxrss;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.err = err_text_;
  return result;
}

ProgramResult run_program(std::vector<std::string> arguments,
                          std::map<std::string, std::string> environment,
                          const fs::path& directory) {
  Program program(std::move(arguments), std::move(environment), directory);
  program.start();
  return program.finish();
}

void configure_small_dataset(const std::filesystem::path& folder) {
  const std::filesystem::path data = folder / "data";
  std::filesystem::create_directory(data);
  std::ofstream(data / "news-tokens-16384plus-entries-4096.jsonl") << R"({"output": "some text"})"
                                                                   << "\n";
  std::ofstream(folder / "config.yaml")
      << "actuatorIdentifier: SFTTrainer\nparameters: {data_directory: " << data.string() << "}\n";
}

fs::path fresh_folder(const std::string& name) {
  // Tests run side by side: each has its own, though the fixture asks for the same name in all.
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder =
      fs::path(testing::TempDir()) /
      ("cli_test_" + std::string(test->test_suite_name()) + "." + test->name()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::vector<std::string> file_names_below(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ProgramTest, HelpIsFastAndSmallBecauseItLoadsNoLibtorch) {
  double best_wall_s = 1e9;
  long best_rss_kib = 1 << 30;
  for (int i = 0; i < 10; ++i) {  // the machine that runs the tests may be busy
    const ProgramResult help = run_program({"--help"});
    ASSERT_EQ(help.status, 0);
    best_wall_s = std::min(best_wall_s, help.wall_s);
    best_rss_kib = std::min(best_rss_kib, help.peak_rss_kib);
  }
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(best_wall_s, 0.050);
  EXPECT_LE(best_rss_kib, 20 * 1024);
#endif
}

TEST(ProgramTest, HelpNamesEveryCommandAndShowsExamples) {
  const ProgramResult help = run_program({"--help"});
  for (const char* command :
       {"run", "expand", "experiments", "models", "gpus", "dataset", "doctor", "completion"}) {
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command + " ")) << command;
  }
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_EQ(help.err, "");
}

TEST(ProgramTest, VersionSaysWhatTheProgramIs) {
  const ProgramResult version = run_program({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, testing::ContainsRegex("^sftbench [0-9.]+ \\(commit [0-9a-z-]+, .*GCC"));
}

TEST(ProgramTest, HelpAndVersionAreCommandsToo) {
  EXPECT_EQ(run_program({"help"}).out, run_program({"--help"}).out);
  EXPECT_EQ(run_program({"help", "run"}).out, run_program({"run", "--help"}).out);
  EXPECT_EQ(run_program({"version"}).out, run_program({"--version"}).out);
}

TEST(ProgramTest, HelpOnWhatIsNoCommandIsAUsageErrorWithTheNearestName) {
  const ProgramResult typo = run_program({"help", "rnu"});
  EXPECT_EQ(typo.status, run_program({"rnu"}).status);
  EXPECT_EQ(typo.status, 2);
  EXPECT_EQ(typo.out, "");
  EXPECT_EQ(typo.err,
            "sftbench: unknown command 'rnu'; did you mean 'run'?\n"
            "sftbench --help shows what there is\n");
  EXPECT_THAT(run_program({"help", "dataset", "txt"}).err,
              HasSubstr("sftbench dataset: unknown command 'txt'; did you mean 'text'?"));
  EXPECT_EQ(run_program({"help", "dataset", "text"}).out,
            run_program({"dataset", "text", "--help"}).out);
  EXPECT_EQ(run_program({"help", "run", "SPACE"}).status, 2);
}

const CLI::App* subcommand_of(const CLI::App& command, const std::string& name) {
  for (const CLI::App* sub : command.get_subcommands(nullptr))
    if (sub->get_name() == name) return sub;
  return nullptr;
}

// Options of the examples exist in the commands that they stand behind.
void expect_known_options(const CLI::App& program, const std::string& examples) {
  std::istringstream words(examples);
  const CLI::App* command = nullptr;
  for (std::string word; words >> word;) {
    if (word == "sftbench") {
      command = &program;
    } else if (command == nullptr) {
      continue;
    } else if (const CLI::App* sub = subcommand_of(*command, word)) {
      command = sub;
    } else if (word.starts_with("--")) {
      const std::string option = word.substr(0, word.find_first_of("=,"));
      EXPECT_TRUE(command->get_option_no_throw(option) != nullptr ||
                  program.get_option_no_throw(option) != nullptr)
          << option << " of an example of sftbench " << command->get_name();
    }
  }
}

using Visit = void (*)(const CLI::App& program, const CLI::App& command,
                       std::vector<std::string> words);

// Every command and subcommand, the hidden ones too, with the words that name it.
void visit_all(const CLI::App& program, const CLI::App& command, Visit visit,
               const std::vector<std::string>& words = {}) {
  visit(program, command, words);
  for (const CLI::App* sub : command.get_subcommands(nullptr)) {
    std::vector<std::string> below = words;
    below.push_back(sub->get_name());
    visit_all(program, *sub, visit, below);
  }
}

void expect_help_of(const CLI::App& program, const CLI::App& /*command*/,
                    std::vector<std::string> words) {
  words.emplace_back("--help");
  const std::string help = run_program(words).out;
  const size_t examples = help.rfind("\nExample");
  ASSERT_NE(examples, std::string::npos) << help;
  expect_known_options(program, help.substr(examples));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  if (words.size() == 1) return;  // the program's own ends with the exit statuses
  std::string name = "sftbench";
  for (size_t i = 0; i + 1 < words.size(); ++i) name += " " + words[i];
  EXPECT_THAT(help.substr(examples), HasSubstr(name)) << "examples of its own";
  EXPECT_EQ(help.substr(examples + 1).find("\n\n"), std::string::npos) << "and nothing after them";
}

TEST(ProgramTest, EveryCommandsHelpEndsWithExamplesAndFitsATerminal) {
  int exit_code = 0;
  CommonOptions common;
  CLI::App app;
  build_app(app, common, exit_code);
  visit_all(app, app, expect_help_of);
}

// One screen for -h, which names options that the command has.
void expect_first_screen_of(const CLI::App& program, const CLI::App& command,
                            std::vector<std::string> words) {
  words.emplace_back("-h");
  const ProgramResult screen = run_program(words);
  EXPECT_EQ(screen.status, 0);
  if (words.front() == "arguments") return;  // it is the list of them
  EXPECT_LE(std::count(screen.out.begin(), screen.out.end(), '\n'), 20) << screen.out;
  std::istringstream lines(screen.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  std::vector<const CLI::App*> commands = {&command};
  for (const CLI::App* sub : command.get_subcommands(nullptr)) commands.push_back(sub);
  for (const CLI::App* other : program.get_subcommands(nullptr)) {
    if (screen.out.find("sftbench " + other->get_name() + " ") != std::string::npos)
      commands.push_back(other);
  }
  std::istringstream found(screen.out);
  for (std::string word; found >> word;) {
    const std::string option = word.substr(0, word.find_first_of("=,.)"));
    if (!option.starts_with("--") || option == "--help") continue;
    EXPECT_TRUE(std::any_of(
        commands.begin(), commands.end(),
        [&](const CLI::App* one) { return one->get_option_no_throw(option) != nullptr; }))
        << option << " on the first screen of " << command.get_name();
  }
}

TEST(ProgramTest, EveryCommandHasAFirstScreen) {
  int exit_code = 0;
  CommonOptions common;
  CLI::App app;
  build_app(app, common, exit_code);
  visit_all(app, app, expect_first_screen_of);
}

TEST(ProgramTest, TheMainJobStandsFirst) {
  const std::string screen = run_program({"-h"}).out;
  EXPECT_LT(screen.find("run --model DIR --data FILE"), screen.find("sweep SPACE"));
  EXPECT_NE(screen, run_program({"--help"}).out);
  EXPECT_EQ(run_program({}).err, screen);
}

TEST(ProgramTest, OldNamesOfOptionsWorkWithANote) {
  const std::vector<std::pair<std::string, std::string>> renamed = {
      {"--worst-batch-first", "--largest-batch-first"},
      {"--stop-when-known=5", "--stop-at-precision=5"}};
  for (const auto& [old_name, name] : renamed) {
    const auto planned = [](const std::string& option) {
      return run_program({"run", "--experiment", "full", "--weights", "random", "--dry-run",
                          "--set", "model_name=smollm2-135m", "--set", "number_gpus=0", "--set",
                          "model_max_length=64", "--set", "batch_size=1", option});
    };
    const ProgramResult old_result = planned(old_name);
    EXPECT_EQ(old_result.status, 0) << old_result.err;
    EXPECT_EQ(old_result.out, planned(name).out);
    EXPECT_THAT(old_result.err, HasSubstr(old_name.substr(0, old_name.find('=')) + " is called " +
                                          name.substr(0, name.find('=')) + " now"));
  }
  EXPECT_THAT(run_program({"sweep", "--claims", "lease"}).err,
              HasSubstr("--claims is called --locking now"));
}

TEST(ProgramTest, TrainingArgumentsStandOnceInTheHelp) {
  const std::string all = run_program({"help", "arguments"}).out;
  EXPECT_EQ(run_program({"arguments"}).out, all);
  for (const char* option : {"--learning-rate", "--lora-targets", "--template", "--mask"})
    EXPECT_THAT(all, HasSubstr(option));
  for (const char* command : {"run", "sweep", "predict", "frontier", "expand", "status"}) {
    const std::string help = run_program({command, "--help"}).out;
    EXPECT_THAT(help, testing::Not(HasSubstr("--lora-targets NAMES"))) << command;
    EXPECT_EQ(help.find("sftbench help arguments") != std::string::npos,
              std::string(command) != "status")
        << command;
  }
  EXPECT_EQ(run_program({"arguments", "--lora-r", "4"}).status, 2);
}

TEST(ProgramTest, AStandardOutputThatTakesNoMoreIsAnError) {
  const fs::path err = fresh_folder("full_output") / "err";
  for (const std::string words :
       {"models", "gpus", "experiments", "dataset list", "completion bash", "--help", "run --help",
        "doctor", "recommend --model smollm2-135m --entries 100"}) {
    const std::string command =
        std::string(SFTBENCH_EXECUTABLE) + " " + words + " >/dev/full 2>" + err.string();
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2) << words;
    std::ifstream file(err);
    const std::string said((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(said, HasSubstr("cannot write to the standard output")) << words;
  }
  const std::string early =
      std::string(SFTBENCH_EXECUTABLE) + " models 2>" + err.string() + " | head -1 >/dev/null";
  EXPECT_EQ(std::system(early.c_str()), 0);
  EXPECT_EQ(fs::file_size(err), 0) << "a reader that has seen enough is no error";
}

TEST(ProgramTest, ValuesHaveNearNames) {
  const auto error = [](const std::string& setting) {
    return run_program({"expand", "--experiment", "finetune_full_benchmark-v1.0.0", "--set",
                        "number_gpus=1", "--set", "model_max_length=64", "--set", "batch_size=1",
                        "--set", setting})
        .err;
  };
  EXPECT_THAT(error("model_name=smollm2"), HasSubstr("did you mean 'smollm2-135m'?"));
  EXPECT_THAT(error("optim=adam"), HasSubstr("did you mean 'adamw_"));
  const auto noted = [](const std::string& gpu) {
    return run_program({"expand", "--experiment", "finetune_full_benchmark-v1.0.0", "--set",
                        "number_gpus=1", "--set", "model_max_length=64", "--set", "batch_size=1",
                        "--set", "model_name=smollm2-135m", "--set", "gpu_model=" + gpu})
        .err;
  };
  EXPECT_THAT(noted("A100"), HasSubstr("did you mean 'NVIDIA-A100-"));
  EXPECT_THAT(noted("NVIDIA-A100"), HasSubstr("did you mean 'NVIDIA-A100-"));
}

TEST(ProgramTest, AnExperimentIsKnownByTheBeginningOfItsName) {
  std::vector<std::string> words = {"run",       "--experiment", "finetune_lora",
                                    "--weights", "random",       "--dry-run"};
  for (const char* assignment :
       {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64", "batch_size=1"}) {
    words.insert(words.end(), {"--set", assignment});
  }
  EXPECT_EQ(run_program(words).status, 0);
  words[2] = "lora";
  EXPECT_EQ(run_program(words).status, 0);
  words[2] = "finetune_f";  // the beginning of two
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--experiment: 'finetune_f' is the beginning of several names; expected "
                        "more of one of finetune_full_benchmark-v1.0.0, "
                        "finetune_full_stability-v1.0.0"));
}

TEST(ProgramTest, WithoutACommandItShowsHelpAndIsAUsageError) {
  const ProgramResult result = run_program({});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, run_program({"-h"}).out);
}

struct UsageError {
  std::vector<std::string> words;
  const char* message;
};

class UsageErrorTest : public testing::TestWithParam<UsageError> {};

TEST_P(UsageErrorTest, NamesTheWordAndTheNearestOne) {
  const ProgramResult result = run_program(GetParam().words);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Words, UsageErrorTest,
    testing::Values(
        UsageError{{"rnu"}, "sftbench: unknown command 'rnu'; did you mean 'run'?\n"},
        UsageError{{"frobnicate"}, "sftbench: unknown command 'frobnicate'\n"},
        UsageError{{"dataset", "txet"},
                   "sftbench dataset: unknown command 'txet'; did you mean 'text'?\n"},
        UsageError{{"run", "--ouput", "x"},
                   "sftbench run: unknown option '--ouput'; did you mean '--output'?\n"},
        UsageError{{"run", "--no-progres"},
                   "sftbench run: unknown option '--no-progres'; did you mean '--no-progress'?\n"},
        UsageError{{"run", "--wieghts=random"},
                   "sftbench run: unknown option '--wieghts'; did you mean '--weights'?\n"},
        UsageError{{"run", "--max-steps", "3"},
                   "sftbench run: unknown option '--max-steps'; expected --set max_steps=VALUE\n"},
        UsageError{{"predict", "--gpu", "L4"},
                   "sftbench predict: unknown option '--gpu'; expected --set gpu_model=VALUE\n"},
        UsageError{
            {"run", "--seq-len=512"},
            "sftbench run: unknown option '--seq-len'; expected --set model_max_length=VALUE\n"},
        UsageError{{"predict", "--load-in-4bit"},
                   "sftbench predict: unknown option '--load-in-4bit'; expected --method qlora\n"},
        UsageError{{"recommend", "--gpu", "L4"},
                   "sftbench recommend: unknown option '--gpu'; did you mean '--gpus'?\n"},
        UsageError{
            {"sweep", "--until-known"},
            "sftbench: --until-known: is no option any more; expected --stop-at-precision 1, "
            "which ends each run early, or sftbench recommend, which names the best\n"},
        UsageError{{"--hlep"}, "sftbench: unknown option '--hlep'; did you mean '--help'?\n"},
        UsageError{{"run", "a.yaml", "b.yaml"}, "sftbench run: unexpected argument 'b.yaml'\n"},
        UsageError{{"--log-level", "chatty", "doctor"},
                   "sftbench doctor: --log-level: chatty not in"},
        UsageError{
            {"doctor", "--format", "tabel"},
            "sftbench: --format: unknown format 'tabel'; expected one of table, json, jsonl, "
            "csv, md; did you mean 'table'?\n"},
        UsageError{
            {"completion", "bsh"},
            "sftbench: completion: unknown shell 'bsh'; expected one of bash, zsh, fish; did "
            "you mean 'bash'?\n"}));

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
