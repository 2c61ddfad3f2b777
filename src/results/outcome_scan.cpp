#include "sftbench/results/outcome_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "results/lease.h"
#include "results/result_reader.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesOfOneThread = 64;

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using Stream = std::unique_ptr<DIR, CloseStream>;

bool is_result_file(std::string_view name) {
  constexpr std::string_view kEnding = ".json";
  return name.size() > kEnding.size() && name.front() != '.' &&
         name.substr(name.size() - kEnding.size()) == kEnding;
}

void refuse_folder(const fs::path& folder, const std::string& problem) {
  throw InputError({finding(folder, {}, problem, "a folder of results, as -o of sweep or run")});
}

}  // namespace

void OutcomeScan::list(const std::string& experiment, std::vector<File>& changed) {
  const Stream stream(::opendir((results_ / experiment).c_str()));
  while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
    if (!is_result_file(entry->d_name)) continue;
    ResultName name = result_name(entry->d_name);
    struct stat status = {};
    if (name.sample != 1 || ::fstatat(::dirfd(stream.get()), entry->d_name, &status, 0) != 0) {
      continue;
    }
    File file{experiment, entry->d_name, experiment + "/" + name.key, 0, 0, {}};
    file.written_s = static_cast<double>(status.st_mtim.tv_sec) +
                     1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
    file.look = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1000000007U +
                static_cast<uint64_t>(status.st_mtim.tv_nsec) * 31U +
                static_cast<uint64_t>(status.st_size);
    Known& known = known_[file.id];
    known.round = round_;
    if (std::exchange(known.look, file.look) != file.look) changed.push_back(std::move(file));
  }
}

std::vector<OutcomeScan::File> OutcomeScan::changed_files() {
  const Stream top(::opendir(results_.c_str()));
  if (!top) refuse_folder(results_, std::string("cannot list: ") + std::strerror(errno));
  std::vector<File> changed;
  const std::vector<std::string> experiments = Catalog::shipped().experiment_names();
  bool empty = true, ours = false;
  while (const dirent* entry = ::readdir(top.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    empty = false;
    // A sweep makes the folders of its experiments before their first result.
    ours = ours || name == kLeasesFolder ||
           std::find(experiments.begin(), experiments.end(), name) != experiments.end();
    if (name.front() != '.') list(name, changed);
  }
  if (!empty && !ours && known_.empty()) refuse_folder(results_, "holds no results");
  return changed;
}

void OutcomeScan::read_all(std::vector<File>& files) const {
  std::atomic<size_t> next = 0;
  const auto read_some = [&] {
    ResultReader reader;
    for (size_t i; (i = next.fetch_add(1)) < files.size();) {
      File& file = files[i];
      const fs::path path = results_ / file.experiment / file.name;
      try {
        if (!reader.load(AT_FDCWD, path.c_str())) continue;
        file.outcome = reader.parse_outcome(result_name(file.name).key);
        file.outcome->written_s = file.written_s;
      } catch (const InputError&) {
        continue;  // counted as unreadable; a report says why
      }
    }
  };
  const size_t threads = std::clamp<size_t>(files.size() / kFilesOfOneThread, 1,
                                            std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(read_some);
  read_some();
  for (std::thread& helper : helpers) helper.join();
}

void OutcomeScan::forget_vanished() {
  for (auto known = known_.begin(); known != known_.end();) {
    if (known->second.round == round_) {
      ++known;
      continue;
    }
    cells_.erase(known->first);
    known = known_.erase(known);
  }
}

void OutcomeScan::refresh() {
  ++round_;
  std::vector<File> files = changed_files();
  read_all(files);
  for (const File& file : files) {
    if (file.outcome) {
      cells_[file.id] = *file.outcome;
    } else {
      cells_.erase(file.id);
    }
  }
  forget_vanished();
  unreadable_ = static_cast<int64_t>(known_.size() - cells_.size());
}

}  // namespace sftbench
