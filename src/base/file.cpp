#include "sftbench/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/lfs_pointer.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, std::string message, std::string expected) {
  throw InputError({{.file = path.string(),
                     .line = 0,
                     .key = {},
                     .message = std::move(message),
                     .expected = std::move(expected),
                     .nearest = {}}});
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  refuse(path, what + ": " + std::strerror(errno), {});
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(const fs::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  refuse(path, std::string("is ") + kind_of(status.st_mode), "a regular file");
}

bool takes_a_stream(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 &&
         (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode));
}

// Where a user's path leads.
fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the system's own limit
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

std::string size_text(uint64_t bytes) {
  const bool gib = bytes >> 30 != 0;
  return std::to_string(bytes >> (gib ? 30 : 20)) + (gib ? " GiB" : " MiB");
}

[[noreturn]] void fail_as_too_large(const fs::path& path, uint64_t most_bytes) {
  refuse(path, "larger than " + size_text(most_bytes), "a text file; is this the right one?");
}

uint64_t size_of(const fs::path& path, int fd, uint64_t most_bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail(path, "cannot read");
  const auto size_bytes = static_cast<uint64_t>(status.st_size);
  if (size_bytes > most_bytes) fail_as_too_large(path, most_bytes);
  return size_bytes;
}

// A name that nobody foretells, so that nothing stands there.
fs::path temporary_beside(const fs::path& folder, const fs::path& path) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return folder / ("." + path.filename().string() + "." + std::to_string(::getpid()) + "-" +
                   std::to_string(number) + ".tmp");
}

fs::path directory_from_environment(const char* variable, const char* below_home) {
  if (const char* set = std::getenv(variable); set != nullptr && *set != '\0')
    return fs::path(set) / "sftbench";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/tmp") / below_home / "sftbench";
}

}  // namespace

OwnedFd open_regular_file(const fs::path& path) {
  // The system would read the name up to there, and open another file.
  if (path.native().find('\0') != std::string::npos) {
    refuse(terminal_line(path.native()), "has a zero byte in its name", "the name of a file");
  }
  struct stat named {};
  if (::stat(path.c_str(), &named) != 0) fail(path, "cannot open");
  require_regular(path, named);  // before it is opened: a writer at a pipe would wake up
  OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) fail(path, "cannot open");
  struct stat opened {};
  if (::fstat(file.get(), &opened) != 0) fail(path, "cannot read");
  require_regular(path, opened);  // somebody may have put another file there meanwhile
  return file;
}

std::string read_file(const fs::path& path, size_t most_bytes) {
  const OwnedFd file = open_regular_file(path);
  std::string content;
  content.reserve(size_of(path, file.get(), most_bytes));  // of a file of /proc: 0
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "cannot read");
    if (got == 0) break;
    if (content.size() + static_cast<size_t>(got) > most_bytes) fail_as_too_large(path, most_bytes);
    content.append(buffer, static_cast<size_t>(got));
  }
  if (is_lfs_pointer(content)) throw InputError({finding(path, {}, kIsLfsPointer, kOfLfsPointer)});
  return content;
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.append(content);
  file.commit();
}

AtomicFile::AtomicFile(fs::path path, NamedBy named_by)
    : path_(std::move(path)), direct_(named_by == NamedBy::kUser && takes_a_stream(path_)) {
  if (direct_) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd_ < 0) fail(path_, "cannot write");
    return;
  }
  if (named_by == NamedBy::kUser) path_ = behind_links(path_);
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && !S_ISLNK(status.st_mode)) {
    require_regular(path_, status);
  }
  folder_ = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    errno = error.value();
    fail(folder_, "cannot make the folder");
  }
  temporary_ = temporary_beside(folder_, path_);
  fd_ = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
  if (fd_ >= 0) return;
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(path_, "cannot write");
  named_ = true;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (named_) ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::string_view content) {
  if (!write_whole(fd_, content)) fail(path_, "cannot write");
}

void AtomicFile::commit() {
  if (direct_) return;
  if (::fsync(fd_) != 0) fail(path_, "cannot write");
  if (!named_) {
    // A file without a name cannot take an existing one: it gets a temporary name, then the rename.
    const std::string unnamed = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail(path_, "cannot write");
    }
    named_ = true;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot write");
  named_ = false;
  // The rename itself is durable only when the folder is. Some network file systems refuse; the
  // file is whole then too.
  const OwnedFd parent(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) ::fsync(parent.get());
}

MappedFile::MappedFile(const fs::path& path, uint64_t most_bytes) {
  const OwnedFd file = open_regular_file(path);
  size_bytes_ = size_of(path, file.get(), most_bytes);
  if (size_bytes_ == 0) return;
  void* address = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail(path, "cannot map");
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

RandomAccessFile::RandomAccessFile(fs::path path)
    : path_(std::move(path)), file_(open_regular_file(path_)) {}

size_t RandomAccessFile::read_at(uint64_t offset_bytes, char* buffer, size_t size_bytes) const {
  size_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = ::pread(file_.get(), buffer + done, size_bytes - done,
                                static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "cannot read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

fs::path resource_directory() {
  std::string tried;
  const auto usable = [&tried](const fs::path& candidate) {
    tried += (tried.empty() ? "" : ", ") + candidate.string();
    return fs::exists(candidate / "config" / "models.yaml");
  };
  if (const char* home = std::getenv("SFTBENCH_HOME"); home != nullptr && usable(home)) return home;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (const fs::path shared = executable.parent_path().parent_path() / "share" / "sftbench";
      usable(shared))
    return shared;
  throw InputError("the files of sftbench (config/models.yaml and others) were not found in " +
                   tried + "; set SFTBENCH_HOME to the folder that has config/ and experiments/");
}

fs::path user_data_directory() {
  return directory_from_environment("XDG_DATA_HOME", ".local/share");
}

fs::path user_cache_directory() {
  return directory_from_environment("XDG_CACHE_HOME", ".cache");
}

}  // namespace sftbench
