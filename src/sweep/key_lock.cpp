#include "sftbench/sweep/key_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw InputError(path.string() + ": cannot " + what + ": " + std::strerror(errno));
}

bool lock_now(int fd, const std::filesystem::path& path) {
  struct flock whole_file = {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole_file) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  fail(path, "lock");
}

// The holder before us removed the name before it let go: what we have locked then is nobody's
// file.
bool has_name(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && status.st_nlink > 0;
}

std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size(), 0);
  if (length <= 0) return "another sweep";
  return std::string(text.data(), static_cast<size_t>(length));
}

// For people only, so a disk that is full does not matter here.
void write_holder(int fd) {
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string holder = std::string(host.data()) + ", process " + std::to_string(::getpid());
  if (::ftruncate(fd, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(fd, holder.data(), holder.size(), 0);
}

// A client of NFS trusts what it remembers of a folder until it opens it again: whoever has the
// lock must see the results that the holder before it has written.
void look_at_folder_again(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
}

}  // namespace

std::optional<KeyLock> KeyLock::try_acquire(const std::filesystem::path& path,
                                            std::string* holder) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) fail(path, "make the lock");
    KeyLock lock({}, fd);  // without a path: closes, but removes nothing
    if (!lock_now(fd, path)) {
      if (holder != nullptr) *holder = read_holder(fd);
      return std::nullopt;
    }
    if (!has_name(fd)) continue;
    lock.path_ = path;
    write_holder(fd);
    look_at_folder_again(path.parent_path());
    return lock;
  }
}

KeyLock::KeyLock(KeyLock&& other) noexcept
    : path_(std::exchange(other.path_, {})), fd_(std::exchange(other.fd_, -1)) {}

KeyLock& KeyLock::operator=(KeyLock&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::exchange(other.path_, {});
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

KeyLock::~KeyLock() {
  release();
}

void KeyLock::release() {
  if (fd_ < 0) return;
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(fd_);
  fd_ = -1;
}

}  // namespace sftbench
