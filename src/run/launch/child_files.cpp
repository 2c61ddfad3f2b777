#include "launch/child_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "sftbench/base/shared_file.h"

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
  return make_new_file(path, "write the log");
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
