#include "sftbench/results/key_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sftbench/base/environment.h"
#include "sftbench/base/shared_file.h"

namespace sftbench {
namespace {

// Each fails only when a holder has let go between two of our calls. A file system whose numbers of
// files change from call to call would fail for ever.
constexpr int kMostTries = 1000;

bool lock_now(int fd, const std::filesystem::path& path) {
  struct flock whole_file = {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole_file) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw InputError(path.string() + ": cannot lock: " + std::strerror(errno));
}

// A copy of the folder made of links, or a link that somebody planted: its content is not ours
// alone to write.
bool has_other_names(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && status.st_nlink > 1;
}

std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size(), 0);
  if (length <= 0) return "another process";
  return std::string(text.data(), static_cast<size_t>(length));
}

// For people only, so a disk that is full does not matter here.
void write_holder(int fd) {
  const std::string holder = host_name() + ", process " + std::to_string(::getpid());
  if (::ftruncate(fd, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(fd, holder.data(), holder.size(), 0);
}

// A client of NFS trusts what it remembers of a folder until it opens it again: whoever has the
// lock must see the results that the holder before it has written.
void look_at_folder_again(const std::filesystem::path& folder) {
  const OwnedFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

KeyBusy key_busy(const std::filesystem::path& path, const std::string& holder) {
  return KeyBusy(
      {finding(path, {}, "this key is being measured by " + holder + "; nothing was measured",
               "to be called again when that has ended, or with another --output")});
}

std::optional<std::string> lock_holder(const std::filesystem::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct flock whole_file = {};
  whole_file.l_type = F_RDLCK;
  whole_file.l_whence = SEEK_SET;
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &whole_file) != 0) return std::nullopt;
  if (whole_file.l_type == F_UNLCK) return std::nullopt;
  return read_holder(file.get());
}

std::optional<KeyLock> KeyLock::try_acquire(const std::filesystem::path& path,
                                            std::string* holder) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    OwnedFd file = open_or_make_file(path, "make the lock");
    if (!lock_now(file.get(), path)) {
      if (holder != nullptr) *holder = read_holder(file.get());
      return std::nullopt;
    }
    // The holder before us removed the name before it let go: what we have locked then is nobody's
    // file.
    if (!is_name_of(path, file.get())) continue;
    if (has_other_names(file.get())) {
      if (::unlink(path.c_str()) == 0) continue;
      throw InputError(path.string() + ": cannot make the lock anew: " + std::strerror(errno));
    }
    write_holder(file.get());
    look_at_folder_again(path.parent_path());
    return KeyLock(path, std::move(file));
  }
  throw InputError(path.string() + ": cannot make the lock: its file changes again and again");
}

KeyLock KeyLock::acquire(const std::filesystem::path& path) {
  std::string holder;
  std::optional<KeyLock> lock = try_acquire(path, &holder);
  if (lock) return std::move(*lock);
  throw key_busy(path, holder);
}

KeyLock& KeyLock::operator=(KeyLock&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    file_ = std::move(other.file_);
  }
  return *this;
}

KeyLock::~KeyLock() {
  release();
}

// Not by name alone: when the folder was replaced, another process's lock may have that name.
void KeyLock::release() {
  if (!file_) return;
  if (is_name_of(path_, file_.get())) ::unlink(path_.c_str());
  file_.close();
}

}  // namespace sftbench
