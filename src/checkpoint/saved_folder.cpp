#include "sftbench/checkpoint/saved_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint-", kPendingEnd = ".saving";

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  throw InputError({{path.string(), 0, {}, what + ": " + std::strerror(error), {}, {}}});
}

[[noreturn]] void refuse(const fs::path& path, std::string found, std::string expected) {
  throw InputError({{path.string(), 0, {}, std::move(found), std::move(expected), {}}});
}

void fsync_folder(const fs::path& path) {
  const OwnedFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) fail(path, "cannot open", errno);
  // Some network file systems have no fsync for folders, and need none.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail(path, "cannot write", errno);
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

// "checkpoint-12": 12.
std::optional<int64_t> step_of(const std::string& name) {
  if (name.rfind(kCheckpoint, 0) != 0) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kCheckpoint.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end) return {};
  return step;
}

bool is_whole(const fs::path& checkpoint) {
  std::error_code ignored;
  return fs::is_regular_file(checkpoint / kTrainerStateFile, ignored);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path, "cannot make the folder", error.value());
}

}  // namespace

fs::path pending_path(const fs::path& target) {
  return folder_of(target) / ("." + target.filename().string() + std::string(kPendingEnd));
}

PendingFolder::PendingFolder(fs::path target)
    : target_(std::move(target)), path_(pending_path(target_)) {
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) fail(path_, "cannot remove what was left there", error.value());
  make_folder(path_);
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(path_, ignored);
}

void PendingFolder::commit() {
  fsync_folder(path_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) fail(target_, "cannot write", errno);
    // A folder that has something in it is not renamed over; the two change places instead.
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
      fail(target_, "cannot replace", errno);
    }
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  committed_ = true;
  fsync_folder(folder_of(target_));
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / (std::string(kCheckpoint) + std::to_string(step));
}

std::vector<FoundCheckpoint> list_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::optional<int64_t> step = step_of(entry.path().filename().string());
    if (step && is_whole(entry.path())) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.step < b.step; });
  return found;
}

fs::path find_checkpoint(const fs::path& path) {
  const std::string expected =
      "a checkpoint, which has " + std::string(kTrainerStateFile) + ", or a folder of them";
  std::error_code error;
  if (!fs::is_directory(path, error)) refuse(path, "no such folder", expected);
  if (is_whole(path)) return path;
  const std::vector<FoundCheckpoint> found = list_checkpoints(path);
  if (found.empty()) refuse(path, "no checkpoint", expected);
  return found.back().path;
}

CheckpointFolder::CheckpointFolder(fs::path path) : path_(std::move(path)) {
  make_folder(path_);
  lock_ = OwnedFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.get() < 0) fail(path_, "cannot open", errno);
  // Where a file system has no locks, nobody is kept out.
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse(path_, "another run saves its checkpoints there", "a folder for each run");
  }
  if (::access(path_.c_str(), W_OK) != 0) fail(path_, "cannot write", errno);
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    const bool pending =
        name.rfind("." + std::string(kCheckpoint), 0) == 0 && name.size() > kPendingEnd.size() &&
        name.compare(name.size() - kPendingEnd.size(), name.npos, kPendingEnd) == 0;
    if (pending) leftovers.push_back(entry.path());
  }
  std::error_code error;
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, error);
}

void CheckpointFolder::keep_newest(int64_t limit, int64_t step) const {
  std::vector<FoundCheckpoint> found = list_checkpoints(path_);
  std::stable_partition(found.begin(), found.end(),
                        [step](const FoundCheckpoint& one) { return one.step > step; });
  const auto excess = static_cast<int64_t>(found.size()) - limit;
  for (int64_t i = 0; i < excess; ++i) {
    const fs::path& oldest = found[static_cast<size_t>(i)].path;
    // First no longer a checkpoint, then removed: whoever dies in between leaves no half of one.
    const fs::path aside = pending_path(oldest);
    std::error_code error;
    fs::remove_all(aside, error);
    if (::rename(oldest.c_str(), aside.c_str()) != 0) fail(oldest, "cannot remove", errno);
    fs::remove_all(aside, error);
    if (error) fail(oldest, "cannot remove", error.value());
  }
}

}  // namespace sftbench
