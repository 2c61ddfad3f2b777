#include "sftbench/base/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // less the umask
// Not blocking: somebody may have put a pipe there.
constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

constexpr const char* kNoRegularFile = "no regular file stands there; remove it";

Diagnostic problem(const fs::path& path, const std::string& what, const std::string& cause) {
  return finding(path, {}, "cannot " + what + ": " + cause);
}

[[noreturn]] void refuse_name(const fs::path& path, const std::string& what) {
  const int error = errno;
  struct stat status = {};
  const bool there = ::lstat(path.c_str(), &status) == 0;
  if (there && S_ISLNK(status.st_mode)) {
    throw NameTaken(path, what, "a symbolic link stands there; remove it");
  }
  if (there && S_ISDIR(status.st_mode)) throw NameTaken(path, what, std::strerror(EISDIR));
  if (there && !S_ISREG(status.st_mode)) throw NameTaken(path, what, kNoRegularFile);
  throw InputError({problem(path, what, std::strerror(error))});
}

OwnedFd open_regular(const fs::path& path, int flags, const std::string& what) {
  OwnedFd file(::open(path.c_str(), flags | kFlags, kMode));
  if (!file) refuse_name(path, what);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) refuse_name(path, what);
  if (!S_ISREG(status.st_mode)) throw NameTaken(path, what, kNoRegularFile);
  return file;
}

}  // namespace

NameTaken::NameTaken(const fs::path& path, const std::string& what, const std::string& cause)
    : InputError({problem(path, what, cause)}) {}

OwnedFd make_new_file(const fs::path& path, const std::string& what) {
  while (true) {
    OwnedFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | kFlags, kMode));
    if (file) return file;
    if (errno != EEXIST) refuse_name(path, what);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) refuse_name(path, what);
  }
}

OwnedFd open_or_make_file(const fs::path& path, const std::string& what) {
  return open_regular(path, O_RDWR | O_CREAT, what);
}

OwnedFd open_to_append(const fs::path& path, const std::string& what) {
  return open_regular(path, O_WRONLY | O_APPEND | O_CREAT, what);
}

void append_to_file(const fs::path& path, std::string_view text, const std::string& what) {
  const OwnedFd file = open_regular(path, O_WRONLY | O_APPEND, what);
  if (!write_whole(file.get(), text)) refuse_name(path, what);
}

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool is_name_of(const fs::path& path, int fd) {
  struct stat named = {}, opened = {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

}  // namespace sftbench
