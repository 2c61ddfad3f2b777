#include "cli/result_place.h"

#include <spdlog/spdlog.h>

#include "sftbench/plan/resolve.h"
#include "sftbench/results/leftovers.h"

namespace sftbench {

ResultPlace::ResultPlace(const std::string& output, const TrainingJob& job,
                         InterruptWatcher& watcher)
    : store_(output),
      experiment_(job.experiment),
      key_(measurement_key(job.experiment, job.inputs)),
      watcher_(watcher) {
  for (const std::filesystem::path& folder : store_.probe(experiment_)) {
    watcher_.remove_when_interrupted(folder);
  }
  lock_ = KeyLock::acquire(store_.lock_path(experiment_, key_));
  watcher_.remove_when_interrupted(lock_->path());
  folder_.emplace(store_.directory() / experiment_);
  remove_unfinished(*lock_);
}

ResultPlace::~ResultPlace() {
  // From here on the name may be that of another process's lock.
  if (lock_) watcher_.forget(lock_->path());
}

bool ResultPlace::write(const Measurement& measurement) const {
  std::optional<std::string> gone = folder_->gone();
  const std::filesystem::path path = store_.write(measurement, key_);
  const std::filesystem::path first = store_.result_path(experiment_, key_);
  if (path == first) {
    spdlog::info("wrote {}", path.string());
  } else if (measurement.status == Status::kValid) {
    spdlog::info("wrote {}: a repeat of {}, which stays", path.string(), first.string());
  } else {
    const std::string_view standing = to_string(*store_.status_of(experiment_, key_));
    spdlog::warn("wrote {}: {} is {} and stays", path.string(), first.string(), standing);
  }
  if (!gone) gone = folder_->gone();
  if (!gone) return true;
  spdlog::error("{} while this was measured: what it held is gone, the new result alone is there",
                *gone);
  return false;
}

}  // namespace sftbench
