#include "sftbench/checkpoint/pending_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/refusal.h"
#include "sftbench/base/error.h"
#include "sftbench/checkpoint/manifest.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

void fsync_folder(const fs::path& path) {
  const OwnedFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) fail(path, "cannot open", errno);
  // Some network file systems have no fsync for folders, and need none.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail(path, "cannot write", errno);
}

bool lacks_rename_flags(int error) {
  return error == EINVAL || error == ENOSYS;
}

// Gives `from` the name `to` where nothing stands there. False: something does.
bool move_file(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (!lacks_rename_flags(errno)) fail(to, "cannot write", errno);
  if (::link(from.c_str(), to.c_str()) != 0) {
    if (errno == EEXIST) return false;
    fail(to, "cannot write", errno);
  }
  ::unlink(from.c_str());
  return true;
}

// The two folders change names.
void exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (!lacks_rename_flags(errno)) fail(b, "cannot replace", errno);
  const fs::path between = a.string() + ".old";
  const bool done = ::rename(b.c_str(), between.c_str()) == 0 &&
                    ::rename(a.c_str(), b.c_str()) == 0 &&
                    ::rename(between.c_str(), a.c_str()) == 0;
  if (!done) fail(b, "cannot replace", errno);
}

bool is_replaceable(const fs::path& path, const FolderId& expected) {
  return folder_id(path) == expected && holds_only_saved_files(path);
}

std::vector<fs::path> files_in_order(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& file) { return !makes_loadable(file); });
  return files;
}

// The folder that stands there, locked; another process may have given it another name before that.
OwnedFd make_and_lock(const fs::path& path) {
  make_folder(folder_of(path));
  for (;;) {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      fail(path, "cannot make the folder", errno);
    }
    if (!folder_id(path)) fail(path, "cannot make the folder", ENOTDIR);
    OwnedFd lock = lock_folder(path, "another run saves there");
    struct stat held {};
    if (::fstat(lock.get(), &held) != 0) fail(path, "cannot open", errno);
    if (folder_id(path) == FolderId{held.st_dev, held.st_ino}) return lock;
  }
}

void remove_contents(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    fs::remove_all(entry.path(), error);
    if (error) break;
  }
  if (error) fail(folder, "cannot remove what was left there", error.value());
}

}  // namespace

std::optional<FolderId> folder_id(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  return FolderId{status.st_dev, status.st_ino};
}

OwnedFd lock_folder(const fs::path& path, const std::string& refusal) {
  OwnedFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) fail(path, "cannot open", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw InputError({{path.string(), 0, {}, refusal, "a folder for each run", {}}});
  }
  return lock;
}

bool makes_loadable(const fs::path& file) {
  return file.filename() == "config.json" || file.filename() == "adapter_config.json";
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path, "cannot make the folder", error.value());
}

PendingFolder::PendingFolder(fs::path path) : path_(std::move(path)), lock_(make_and_lock(path_)) {
  remove_contents(path_);
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  if (!complete_) fs::remove_all(path_, ignored);
}

// From here on it is not removed, whatever fails.
void PendingFolder::complete() {
  fsync_folder(path_);
  complete_ = true;
}

bool PendingFolder::take(const fs::path& target) {
  complete();
  // A folder is only renamed over an empty one: the system refuses anything else.
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return false;
    fail(target, "cannot write", errno);
  }
  fsync_folder(folder_of(target));
  return true;
}

bool PendingFolder::replace(const fs::path& target, const FolderId& expected) {
  complete();
  if (!is_replaceable(target, expected)) return false;
  exchange(path_, target);
  if (!is_replaceable(path_, expected)) {  // somebody was faster
    exchange(path_, target);
    return false;
  }
  fsync_folder(folder_of(target));
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  return true;
}

std::optional<fs::path> PendingFolder::move_files_into(const fs::path& target) {
  complete();
  std::vector<fs::path> moved;
  for (const fs::path& file : files_in_order(path_)) {
    if (makes_loadable(file)) fsync_folder(target);
    const fs::path to = target / file.filename();
    if (move_file(file, to)) {
      moved.push_back(to);
      continue;
    }
    for (const fs::path& back : moved) move_file(back, path_ / back.filename());
    return to;
  }
  ::rmdir(path_.c_str());
  fsync_folder(target);
  return {};
}

fs::path PendingFolder::keep_beside(const fs::path& target) {
  complete();
  for (int number = 1;; ++number) {
    const fs::path name =
        target.string() + ".saved" + (number == 1 ? "" : "-" + std::to_string(number));
    if (fs::exists(fs::symlink_status(name))) continue;
    return ::rename(path_.c_str(), name.c_str()) == 0 ? name : path_;
  }
}

}  // namespace sftbench
