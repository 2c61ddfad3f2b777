#include "sftbench/launch/child_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string_view>
#include <system_error>

namespace sftbench {
namespace {

void require(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

// The C structures of posix_spawn, made and unmade.
struct Actions {
  posix_spawn_file_actions_t value{};
  Actions() { require(posix_spawn_file_actions_init(&value), "posix_spawn_file_actions_init"); }
  ~Actions() { posix_spawn_file_actions_destroy(&value); }
  // Onto its own number: inherited (glibc 2.29 and newer).
  void put(int fd, int as) {
    require(posix_spawn_file_actions_adddup2(&value, fd, as), "posix_spawn");
  }
};

struct Attributes {
  posix_spawnattr_t value{};
  Attributes() {
    require(posix_spawnattr_init(&value), "posix_spawnattr_init");
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&value, &all);
    posix_spawnattr_setsigmask(&value, &none);
    posix_spawnattr_setpgroup(&value, 0);
    posix_spawnattr_setflags(
        &value, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~Attributes() { posix_spawnattr_destroy(&value); }
};

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::map<std::string_view, std::string_view> changed(changes.begin(), changes.end());
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (changed.count(text.substr(0, text.find('='))) == 0) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changed) {
    merged.push_back(std::string(name) + "=" + std::string(value));
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const ProcessSpec& spec) {
  Actions actions;
  actions.put(spec.standard_input, STDIN_FILENO);
  actions.put(spec.standard_output, STDOUT_FILENO);
  actions.put(spec.standard_error < 0 ? spec.standard_output : spec.standard_error, STDERR_FILENO);
  for (const int fd : spec.inherited_fds) actions.put(fd, fd);
  const Attributes attributes;
  std::vector<std::string> arguments = {"sftbench"};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> environment = merged_environment(spec.environment);
  require(posix_spawn(&pid_, spec.executable.c_str(), &actions.value, &attributes.value,
                      pointers(arguments).data(), pointers(environment).data()),
          spec.executable.c_str());
  // Nobody has waited for it yet, so the number is that process's. (glibc 2.36 declares pidfd_open
  // without C linkage.)
  pidfd_ = OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  signal_group(SIGKILL);
  while (::waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal_group(int signal) const {
  ::kill(-pid_, signal);
}

bool ChildProcess::ended() {
  if (reaped_) return true;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != ECHILD) return false;
    reaped_ = true;  // somebody else waited for it: how it ended is not known
    return true;
  }
  if (info.si_pid == 0) return false;
  // While the leader is not waited for, its number is no other group's.
  signal_group(SIGKILL);
  ::waitpid(pid_, &wait_status_, 0);
  reaped_ = true;
  return true;
}

}  // namespace sftbench
