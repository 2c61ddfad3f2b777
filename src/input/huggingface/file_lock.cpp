#include "huggingface/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Who held the lock may have removed the file: then ours is a file that nobody else will find.
bool is_still(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(const fs::path& path, const std::function<void()>& waiting) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  for (;;) {
    // Several users may share a cache: group-writable, as huggingface_hub makes it.
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (fd_ < 0) {
      throw InputError({{.file = path.string(),
                         .line = 0,
                         .key = {},
                         .message = std::string("cannot lock: ") + std::strerror(errno),
                         .expected = {},
                         .nearest = {}}});
    }
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;
      try {
        waiting();
      } catch (...) {
        ::close(fd_);
        throw;
      }
    }
    if (is_still(fd_, path)) return;
    ::close(fd_);
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace sftbench
