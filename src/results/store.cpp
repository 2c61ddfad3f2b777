#include "sftbench/results/store.h"

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// A result with ten thousand steps has four lists of as many numbers of about 20 characters.
constexpr size_t kLargeResultBytes = size_t{1} << 20;

}  // namespace

ResultStore::ResultStore(fs::path directory) : directory_(std::move(directory)) {}

fs::path ResultStore::result_path(const std::string& experiment, const std::string& key) const {
  return directory_ / experiment / (key + ".json");
}

fs::path ResultStore::log_path(const std::string& experiment, const std::string& key) const {
  return directory_ / experiment / (key + ".log");
}

void ResultStore::probe(const std::string& experiment) const {
  const fs::path folder = directory_ / experiment;
  std::error_code ignored;
  const bool folder_was_there = fs::exists(folder, ignored);
  const bool directory_was_there = fs::exists(directory_, ignored);
  try {
    // Never committed: it leaves nothing, even if the process is killed meanwhile.
    AtomicFile file(folder / "probe");
    file.append(std::string(kLargeResultBytes, ' '));
  } catch (const InputError& error) {
    if (!folder_was_there) fs::remove(folder, ignored);
    if (!directory_was_there) fs::remove(directory_, ignored);
    Diagnostic diagnostic = error.diagnostics().front();
    diagnostic.file = directory_.string();
    diagnostic.key = "--output";
    diagnostic.expected = "a folder that results can be written to";
    throw InputError({std::move(diagnostic)});
  }
}

fs::path ResultStore::write(const Measurement& measurement, const std::string& key) const {
  const fs::path path = result_path(measurement.experiment, key);
  write_file_atomic(path, to_json(measurement).dump(2) + "\n");
  return path;
}

}  // namespace sftbench
