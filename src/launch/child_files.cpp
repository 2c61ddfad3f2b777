#include "launch/child_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

[[noreturn]] void failed(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

OwnedFd anonymous_file(const char* name, const std::string& content) {
  OwnedFd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) failed("memfd_create");
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(file.get(), content.data() + done, content.size() - done);
    if (written < 0) failed("write to a memfd");
    done += static_cast<size_t>(written);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

OwnedFd open_log(const std::filesystem::path& path) {
  OwnedFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (log) return log;
  throw InputError({{path.string(),
                     0,
                     {},
                     std::string("cannot write the log: ") + std::strerror(errno),
                     {},
                     {}}});
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) failed("pipe2");
  Pipe pipe = {OwnedFd(ends[0]), OwnedFd(ends[1])};
  ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

SocketPair make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) failed("socketpair");
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

}  // namespace sftbench
