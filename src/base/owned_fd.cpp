#include "sftbench/base/owned_fd.h"

#include <fcntl.h>
#include <unistd.h>

namespace sftbench {

OwnedFd::OwnedFd(int fd) : fd_(fd) {
  // A process without standard streams gets their numbers for what it opens.
  if (fd_ < 0 || fd_ > STDERR_FILENO) return;
  fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(fd);
}

OwnedFd::~OwnedFd() {
  close();
}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void OwnedFd::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace sftbench
