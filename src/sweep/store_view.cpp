#include "sftbench/sweep/store_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

namespace {

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

// Of a file's content at one time, as far as its folder tells. Dates are compared for equality alone:
// hosts that share a folder need not agree on the time.
std::optional<uint64_t> look_of(int folder, const char* name) {
  struct stat status = {};
  if (::fstatat(folder, name, &status, 0) != 0) return std::nullopt;
  const std::string text = std::to_string(status.st_mtim.tv_sec) + "." +
                           std::to_string(status.st_mtim.tv_nsec) + " " +
                           std::to_string(status.st_size);
  return hash_of(text);
}

}  // namespace

StoreView::StoreView(const ResultStore& store, const SweepOptions& options)
    : store_(store), options_(options) {}

void StoreView::remember(const std::string& experiment) {
  if (!options_.retry_failed) return;
  DIR* folder = ::opendir((store_.directory() / experiment).c_str());
  if (folder == nullptr && errno != ENOENT) return;
  std::unordered_map<uint64_t, uint64_t>& looks = remembered_[experiment];
  if (folder == nullptr) return;  // it is not there yet, and holds nothing
  while (const dirent* entry = ::readdir(folder)) {
    if (std::filesystem::path(entry->d_name).extension() != ".json") continue;
    if (const auto look = look_of(::dirfd(folder), entry->d_name)) {
      looks[hash_of(entry->d_name)] = *look;
    }
  }
  ::closedir(folder);
}

void StoreView::count_samples(Cell& cell) {
  int stored = 0;
  if (!options_.single_measurement) {
    while (status_of(cell, stored + 1) == Status::kValid) ++stored;
  }
  cell.samples = stored + options_.repeats;
}

std::optional<Status> StoreView::settled(Cell& cell) {
  for (int sample = 1; sample <= cell.samples; ++sample) {
    const std::optional<Status> status = status_of(cell, sample);
    if (status == Status::kValid) continue;
    if (status == Status::kInvalid) return status;
    if (status == Status::kFailed && !tried_again(cell, sample)) return status;
    cell.sample = sample;
    return std::nullopt;
  }
  return Status::kValid;
}

// What has failed since this sweep began failed in a sweep beside it: to measure it here, too, would
// double the work on every cell that cannot succeed.
bool StoreView::tried_again(const Cell& cell, int sample) const {
  if (cell.attempt > 1 && cell.sample == sample) return true;
  if (!options_.retry_failed) return false;
  const auto looks = remembered_.find(cell.request.experiment);
  if (looks == remembered_.end()) return true;
  const std::filesystem::path path = store_.result_path(cell.request.experiment, cell.key, sample);
  const auto before = looks->second.find(hash_of(path.filename().string()));
  return before != looks->second.end() && look_of(AT_FDCWD, path.c_str()) == before->second;
}

std::optional<Status> StoreView::status_of(const Cell& cell, int sample) {
  try {
    return store_.status_of(cell.request.experiment, cell.key, sample);
  } catch (const InputError& error) {
    if (reported_.insert(error.what()).second) problems_.insert(error.what());
    return std::nullopt;
  }
}

std::set<std::string> StoreView::take_problems() {
  return std::exchange(problems_, {});
}

}  // namespace sftbench
