#include "sftbench/results/store.h"

#include <utility>

#include "results/result_reader.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/results/sample_series.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// A result with ten thousand steps has four lists of as many numbers of about 20 characters.
constexpr size_t kLargeResultBytes = size_t{1} << 20;

// `folder` and the folders around it that do not exist, the outermost first.
std::vector<fs::path> absent_folders(fs::path folder) {
  std::vector<fs::path> absent;
  std::error_code error;
  for (; !folder.empty() && !fs::exists(folder, error); folder = folder.parent_path()) {
    absent.insert(absent.begin(), folder);
  }
  return absent;
}

std::string sample_name(const std::string& key, int sample) {
  check(sample >= 1, "samples are counted from 1");
  return sample == 1 ? key : key + "." + std::to_string(sample);
}

// `path`, then with .2, .3, ...: the first that nothing has, not even a link that leads nowhere.
fs::path free_name(const fs::path& path) {
  fs::path name = path;
  for (int i = 2; fs::exists(fs::symlink_status(name)); ++i) {
    name = path;
    name += "." + std::to_string(i);
  }
  return name;
}

fs::path with_ending(const fs::path& path, const std::string& ending) {
  return fs::path(path.string() + ending);
}

// How the measurement at `path` ended; nothing when none stands there. Whatever else stands there
// gets a name that nothing has or overwrites.
std::optional<Status> status_of_measurement(const fs::path& path) {
  try {
    return read_status(path);
  } catch (const InputError&) {
    // Its cause is of no use here: who asked for the status was told.
  }
  // What is no file has but one name, which the result needs.
  std::error_code error;
  const fs::path aside = free_name(with_ending(path, ".aside"));
  if (!fs::is_regular_file(fs::symlink_status(path, error))) {
    fs::rename(path, aside, error);
    return std::nullopt;
  }
  // One more name instead of another: should somebody have put a better result there in the very
  // last moment, it stays. An InputError of the writing that follows says more than an error here.
  fs::create_hard_link(path, aside, error);
  if (error) fs::rename(path, aside, error);
  return std::nullopt;
}

// Where one of that status stands beside the result at `path`: "x.json" -> "x.json.failed".
fs::path aside_of(const fs::path& path, Status status) {
  return free_name(with_ending(path, "." + std::string(to_string(status))));
}

// The log of what stands aside: "x.json.failed.2" -> "x.failed.2.log".
fs::path log_of_aside(const fs::path& path, const fs::path& aside) {
  const std::string ending = aside.string().substr(path.string().size());
  return path.parent_path() / (path.stem().string() + ending + ".log");
}

// Of a rank 0 that an outside launcher started the log is that of the measurement.
bool is_last_log(const fs::path& log, int rank) {
  std::error_code no_log;
  return rank > 0 && !fs::exists(log_of_rank(log, rank), no_log);
}

void move_logs(const fs::path& from, const fs::path& to) {
  std::error_code no_log;  // what was settled before training has none
  fs::rename(from, to, no_log);
  for (int rank = 0; !is_last_log(from, rank); ++rank) {
    fs::rename(log_of_rank(from, rank), log_of_rank(to, rank), no_log);
  }
}

// The reason names the log, and perhaps that of a rank, by the names that they were to get.
void rename_logs(std::optional<Reason>& reason, const fs::path& from, const fs::path& to) {
  if (!reason) return;
  const auto stem = [](const fs::path& log) {
    return fs::path(log).replace_extension().string() + ".";
  };
  for (std::string* text : {&reason->log, &reason->message, &reason->evidence}) {
    const std::string before = stem(from), after = stem(to);
    for (size_t at = text->find(before); at != std::string::npos;
         at = text->find(before, at + after.size())) {
      text->replace(at, before.size(), after);
    }
  }
}

void write_result(const fs::path& path, Measurement measurement, const std::string& key,
                  const Publish& publish) {
  measurement.key = key;
  publish(path, json_text(to_json(measurement), 2) + "\n");
}

// Names in the result what stands beside it at `path`, once move_series() has come by.
Measurement with_series(Measurement measurement, const fs::path& path) {
  const auto series = measurement.extra.find("series");
  if (series == measurement.extra.end()) return measurement;
  Json named = {{"file", series_beside(path).filename().string()}};
  named.update(*series);
  *series = std::move(named);
  return measurement;
}

// After the result: whoever may no longer write that has no series to give either.
void move_series(const Measurement& measurement, const fs::path& growing, const fs::path& path) {
  std::error_code none;
  if (measurement.extra.contains("series")) {
    fs::rename(growing, series_beside(path), none);
  } else {
    fs::remove(growing, none);  // of a run that failed after all
  }
}

// A result that gives way to a better one. It is there twice for a moment, but never not at all.
void copy_aside(const fs::path& path, const fs::path& log, Status status, const Publish& publish) {
  const fs::path aside = aside_of(path, status);
  publish(aside, read_file(path));
  move_logs(log, log_of_aside(path, aside));
}

}  // namespace

fs::path log_of_rank(const fs::path& log, int rank) {
  constexpr std::string_view kGrowing = ".growing.log", kWhole = ".log";
  const std::string path = log.string();
  const auto ends_with = [&path](std::string_view end) {
    return path.size() >= end.size() &&
           path.compare(path.size() - end.size(), end.size(), end) == 0;
  };
  const std::string_view end = ends_with(kGrowing) ? kGrowing : ends_with(kWhole) ? kWhole : "";
  return path.substr(0, path.size() - end.size()) + ".rank" + std::to_string(rank) +
         std::string(end);
}

ResultStore::ResultStore(fs::path directory) : directory_(std::move(directory)) {}

fs::path ResultStore::result_path(const std::string& experiment, const std::string& key,
                                  int sample) const {
  return directory_ / experiment / (sample_name(key, sample) + ".json");
}

fs::path ResultStore::log_path(const std::string& experiment, const std::string& key,
                               int sample) const {
  return directory_ / experiment / (sample_name(key, sample) + ".log");
}

fs::path ResultStore::growing_log_path(const std::string& experiment, const std::string& key,
                                       int sample) const {
  return directory_ / experiment / (sample_name(key, sample) + ".growing.log");
}

fs::path ResultStore::growing_series_path(const std::string& experiment, const std::string& key,
                                          int sample) const {
  return series_beside(growing_log_path(experiment, key, sample));
}

fs::path ResultStore::lock_path(const std::string& experiment, const std::string& key) const {
  return directory_ / experiment / (key + ".lock");
}

std::vector<fs::path> ResultStore::probe(const std::string& experiment) const {
  const fs::path folder = directory_ / experiment;
  const std::vector<fs::path> absent = absent_folders(folder);
  try {
    // Never committed: it leaves nothing, even if the process is killed meanwhile.
    AtomicFile file(folder / "probe");
    file.append(std::string(kLargeResultBytes, ' '));
    return absent;
  } catch (const InputError& error) {
    std::error_code ignored;
    for (auto made = absent.rbegin(); made != absent.rend(); ++made) fs::remove(*made, ignored);
    Diagnostic diagnostic = error.diagnostics().front();
    diagnostic.file = directory_.string();
    diagnostic.key = "--output";
    diagnostic.expected = "a folder that results can be written to";
    throw InputError({std::move(diagnostic)});
  }
}

int ResultStore::next_sample(const std::string& experiment, const std::string& key,
                             int sample) const {
  const auto valid = [&](int which) {
    try {
      return status_of(experiment, key, which) == Status::kValid;
    } catch (const InputError&) {
      return false;
    }
  };
  while (valid(sample)) ++sample;
  return sample;
}

fs::path ResultStore::write(const Measurement& measurement, const std::string& key, int sample,
                            const Publish& publish) const {
  const std::string& experiment = measurement.experiment;
  const fs::path growing = growing_log_path(experiment, key, sample);
  const fs::path growing_series = growing_series_path(experiment, key, sample);
  const bool valid = measurement.status == Status::kValid;
  if (valid) sample = next_sample(experiment, key, sample);
  const fs::path path = result_path(experiment, key, sample);
  const fs::path log = log_path(experiment, key, sample);
  const std::optional<Status> standing = status_of_measurement(path);
  if (standing && *standing != Status::kFailed && !valid) {
    const fs::path aside = aside_of(path, measurement.status);
    Measurement moved = measurement;
    rename_logs(moved.reason, log, log_of_aside(path, aside));
    write_result(aside, moved, key, publish);
    move_logs(growing, log_of_aside(path, aside));
    return aside;
  }
  if (standing == Status::kInvalid) copy_aside(path, log, *standing, publish);
  write_result(path, with_series(measurement, path), key, publish);
  move_series(measurement, growing_series, path);
  move_logs(growing, log);
  return path;
}

void ResultStore::remove_growing_logs(const std::string& experiment, const std::string& key,
                                      int sample) const {
  const fs::path growing = growing_log_path(experiment, key, sample);
  std::error_code no_log;
  fs::remove(growing, no_log);
  fs::remove(growing_series_path(experiment, key, sample), no_log);
  for (int rank = 0; !is_last_log(growing, rank); ++rank) {
    fs::remove(log_of_rank(growing, rank), no_log);
  }
}

std::optional<Status> ResultStore::status_of(const std::string& experiment, const std::string& key,
                                             int sample) const {
  return read_status(result_path(experiment, key, sample));
}

std::optional<Status> ResultStore::glance_at_status_of(const std::string& experiment,
                                                       const std::string& key) const {
  return glance_at_status(result_path(experiment, key, 1));
}

StoreScan ResultStore::scan() const {
  return scan_results(directory_);
}

}  // namespace sftbench
