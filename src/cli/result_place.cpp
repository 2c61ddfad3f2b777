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
  claims_ = make_claims(output, choose_claims(output).kind);
  claim_ = claims_->acquire(experiment_, key_);
  for (const std::filesystem::path& file : claim_->files()) watcher_.remove_when_interrupted(file);
  folder_.emplace(store_.directory() / experiment_);
  remove_unfinished(store_.directory() / experiment_, key_);
}

ResultPlace::~ResultPlace() {
  // From here on the name may be that of another process's lock.
  if (!claim_) return;
  for (const std::filesystem::path& file : claim_->files()) watcher_.forget(file);
}

ResultPlace::Kept ResultPlace::write(const Measurement& measurement) const {
  Kept kept;
  kept.lost = folder_->gone();
  std::filesystem::path path;
  try {
    path = store_.write(measurement, key_, 1,
                        [this](const std::filesystem::path& file, std::string_view content) {
                          claim_->publish(file, content);
                        });
  } catch (const ClaimLost& lost) {
    throw KeyBusy(std::string(lost.what()));
  }
  const std::filesystem::path first = store_.result_path(experiment_, key_);
  kept.where = path.string();
  kept.path = path;
  if (path != first && measurement.status == Status::kValid) {
    kept.where += ": a repeat of " + first.string() + ", which stays";
  } else if (path != first) {
    const std::string_view standing = to_string(*store_.status_of(experiment_, key_));
    kept.where += ": " + first.string() + " is " + std::string(standing) + " and stays";
    kept.gave_way = true;
  }
  if (!kept.lost) kept.lost = folder_->gone();
  return kept;
}

void ResultPlace::Kept::tell() const {
  spdlog::log(gave_way ? spdlog::level::warn : spdlog::level::info, "wrote {}", where);
  if (!lost) return;
  spdlog::error("{} while this was measured: what it held is gone, the new result alone is there",
                *lost);
}

}  // namespace sftbench
