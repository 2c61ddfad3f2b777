#include "sftbench/results/scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "results/cost_columns.h"
#include "results/result_reader.h"
#include "sftbench/base/json_text.h"
#include "sftbench/results/report.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// A result file by its name: "<folder>/<key>.json" or "<folder>/<key>.<sample>.json".
struct Candidate {
  std::string folder, file, key;
  int sample = 1;

  std::string path() const { return folder.empty() ? file : folder + "/" + file; }
  auto order() const { return std::tie(folder, key, sample, file); }
};

// What became of it. Neither: it vanished.
struct Outcome {
  std::optional<StoredResult> result;
  std::optional<std::string> problem;
};

Candidate candidate(const std::string& folder, const std::string& file) {
  ResultName name = result_name(file);
  return {folder, file, std::move(name.key), name.sample};
}

// "<key>.json.failed", "<key>.json.invalid.2": ResultStore::write gives such names.
bool stands_aside(const std::string& name) {
  return name.find(".json.failed") != std::string::npos ||
         name.find(".json.invalid") != std::string::npos;
}

class Directory {
 public:
  explicit Directory(const fs::path& path) : stream_(::opendir(path.c_str())) {}
  ~Directory() {
    if (stream_ != nullptr) ::closedir(stream_);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  bool opened() const { return stream_ != nullptr; }
  int descriptor() const { return ::dirfd(stream_); }

  // The names that do not begin with a dot; those are temporary files of a write that goes on.
  std::vector<std::string> names() {
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream_)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  DIR* stream_;
};

class Scanner {
 public:
  explicit Scanner(const fs::path& directory) : directory_(directory) {}

  StoreScan scan() {
    find_candidates();
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.order() < b.order(); });
    outcomes_.resize(candidates_.size());
    read_all();
    return collect();
  }

 private:
  void find_candidates() {
    Directory top(directory_);
    if (!top.opened()) {
      throw InputError({{.file = directory_.string(),
                         .line = 0,
                         .key = {},
                         .message = std::string("cannot list: ") + std::strerror(errno),
                         .expected = "a directory of results",
                         .nearest = {}}});
    }
    for (const std::string& name : top.names()) {
      std::error_code error;
      if (fs::is_directory(directory_ / name, error)) {
        list(name);
      } else if (fs::path(name).extension() == ".json") {
        scan_.skipped.push_back({name, "not in the folder of an experiment"});
      }
    }
  }

  void list(const std::string& folder) {
    Directory inner(directory_ / folder);
    if (!inner.opened()) {
      scan_.skipped.push_back({folder, std::string("cannot list: ") + std::strerror(errno)});
      return;
    }
    for (const std::string& name : inner.names()) {
      if (fs::path(name).extension() == ".json") {
        candidates_.push_back(candidate(folder, name));
      } else if (stands_aside(name)) {
        scan_.skipped.push_back({folder + "/" + name, "kept aside of a better result"});
      }
    }
  }

  void read_all() {
    // Threads that would have but a few files each cost more than they bring.
    constexpr size_t kFilesPerThread = 64;
    const size_t threads = std::clamp<size_t>(candidates_.size() / kFilesPerThread, 1,
                                              std::max(1U, std::thread::hardware_concurrency()));
    std::vector<std::shared_ptr<TextPool>> pools;
    for (size_t i = 0; i < threads; ++i) pools.push_back(std::make_shared<TextPool>());
    std::vector<std::thread> helpers;
    for (size_t i = 1; i < threads; ++i) {
      helpers.emplace_back([this, pool = pools[i].get()] { read_some(*pool); });
    }
    read_some(*pools[0]);
    for (std::thread& helper : helpers) helper.join();
    scan_.texts.assign(pools.begin(), pools.end());
  }

  void read_some(TextPool& texts) {
    constexpr size_t kBlock = 32;
    ResultReader reader;
    std::string folder;
    std::unique_ptr<Directory> opened;  // of `folder`: names are looked up there, not from the root
    for (size_t begin; (begin = next_.fetch_add(kBlock)) < candidates_.size();) {
      for (size_t i = begin; i < std::min(begin + kBlock, candidates_.size()); ++i) {
        if (!opened || folder != candidates_[i].folder) {
          folder = candidates_[i].folder;
          opened = std::make_unique<Directory>(directory_ / folder);
        }
        if (opened->opened())
          read(candidates_[i], opened->descriptor(), reader, texts, outcomes_[i]);
      }
    }
  }

  static void read(const Candidate& candidate, int folder, ResultReader& reader, TextPool& texts,
                   Outcome& outcome) {
    try {
      if (!reader.load(folder, candidate.file.c_str())) return;
      outcome.result = reader.parse(candidate.key, texts);
      outcome.result->file = texts.store(candidate.path());
      outcome.result->sample = candidate.sample;
    } catch (const InputError& error) {
      outcome.problem = error.what();
    }
  }

  StoreScan collect() {
    scan_.results.reserve(outcomes_.size());
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      Outcome& outcome = outcomes_[i];
      if (outcome.result) keep(std::move(*outcome.result));
      if (outcome.problem) scan_.skipped.push_back({candidates_[i].path(), *outcome.problem});
    }
    std::stable_sort(scan_.skipped.begin(), scan_.skipped.end(),
                     [](const SkippedFile& a, const SkippedFile& b) { return a.file < b.file; });
    return std::move(scan_);
  }

  // A copy of a file is no repeat. Simulated runs are so short that they may begin together.
  void keep(StoredResult result) {
    for (auto before = scan_.results.rbegin();
         before != scan_.results.rend() && before->key == result.key &&
         before->experiment == result.experiment && result.status == Status::kValid &&
         !result.simulated();
         ++before) {
      if (before->started_at != result.started_at || before->finished_at != result.finished_at ||
          !same_values(before->measured, result.measured))
        continue;
      scan_.skipped.push_back({std::string(result.file), "a copy of " + std::string(before->file) +
                                                             ": the same times and values"});
      return;
    }
    scan_.results.push_back(std::move(result));
  }

  static bool same_values(const Record& a, const Record& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a.name(i) != b.name(i) || !(a.value(i) == b.value(i))) return false;
    }
    return true;
  }

  fs::path directory_;
  std::vector<Candidate> candidates_;
  std::vector<Outcome> outcomes_;
  std::atomic<size_t> next_ = 0;
  StoreScan scan_;
};

}  // namespace

const Scalar& Record::operator[](std::string_view name) const {
  static const Scalar kNothing;
  for (size_t i = 0; i < size(); ++i) {
    if ((*names_)[i] == name) return values_[i];
  }
  return kNothing;
}

bool StoredResult::simulated() const {
  const auto says_so = [](const Scalar& backend) {
    return backend.is_text() && backend.as_text() == "simulate";
  };
  return says_so(inputs["backend"]) || says_so(figures["backend"]);
}

void write_measurements(const fs::path& directory, const StoreScan& scan, bool lines,
                        const std::function<void(std::string_view)>& write,
                        const DevicePrices& prices) {
  ResultReader reader;
  std::string piece = lines ? "" : "[\n";
  for (size_t i = 0; i < scan.results.size(); ++i) {
    const fs::path file = directory / scan.results[i].file;
    if (!reader.load(AT_FDCWD, file.c_str())) throw InputError(file.string() + ": is gone");
    piece += reader.minified();
    if (const auto cost = token_cost(prices, scan.results[i])) {
      piece.back() = ',';  // in place of the brace
      piece += "\"cost\":" + json_text(to_json(*cost, prices)) + "}";
    }
    piece += lines || i + 1 == scan.results.size() ? "\n" : ",\n";
    if (piece.size() > size_t{1} << 20) {
      write(piece);
      piece.clear();
    }
  }
  write(piece + (lines ? "" : "]\n"));
}

StoreScan scan_results(const fs::path& directory) {
  return Scanner(directory).scan();
}

}  // namespace sftbench
