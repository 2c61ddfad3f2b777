#include "sftbench/huggingface/check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "huggingface/blob_hash.h"
#include "huggingface/verified_blobs.h"
#include "sftbench/base/error.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr auto kProgressPeriod = std::chrono::milliseconds(100);

// A blob to hash, and the model that shows it as `name`.
struct HashTask {
  HubRepository repository;
  fs::path blob;
  std::string name;
  uint64_t size_bytes = 0;
  size_t model = 0;
};

// The blob behind one entry of a snapshot; a problem of the model when there is none to trust.
void examine_entry(const fs::directory_entry& entry, const HubRepository& repository,
                   CheckedModel& model, size_t index, std::vector<HashTask>& tasks) {
  const std::string name = entry.path().lexically_relative(model.snapshot).string();
  std::error_code error;
  ++model.files;
  if (!entry.is_symlink(error)) {  // copied without links: nothing says what its hash should be
    model.size_bytes += entry.file_size(error);
    model.problems.push_back(name + " is no link to a blob, so its content cannot be verified");
    return;
  }
  const fs::path target =
      (entry.path().parent_path() / fs::read_symlink(entry.path(), error)).lexically_normal();
  const std::string oid = target.filename().string();
  if (target.parent_path() != repository.blobs().lexically_normal() || !is_oid(oid)) {
    model.problems.push_back(name + " leads to " + target.string() + ", which is no blob of " +
                             repository.id());
    return;
  }
  const uintmax_t size_bytes = fs::file_size(target, error);
  if (error) {
    model.problems.push_back(name + ": its blob " + oid + " is not there");
    return;
  }
  model.size_bytes += size_bytes;
  tasks.push_back({repository, target, name, size_bytes, index});
}

void examine_snapshot(const fs::path& cache, CheckedModel& model, size_t index,
                      std::vector<HashTask>& tasks) {
  const HubRepository repository(cache, model.hub_id);
  const auto snapshot = hub_snapshot(cache, model.hub_id);
  if (!snapshot) {
    model.problems.push_back("is not in " + cache.string());
    return;
  }
  model.snapshot = *snapshot;
  std::error_code error;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(*snapshot)) {
      // A folder behind a link is no folder of this snapshot, and not looked into.
      if (entry.is_symlink(error) || !entry.is_directory(error))
        examine_entry(entry, repository, model, index, tasks);
    }
  } catch (const fs::filesystem_error& failure) {
    model.problems.push_back("cannot read " + failure.path1().string() + ": " +
                             failure.code().message());
  }
  for (const char* name : {"config.json", "tokenizer.json"}) {
    if (!fs::exists(*snapshot / name, error))
      model.problems.push_back(std::string(name) + " is missing");
  }
  try {
    open_checkpoint(*snapshot);
  } catch (const InputError& failure) {
    for (const Diagnostic& diagnostic : failure.diagnostics())
      model.problems.push_back(to_string(diagnostic));
  }
}

std::string hash_problem(const HashTask& task, const std::atomic<bool>& stop,
                         std::atomic<uint64_t>& done_bytes) {
  const std::string oid = task.blob.filename().string();
  const std::string stamp = file_stamp(task.blob);
  BlobHash hash(oid, task.size_bytes);
  hash_file(task.blob, task.size_bytes, hash, [&](uint64_t bytes) {
    done_bytes += bytes;
    return !stop;
  });
  if (stop) return {};
  const std::string found = hash.hexadecimal();
  // So that fetch does not read again what is right, and does not trust what is wrong.
  if (found == oid) {
    remember(task.repository, oid, task.blob, stamp);
    return {};
  }
  forget(task.repository, oid);
  return task.name + ": its hash is " + found + ", its name says " + oid;
}

// Hashes all blobs, large ones first, on `threads` threads.
void verify(std::vector<HashTask> tasks, int threads, std::vector<CheckedModel>& models,
            const std::function<void(const CheckProgress&)>& progress) {
  std::stable_sort(tasks.begin(), tasks.end(), [](const HashTask& a, const HashTask& b) {
    return a.size_bytes > b.size_bytes;
  });
  uint64_t total_bytes = 0;
  for (const HashTask& task : tasks) total_bytes += task.size_bytes;
  std::atomic<uint64_t> done_bytes = 0;
  std::atomic<size_t> next = 0;
  std::atomic<size_t> running = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size(); i = next++) {
      std::string problem;
      try {
        problem = hash_problem(tasks[i], stop, done_bytes);
      } catch (const InputError& error) {
        problem = error.what();
      }
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex);
      CheckedModel& model = models[tasks[i].model];
      model.problems.push_back(std::move(problem));
      model.spoilt.push_back(tasks[i].blob);
    }
    --running;
  };
  const size_t count = std::min(tasks.size(), static_cast<size_t>(std::max(1, threads)));
  running = count;
  std::vector<std::thread> workers;
  for (size_t i = 0; i < count; ++i) workers.emplace_back(work);
  try {
    while (running > 0) {
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(
          kProgressPeriod, std::chrono::milliseconds(1 + total_bytes / 10'000'000)));
      progress({done_bytes, total_bytes});
    }
  } catch (...) {
    stop = true;
    for (std::thread& worker : workers) worker.join();
    throw;
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

std::vector<CheckedModel> check_models(
    const std::vector<std::pair<std::string, std::string>>& names_and_ids, const fs::path& cache,
    int threads, const std::function<void(const CheckProgress&)>& progress) {
  std::vector<CheckedModel> models;
  std::vector<HashTask> tasks;
  for (const auto& [name, id] : names_and_ids) {
    models.emplace_back();
    models.back().name = name;
    models.back().hub_id = id;
    examine_snapshot(cache, models.back(), models.size() - 1, tasks);
  }
  verify(std::move(tasks), threads, models, progress);
  return models;
}

}  // namespace sftbench
