#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <list>
#include <memory>
#include <sstream>
#include <system_error>

#include "launch/child_files.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/command_text.h"
#include "sftbench/base/error.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/launch/child_process.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/launch/node_launch.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr double kNoTime = std::numeric_limits<double>::infinity();
// After one host has failed: for the ranks to agree on the cause, and for rank 0 to write it.
constexpr double kHostsTellSeconds = 25;
constexpr int kUnreachable = 255;  // ssh's own status
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr int kFailed = 4;  // cli/app.h
constexpr int kFirstPort = 20000, kPorts = 10000;

constexpr std::array kPassedOn = {"SFTBENCH_", "NCCL_", "GLOO_", "OMP_", "MKL_", "HF_", "MLFLOW_"};
constexpr const char* kLauncherVariable = "SFTBENCH_NODE_LAUNCHER";
constexpr const char* kHostsVariable = "SFTBENCH_NODE_HOSTS";
constexpr const char* kHostfileVariable = "SFTBENCH_NODE_HOSTFILE";
constexpr const char* kSecret = "SFTBENCH_JOB_SECRET";
constexpr const char* kSecretFile = "SFTBENCH_JOB_SECRET_FILE";

// srun's, mpirun's or ssh's process.
struct Launched {
  std::string host;  // ssh's
  std::unique_ptr<ChildProcess> process;
  OwnedFd task;      // standard input of the far side, which ends with it
  OwnedFd errors;    // read here, passed on
  std::string line;  // that is not whole yet
  std::string last_line;
  bool up = false;
  bool no_program = false;
  bool ended = false;
  int status = 0;
};

// Of what is set here: what ranks read, and what a rank elsewhere does not have by itself.
std::vector<std::pair<std::string, std::string>> passed_on(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& variable : environment) {
    const bool wanted = std::any_of(kPassedOn.begin(), kPassedOn.end(), [&](const char* prefix) {
      return variable.first.starts_with(prefix);
    });
    if (wanted) all.emplace_back(variable);
  }
  if (environment.count(kSecret) == 0 && environment.count(kSecretFile) == 0) {
    all.emplace_back(kSecret, random_text());
  }
  all.emplace_back(kOnNodesVariable, "1");
  return all;
}

class NodeRun {
 public:
  NodeRun(const NodeLaunch& launch, std::vector<std::string> words, const Environment& environment,
          NodeOutput output)
      : launch_(launch),
        words_(std::move(words)),
        environment_(environment),
        output_(std::move(output)),
        ranks_environment_(passed_on(environment)) {
    hide_secrets(words_, ranks_environment_);
    if (launch.launcher == "ssh") {
      start_by_ssh();
    } else {
      start(launch.launcher == "srun" ? srun_words() : mpirun_words(), {}, ranks_environment_, {});
    }
  }

  int follow(int interrupt_fd) {
    while (!all_ended()) {
      pump(interrupt_fd);
      for (Launched& launched : all_) {
        if (launched.ended || !launched.process->ended()) continue;
        read_errors(launched);
        take_end(launched);
      }
      if (steady_seconds() >= act_at_s_) end_all();
    }
    return interrupted_ ? kInterruptedExitCode : exit_status();
  }

 private:
  // --- the start ---

  std::vector<std::string> srun_words() const {
    std::vector<std::string> words = {"srun", "--nodes=" + std::to_string(launch_.nodes),
                                      "--ntasks-per-node=" + std::to_string(launch_.ranks_per_node),
                                      "--kill-on-bad-exit=1", "--input=none"};
    if (launch_.on_gpus) words.emplace_back("--gpu-bind=none");  // ranks choose theirs
    return with_command(std::move(words));
  }

  std::vector<std::string> mpirun_words() const {
    const std::string each = std::to_string(launch_.ranks_per_node);
    std::string hosts;
    for (const std::string& host : launch_.hosts) {
      hosts += (hosts.empty() ? "" : ",") + host + ":" + each;
    }
    std::vector<std::string> words = {"mpirun",
                                      "-np",
                                      std::to_string(launch_.ranks_per_node * launch_.nodes),
                                      "--host",
                                      hosts,
                                      "--map-by",
                                      "ppr:" + each + ":node",
                                      "--bind-to",
                                      "none"};
    for (const auto& [name, value] : ranks_environment_) {
      words.insert(words.end(), {"-x", name});
    }
    // mpirun is not on the first host for certain, and ranks would look for rank 0 where it is.
    if (environment_.count("MASTER_ADDR") == 0) {
      words.insert(words.end(), {"-x", "MASTER_ADDR=" + launch_.hosts.front()});
    }
    return with_command(std::move(words));
  }

  std::vector<std::string> with_command(std::vector<std::string> words) const {
    words.push_back(own_program());
    words.insert(words.end(), words_.begin(), words_.end());
    return words;
  }

  void start_by_ssh() {
    NodeTask task;
    task.words = words_;
    task.directory = fs::current_path().string();
    task.ranks = launch_.ranks_per_node;
    task.environment = ranks_environment_;
    const unsigned long drawn = std::stoul(random_text().substr(0, 8), nullptr, 16);
    const auto say = [&task, this](const std::string& name, const std::string& value) {
      if (environment_.count(name) == 0) task.environment.emplace_back(name, value);
    };
    const std::string& first = launch_.hosts.front();
    say("MASTER_ADDR", first.substr(first.find('@') + 1));
    say("MASTER_PORT", std::to_string(kFirstPort + static_cast<int>(drawn % kPorts)));
    task.environment.emplace_back("WORLD_SIZE",
                                  std::to_string(launch_.nodes * launch_.ranks_per_node));
    for (const std::string& host : launch_.hosts) {
      start(ssh_words(host), to_text(task) + "\n", {}, host);
      task.first_rank += task.ranks;
    }
  }

  std::vector<std::string> ssh_words(const std::string& host) const {
    const auto own = environment_.find("SFTBENCH_SSH");
    std::istringstream given(own == environment_.end() ? "ssh" : own->second);
    std::vector<std::string> words;
    for (std::string word; given >> word;) words.push_back(word);
    words.insert(words.end(), {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o",
                               "ServerAliveInterval=15", host,
                               "exec " + shell_quoted(own_program()) + " " + kNodeCommand});
    return words;
  }

  void start(std::vector<std::string> words, const std::string& task,
             const std::vector<std::pair<std::string, std::string>>& environment,
             const std::string& host) {
    std::array<int, 2> input{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe");
    }
    const OwnedFd read_end(input[0]);
    Launched launched;
    launched.task = OwnedFd(input[1]);
    launched.host = host;
    Pipe errors = make_pipe();
    launched.errors = std::move(errors.read_end);
    words.insert(words.begin(), kTetherCommand);
    launched.process =
        std::make_unique<ChildProcess>(ProcessSpec{.executable = "/proc/self/exe",
                                                   .arguments = std::move(words),
                                                   .environment = environment,
                                                   .standard_input = read_end.get(),
                                                   .standard_output = output_.standard_output,
                                                   .standard_error = errors.write_end.get(),
                                                   .inherited_fds = {}});
    // A pipe takes 64 KiB before anybody reads.
    if (!task.empty() && ::write(launched.task.get(), task.data(), task.size()) !=
                             static_cast<ssize_t>(task.size())) {
      throw std::system_error(errno, std::generic_category(), "write to ssh");
    }
    all_.push_back(std::move(launched));
  }

  // --- what they say ---

  void pump(int interrupt_fd) {
    std::vector<pollfd> fds = {{interrupt_fd, POLLIN, 0}};
    for (const Launched& launched : all_) {
      if (launched.errors) fds.push_back({launched.errors.get(), POLLIN, 0});
      if (!launched.ended) fds.push_back({launched.process->pidfd(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 200);
    for (Launched& launched : all_) read_errors(launched);
    signalfd_siginfo signal;
    if ((fds.front().revents & POLLIN) != 0 && ::read(interrupt_fd, &signal, sizeof signal) > 0) {
      interrupted_ = true;
      end_all();
    }
  }

  void read_errors(Launched& launched) {
    std::array<char, 16384> buffer;
    while (launched.errors) {
      const ssize_t got = ::read(launched.errors.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      if (got == 0) launched.errors.close();
      launched.line.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0 && !launched.line.empty()) launched.line += '\n';
      for (size_t end; (end = launched.line.find('\n')) != std::string::npos;) {
        take_line(launched, launched.line.substr(0, end));
        launched.line.erase(0, end + 1);
      }
    }
  }

  // ssh ends its own lines with a carriage return, too, as for a terminal in raw mode.
  void take_line(Launched& launched, std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line == kNodeIsUp) {
      launched.up = true;
      return;
    }
    for (const char* sign : {"execve(): ", "unable to find the specified executable",
                             "could not access or execute an executable"}) {
      launched.no_program = launched.no_program || line.find(sign) != std::string::npos;
    }
    launched.last_line = line;
    say(line);
  }

  // Another host's text does not command this terminal.
  void say(const std::string& line) const {
    std::fprintf(stderr, "%s\n", terminal_text(line).c_str());
    output_.on_line(line);
  }

  // --- how they end ---

  bool all_ended() const {
    return std::all_of(all_.begin(), all_.end(), [](const Launched& one) { return one.ended; });
  }

  void take_end(Launched& launched) {
    launched.ended = true;
    const int status = launched.process->wait_status();
    launched.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (launched.status == 0 || interrupted_ || ending_) return;
    const bool began = launch_.launcher != "ssh" || launched.up;
    say_what_happened(launched);
    act_at_s_ = std::min(act_at_s_, steady_seconds() + (began ? kHostsTellSeconds : 0));
  }

  void say_what_happened(const Launched& launched) const {
    const std::string host = launched.host.empty() ? "a node" : launched.host;
    std::string text;
    if (launched.no_program || (!launched.up && launched.status == kNotFound)) {
      text = "the program " + own_program() + " is missing on " + host +
             ": all hosts need it at the same path";
    } else if (!launched.up && launched.status == kNotExecutable) {
      text = host + " cannot execute " + own_program();
    } else if (!launched.host.empty() && launched.status == kUnreachable) {
      text = launched.up
                 ? "the connection to " + host + " was lost"
                 : host + " cannot be reached by ssh, or lets nobody in without a password" +
                       (launched.last_line.empty() ? "" : ": " + launched.last_line);
    } else if (launched.status >= 128) {
      text = (launched.host.empty() ? launch_.launcher : "a rank on " + host) +
             " ended with status " + std::to_string(launched.status);
    }
    if (!text.empty()) say("sftbench: " + text);
  }

  // Asks all to end; the second time there is no more asking.
  void end_all() {
    const int signal = ending_ ? SIGKILL : SIGTERM;
    act_at_s_ = ending_ ? kNoTime : steady_seconds() + output_.end_s;
    ending_ = true;
    for (Launched& launched : all_) {
      if (launched.ended) continue;
      launched.task.close();
      // ssh ends at once and could not bring back what rank 0 has to say: the end of its input
      // asks.
      if (signal == SIGTERM && launch_.launcher == "ssh") continue;
      launched.process->signal_group(signal);
    }
  }

  // Rank 0's, in so far as a launcher passes it on.
  int exit_status() const {
    const int first = all_.front().status;
    const bool ours = first >= 0 && first <= 6 && first != 1;
    const bool all_well =
        std::all_of(all_.begin(), all_.end(), [](const Launched& one) { return one.status == 0; });
    if (all_well) return 0;
    return ours && first != 0 ? first : kFailed;
  }

  const NodeLaunch& launch_;
  std::vector<std::string> words_;
  const Environment& environment_;
  const NodeOutput output_;
  std::vector<std::pair<std::string, std::string>> ranks_environment_;
  std::list<Launched> all_;
  double act_at_s_ = kNoTime;
  bool ending_ = false;
  bool interrupted_ = false;
};

}  // namespace

std::string own_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? "sftbench" : program.string();
}

int run_on_nodes(const NodeLaunch& launch, const std::vector<std::string>& words,
                 const Environment& environment, int interrupt_fd, NodeOutput output) {
  return NodeRun(launch, words, environment, std::move(output)).follow(interrupt_fd);
}

void pass_on(const NodeOptions& options) {
  ::setenv(kLauncherVariable, options.launcher.c_str(), 1);
  ::setenv(kHostsVariable, options.hosts.c_str(), 1);
  ::setenv(kHostfileVariable, options.hostfile.c_str(), 1);
}

NodeOptions passed_node_options(const Environment& environment) {
  const auto value = [&environment](const char* name, const char* otherwise) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string(otherwise) : found->second;
  };
  return {value(kLauncherVariable, "auto"), value(kHostsVariable, ""),
          value(kHostfileVariable, "")};
}

}  // namespace sftbench
