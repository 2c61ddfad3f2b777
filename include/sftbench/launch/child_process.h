// A process group of its own with a new process of an executable as its leader: how it is started,
// asked to end, and waited for without blocking.
//
// The parent may have any number of threads: posix_spawn copies nothing and runs nothing of it in
// the child. All descriptors that are not named here are closed there (O_CLOEXEC throughout).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

struct ProcessSpec {
  std::filesystem::path executable;
  std::vector<std::string> arguments;                            // behind its name
  std::vector<std::pair<std::string, std::string>> environment;  // over this process's own
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;         // -1: where the output goes
  std::vector<int> inherited_fds;  // under the same numbers
};

class ChildProcess {
 public:
  // std::system_error when it cannot be started.
  explicit ChildProcess(const ProcessSpec& spec);
  // Kills what is left of the group and waits for the leader.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int pidfd() const {
    return pidfd_.get();
  }  // readable when the leader has ended; -1: no such thing

  void signal_group(int signal) const;

  // True once the leader has ended: then the group's other members have been killed and
  // wait_status() is what waitpid() gave.
  bool ended();
  int wait_status() const { return wait_status_; }

 private:
  pid_t pid_ = -1;
  OwnedFd pidfd_;
  bool reaped_ = false;
  int wait_status_ = 0;
};

}  // namespace sftbench
