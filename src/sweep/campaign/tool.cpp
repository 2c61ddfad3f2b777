#include "campaign/tool.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "sftbench/base/owned_fd.h"

namespace sftbench {
namespace {

// Neither side ever waits for the other, however much is said.
OwnedFd text_file(const std::string& text) {
  OwnedFd file(::memfd_create("sftbench-tool", MFD_CLOEXEC));
  if (!file) throw std::system_error(errno, std::generic_category(), "memfd_create");
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "write");
    }
    if (written > 0) done += static_cast<size_t>(written);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string text_in(const OwnedFd& file) {
  std::string text(static_cast<size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

int spawn(pid_t& pid, const std::vector<std::string>& words, const OwnedFd& in, const OwnedFd& out,
          const OwnedFd& err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error =
      ::posix_spawnp(&pid, arguments.front(), &actions, &attributes, arguments.data(), ::environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

ToolResult run_tool(const std::vector<std::string>& words, const std::string& input) {
  const OwnedFd in = text_file(input);
  const OwnedFd out = text_file({});
  const OwnedFd err = text_file({});
  ToolResult result;
  pid_t pid = -1;
  const int error = spawn(pid, words, in, out, err);
  if (error == ENOENT) {
    result.found = false;
    return result;
  }
  if (error != 0) throw std::system_error(error, std::generic_category(), words.front());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = text_in(out);
  result.err = text_in(err);
  return result;
}

}  // namespace sftbench
