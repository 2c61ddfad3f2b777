#include "sftbench/sweep/store_view.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/folder_names.h"

namespace sftbench {

namespace {

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

// Of a file's content at one time, as far as its folder tells. Dates are compared for equality
// alone: hosts that share a folder need not agree on the time.
std::optional<uint64_t> look_of(const std::filesystem::path& path, bool by_number) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (by_number) return static_cast<uint64_t>(status.st_ino);
  const std::string text = std::to_string(status.st_mtim.tv_sec) + "." +
                           std::to_string(status.st_mtim.tv_nsec) + " " +
                           std::to_string(status.st_size);
  return hash_of(text);
}

bool is_result(std::string_view name) {
  constexpr std::string_view kEnding = ".json";
  return name.size() > kEnding.size() && name.front() != '.' &&
         name.substr(name.size() - kEnding.size()) == kEnding;
}

// A list of names costs as much as a look at some thousand of them. It takes a twentieth of the
// time.
constexpr double kListAgainSeconds = 1;
constexpr double kListShare = 20;

}  // namespace

StoreView::StoreView(const ResultStore& store, const SweepOptions& options)
    : store_(store), options_(options) {}

void StoreView::remember(const std::string& experiment) {
  const std::filesystem::path path = store_.directory() / experiment;
  Folder folder;
  const double begin_s = steady_seconds();
  const bool listed = for_each_name(path, [&](std::string_view name, uint64_t number) {
    if (!is_result(name)) return;
    // The first file tells whether the numbers in a listing are those of the files.
    if (folder.stood.empty()) folder.by_number = look_of(path / name, true) == number;
    folder.stood[hash_of(name)] = number;
    if (folder.by_number) return;
    if (const auto look = look_of(path / name, false)) folder.stood[hash_of(name)] = *look;
  });
  if (!listed && errno != ENOENT) return;  // not there yet, it holds nothing
  folder.listed_s = steady_seconds();
  folder.took_s = folder.listed_s - begin_s;
  folders_[experiment] = std::move(folder);
}

StoreView::Seen StoreView::seen(const Cell& cell) {
  const auto found = folders_.find(cell.request.experiment);
  const std::filesystem::path path = store_.result_path(cell.request.experiment, cell.key);
  if (found == folders_.end())
    return ::access(path.c_str(), F_OK) == 0 ? Seen::kStood : Seen::kNothing;
  Folder& folder = found->second;
  const uint64_t name = hash_of(path.filename().native());
  if (folder.stood.count(name) != 0) return Seen::kStood;
  if (folder.came.count(name) != 0) return Seen::kCame;
  if (::access(path.c_str(), F_OK) != 0) return Seen::kNothing;
  folder.came.insert(name);
  // Where one came there are more: the way leads along another worker's.
  if (steady_seconds() - folder.listed_s >
      std::max(kListAgainSeconds, kListShare * folder.took_s)) {
    list(path.parent_path(), folder);
  }
  return Seen::kCame;
}

void StoreView::list(const std::filesystem::path& path, Folder& folder) {
  const double begin_s = steady_seconds();
  for_each_name(path, [&folder](std::string_view name, uint64_t) {
    if (!is_result(name)) return;
    const uint64_t hash = hash_of(name);
    if (folder.stood.count(hash) == 0) folder.came.insert(hash);
  });
  folder.listed_s = steady_seconds();
  folder.took_s = folder.listed_s - begin_s;
}

std::optional<Status> StoreView::glance(const Cell& cell) {
  try {
    return store_.glance_at_status_of(cell.request.experiment, cell.key);
  } catch (const InputError&) {
    return std::nullopt;  // settled() says what is wrong with it
  }
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

// What has failed since this sweep began failed in a sweep beside it: to measure it here, too,
// would double the work on every cell that cannot succeed.
bool StoreView::tried_again(const Cell& cell, int sample) const {
  if (cell.attempt > 1 && cell.sample == sample) return true;
  if (!options_.retry_failed) return false;
  const auto folder = folders_.find(cell.request.experiment);
  if (folder == folders_.end()) return true;
  const auto& [experiment, seen] = *folder;
  const std::filesystem::path path = store_.result_path(experiment, cell.key, sample);
  const auto before = seen.stood.find(hash_of(path.filename().native()));
  return before != seen.stood.end() && look_of(path, seen.by_number) == before->second;
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
