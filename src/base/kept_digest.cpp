#include "sftbench/base/kept_digest.h"

#include <sys/stat.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "sftbench/base/digest.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSettledSeconds = 2;
// Smaller files are read as fast as what is kept of them.
constexpr int64_t kLeastKeptBytes = 1 << 20;
constexpr size_t kDigestLetters = 32;

struct FileState {
  uint64_t device = 0, number = 0;
  int64_t bytes = 0;
  // Seconds, and nanoseconds beside them.
  std::pair<int64_t, int64_t> modified;  // which programs set as they like
  std::pair<int64_t, int64_t> changed;   // which the kernel alone sets

  auto operator<=>(const FileState&) const = default;
};

std::optional<FileState> state_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{status.st_dev,
                   status.st_ino,
                   status.st_size,
                   {status.st_mtim.tv_sec, status.st_mtim.tv_nsec},
                   {status.st_ctim.tv_sec, status.st_ctim.tv_nsec}};
}

bool is_settled(const FileState& state) {
  return state.changed.first + kSettledSeconds < std::time(nullptr);
}

// One for each file, so that what a file was is not kept beside what it is.
fs::path place_of(const FileState& state) {
  return user_cache_directory() / "digests" /
         (std::to_string(state.device) + "-" + std::to_string(state.number));
}

std::string text_of(const FileState& state, const std::string& sum) {
  std::string text = std::to_string(state.bytes);
  for (const auto& [seconds, nanoseconds] : {state.modified, state.changed})
    text += " " + std::to_string(seconds) + "." + std::to_string(nanoseconds);
  text += " " + sum;
  return text + " " + digest(text) + "\n";
}

std::optional<std::string> read_kept(const FileState& state) {
  if (state.bytes < kLeastKeptBytes) return std::nullopt;
  try {
    const fs::path place = place_of(state);
    if (!fs::exists(place)) return std::nullopt;
    const std::string text = read_file(place), ahead = text_of(state, {});
    const size_t begin = ahead.size() - kDigestLetters - 2;  // " " + its own digest + "\n"
    if (text.size() < begin + kDigestLetters) return std::nullopt;
    std::string sum = text.substr(begin, kDigestLetters);
    if (text_of(state, sum) == text) return sum;
  } catch (const std::exception&) {  // no cache: the file itself is read
  }
  return std::nullopt;
}

void keep(const FileState& state, const std::string& sum) {
  if (state.bytes < kLeastKeptBytes) return;
  try {
    write_file_atomic(place_of(state), text_of(state, sum));
  } catch (const std::exception&) {  // the next look reads the file again
  }
}

// Of this process: a sweep asks once for each of its cells.
class Known {
 public:
  std::optional<std::string> find(const FileState& state) {
    const std::lock_guard lock(mutex_);
    const auto found = sums_.find(state);
    return found == sums_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const FileState& state, const std::string& sum) {
    const std::lock_guard lock(mutex_);
    sums_[state] = sum;
  }

 private:
  std::mutex mutex_;
  std::map<FileState, std::string> sums_;
};

Known& known() {
  static Known all;
  return all;
}

std::optional<std::string> find(const FileState& state) {
  if (auto sum = known().find(state)) return sum;
  auto sum = read_kept(state);
  if (sum) known().add(state, *sum);
  return sum;
}

}  // namespace

std::string kept_digest(const fs::path& path) {
  const std::optional<FileState> before = state_of(path);
  if (!before) return digest_file(path);  // which says what is wrong with it
  if (const auto sum = find(*before)) return *sum;
  const bool settled = is_settled(*before);
  std::string sum = digest_file(path);
  if (settled && state_of(path) == before) {
    keep(*before, sum);
    known().add(*before, sum);
  }
  return sum;
}

bool digest_is_kept(const fs::path& path) {
  const std::optional<FileState> state = state_of(path);
  return state && find(*state);
}

}  // namespace sftbench
