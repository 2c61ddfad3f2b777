#include "sftbench/huggingface/fetch.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "huggingface/blob_download.h"
#include "huggingface/http.h"
#include "huggingface/listing.h"
#include "huggingface/snapshot_links.h"
#include "huggingface/verified_blobs.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestListingBytes = size_t{16} << 20;
constexpr uint64_t kLargestIndexBytes = uint64_t{64} << 20;
constexpr uint64_t kLargestCardBytes = uint64_t{16} << 20;

// One model or dataset between its listing and its snapshot.
struct RepositoryFetch {
  FetchedRepository result;
  HubRepository repository;
  std::vector<HubFile> files;
};

// A blob and the models that wait for it.
struct SharedTask {
  BlobTask blob;
  std::vector<size_t> models;  // or datasets
};

// Of several models: each one's sizes are checked (huggingface/listing.h), their sum is not.
uint64_t sum_of_sizes(uint64_t a, uint64_t b) {
  return a + std::min(b, std::numeric_limits<uint64_t>::max() - a);
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string get_text(HttpSession& session, const std::string& url, const std::string& what,
                     const HubRepository& repository, const FetchSettings& settings) {
  std::string text;
  with_retries(settings, [&] {
    text.clear();
    const HttpReply reply = session.get(url, 0, [&](const HttpReply&, std::string_view piece) {
      if (text.size() + piece.size() > kLargestListingBytes)
        throw HttpError(what + ": the answer does not end; is this a hub?", false);
      text += piece;
    });
    if (reply.status != 200) throw status_error(reply, what, repository, settings.endpoint);
  });
  return text;
}

// The content of a file that says which others are needed.
std::string read_now(RepositoryFetch& model, const HubListing& listing, const HubFile& file,
                     uint64_t most_bytes, const char* what, HttpSession& session,
                     const FetchSettings& settings) {
  if (file.size_bytes > most_bytes) {
    throw HttpError(file.path + " of " + model.repository.id() + " has " +
                        std::to_string(file.size_bytes) + " bytes by the hub's list; " + what +
                        " has at most " + std::to_string(most_bytes),
                    false);
  }
  const std::string url = file_url(settings.endpoint, model.repository, listing.commit, file.path);
  model.result.transferred_bytes +=
      fetch_blob(session, {model.repository, file, url, true, {}}, settings, [](int64_t) {});
  return read_file(model.repository.blob(file.oid));
}

FileSelection select_files_of(RepositoryFetch& model, const HubListing& listing,
                              HttpSession& session, const FetchSettings& settings) {
  const FetchRequest& request = model.result.request;
  const bool dataset = request.kind == RepositoryKind::kDataset;
  if (!dataset && !request.weights) {
    if (listing.find("config.json") == nullptr)
      throw HttpError(request.hub_id + " has no config.json", false);
    return select_descriptions(listing);
  }
  std::string text;
  if (const HubFile* file = dataset ? dataset_card(listing) : shard_index(listing)) {
    text = read_now(model, listing, *file, dataset ? kLargestCardBytes : kLargestIndexBytes,
                    dataset ? "a card" : "an index of shards", session, settings);
  }
  return dataset ? select_dataset_files(listing, text, request.part, request.hub_id)
                 : select_files(listing, text, request.hub_id);
}

// Fills in commit and files.
void resolve(RepositoryFetch& model, HttpSession& session, const FetchSettings& settings) {
  FetchedRepository& result = model.result;
  const FetchRequest& request = result.request;
  const std::string what = "revision '" + request.revision + "' of " + request.hub_id;
  const HubListing listing = parse_listing(
      get_text(session, listing_url(settings.endpoint, request), what, model.repository, settings),
      model.repository);
  FileSelection selection = select_files_of(model, listing, session, settings);
  if (!selection.warning.empty()) settings.log(FetchLog::kWarning, selection.warning);
  result.commit = listing.commit;
  model.files = std::move(selection.files);
  result.files = static_cast<int>(model.files.size());
  for (const HubFile& file : model.files) result.size_bytes += file.size_bytes;
}

// What is not known to be here and right, each blob once, large ones first: the last to end is
// small.
std::vector<SharedTask> doubtful_blobs(const std::vector<RepositoryFetch>& models,
                                       const FetchSettings& settings) {
  std::map<fs::path, SharedTask> by_place;
  for (size_t i = 0; i < models.size(); ++i) {
    const RepositoryFetch& model = models[i];
    for (const HubFile& file : model.files) {
      const std::string& commit = model.result.commit;
      const fs::path copy = copy_in_snapshot(model.repository, commit, file);
      const fs::path blob = model.repository.blob(file.oid);
      if (is_linked(model.repository, commit, file) &&
          is_remembered(model.repository, file.oid, copy.empty() ? blob : copy)) {
        continue;
      }
      const auto [place, fresh] = by_place.try_emplace(
          blob, SharedTask{{model.repository,
                            file,
                            file_url(settings.endpoint, model.repository, commit, file.path),
                            false,
                            {}},
                           {}});
      SharedTask& task = place->second;
      if (copy.empty()) task.blob.linked = true;
      if (!copy.empty()) task.blob.copies.push_back(copy);
      if (fresh || task.models.back() != i) task.models.push_back(i);
    }
  }
  std::vector<SharedTask> tasks;
  for (auto& [place, task] : by_place) tasks.push_back(std::move(task));
  std::stable_sort(tasks.begin(), tasks.end(), [](const SharedTask& a, const SharedTask& b) {
    return a.blob.file.size_bytes > b.blob.file.size_bytes;
  });
  return tasks;
}

void check_disk_space(const std::vector<SharedTask>& tasks, const fs::path& cache) {
  uint64_t needed_bytes = 0;
  for (const SharedTask& task : tasks)
    needed_bytes = sum_of_sizes(needed_bytes, task.blob.file.size_bytes - bytes_at_hand(task.blob));
  fs::path existing = fs::absolute(cache);
  std::error_code error;
  while (!fs::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  struct statvfs status {};
  if (::statvfs(existing.c_str(), &status) != 0) return;  // then the first write will tell
  const uint64_t free_bytes = uint64_t{status.f_bavail} * status.f_frsize;
  if (needed_bytes <= free_bytes) return;
  throw RunError(ReasonCode::kWeights, "there is not enough room in " + cache.string() + ": " +
                                           gibibytes(needed_bytes) + " are to come, " +
                                           gibibytes(free_bytes) + " are free");
}

// Works the tasks off on several connections, while the calling thread shows how it goes.
class Transfer {
 public:
  Transfer(std::vector<SharedTask> tasks, std::vector<RepositoryFetch>& models,
           const FetchSettings& settings)
      : tasks_(std::move(tasks)), models_(models), settings_(settings) {
    for (const SharedTask& task : tasks_)
      total_bytes_ = sum_of_sizes(total_bytes_, task.blob.file.size_bytes);
  }

  // False when it was canceled.
  bool run() {
    const size_t count =
        std::min(tasks_.size(), static_cast<size_t>(std::max(1, settings_.connections)));
    std::vector<std::thread> workers;
    running_ = count;
    for (size_t i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::duration<double>(settings_.progress_s),
                            [this] { return running_ == 0; })) {
      show(lock);
    }
    if (!tasks_.empty()) show(lock);
    lock.unlock();
    for (std::thread& worker : workers) worker.join();
    return !cancelled_;
  }

 private:
  void work() {
    HttpSession session(settings_);
    for (size_t i = next_++; i < tasks_.size() && !cancelled_; i = next_++) {
      if (nobody_waits(tasks_[i])) continue;
      try {
        fetch(session, i);
      } catch (const FetchCancelled&) {
        cancelled_ = true;
      } catch (const std::exception& error) {
        fail(i, error.what());
      }
    }
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ended_.notify_one();
  }

  void fetch(HttpSession& session, size_t index) {
    const SharedTask& task = tasks_[index];
    {
      const std::lock_guard lock(mutex_);
      under_way_.insert(index);
    }
    const uint64_t came_bytes = fetch_blob(session, task.blob, settings_, [this](int64_t bytes) {
      done_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    });
    const std::lock_guard lock(mutex_);
    under_way_.erase(index);
    ++done_files_;
    models_[task.models.front()].result.transferred_bytes += came_bytes;
  }

  void fail(size_t index, const std::string& problem) {
    const std::lock_guard lock(mutex_);
    under_way_.erase(index);
    for (size_t i : tasks_[index].models) {
      if (models_[i].result.problem.empty()) models_[i].result.problem = problem;
    }
  }

  // A model that lacks one file needs no others.
  bool nobody_waits(const SharedTask& task) {
    const std::lock_guard lock(mutex_);
    return std::all_of(task.models.begin(), task.models.end(),
                       [this](size_t i) { return !models_[i].result.problem.empty(); });
  }

  void show(std::unique_lock<std::mutex>& lock) {
    const FetchProgress progress{
        static_cast<uint64_t>(std::max<int64_t>(0, done_bytes_.load(std::memory_order_relaxed))),
        total_bytes_, done_files_, static_cast<int>(tasks_.size()),
        under_way_.empty() ? "" : tasks_[*under_way_.begin()].blob.file.path};
    lock.unlock();
    settings_.progress(progress);
    lock.lock();
  }

  std::vector<SharedTask> tasks_;
  std::vector<RepositoryFetch>& models_;  // their results are guarded by mutex_
  const FetchSettings& settings_;
  uint64_t total_bytes_ = 0;
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> done_bytes_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t running_ = 0;
  int done_files_ = 0;
  std::set<size_t> under_way_;  // tasks; the first is the largest
};

// Runs `step` for each model that has had no problem; false when it was canceled.
template <typename Step>
bool for_each_sound(std::vector<RepositoryFetch>& models, const Step& step) {
  for (RepositoryFetch& model : models) {
    if (!model.result.problem.empty()) continue;
    try {
      step(model);
    } catch (const FetchCancelled&) {
      return false;
    } catch (const std::exception& error) {
      model.result.problem = error.what();
      model.files.clear();
    }
  }
  return true;
}

bool fetch_all(std::vector<RepositoryFetch>& models, const FetchSettings& settings) {
  {
    HttpSession session(settings);
    if (!for_each_sound(models, [&](RepositoryFetch& model) { resolve(model, session, settings); }))
      return false;
  }
  std::vector<SharedTask> tasks = doubtful_blobs(models, settings);
  check_disk_space(tasks, settings.cache);
  if (!Transfer(std::move(tasks), models, settings).run()) return false;
  tag_cache_folder(settings.cache);
  return for_each_sound(models, [](RepositoryFetch& model) {
    FetchedRepository& result = model.result;
    write_snapshot(model.repository, result.request.revision, result.commit, model.files);
    result.snapshot = model.repository.snapshot(result.commit);
  });
}

}  // namespace

FetchOutcome fetch_repositories(const std::vector<FetchRequest>& requests,
                                const FetchSettings& settings) {
  std::mutex log_mutex;
  FetchSettings serial = settings;
  serial.log = [&](FetchLog level, const std::string& text) {
    const std::lock_guard lock(log_mutex);
    settings.log(level, text);
  };
  std::vector<RepositoryFetch> models;
  for (const FetchRequest& request : requests) {
    models.push_back({{}, HubRepository(settings.cache, request.hub_id, request.kind), {}});
    models.back().result.request = request;
  }

  FetchOutcome outcome;
  outcome.interrupted = !fetch_all(models, serial);
  for (RepositoryFetch& model : models) {
    if (model.result.snapshot.empty() && model.result.problem.empty())
      model.result.problem = "interrupted; the same command goes on from here";
    outcome.repositories.push_back(std::move(model.result));
  }
  return outcome;
}

}  // namespace sftbench
