#include "sftbench/results/store.h"

#include <utility>

#include "results/result_reader.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

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

// Whatever stands at `path` and is no measurement gets a name that nothing else has or overwrites.
void keep_aside_unless_measurement(const fs::path& path) {
  try {
    read_status(path);
    return;
  } catch (const InputError&) {
    // Its cause is of no use here: who asked for the status was told.
  }
  fs::path aside = path;
  aside += ".aside";
  for (int i = 2; fs::exists(aside); ++i) {
    aside = path;
    aside += ".aside." + std::to_string(i);
  }
  std::error_code error;  // an InputError of the writing that follows says more
  fs::rename(path, aside, error);
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

fs::path ResultStore::write(const Measurement& measurement, const std::string& key,
                            int sample) const {
  const fs::path path = result_path(measurement.experiment, key, sample);
  keep_aside_unless_measurement(path);
  Measurement keyed = measurement;
  keyed.key = key;
  write_file_atomic(path, json_text(to_json(keyed), 2) + "\n");
  std::error_code no_log;  // what was settled before training has none
  const fs::path growing = growing_log_path(measurement.experiment, key, sample);
  const fs::path log = log_path(measurement.experiment, key, sample);
  fs::rename(growing, log, no_log);
  for (int rank = 0; fs::exists(log_of_rank(growing, rank), no_log); ++rank) {
    fs::rename(log_of_rank(growing, rank), log_of_rank(log, rank), no_log);
  }
  return path;
}

void ResultStore::remove_growing_logs(const std::string& experiment, const std::string& key,
                                      int sample) const {
  const fs::path growing = growing_log_path(experiment, key, sample);
  std::error_code no_log;
  fs::remove(growing, no_log);
  for (int rank = 0; fs::remove(log_of_rank(growing, rank), no_log); ++rank) {
  }
}

std::optional<Status> ResultStore::status_of(const std::string& experiment, const std::string& key,
                                             int sample) const {
  return read_status(result_path(experiment, key, sample));
}

StoreScan ResultStore::scan() const {
  return scan_results(directory_);
}

}  // namespace sftbench
