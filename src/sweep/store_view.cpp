#include "sftbench/sweep/store_view.h"

#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

StoreView::StoreView(const ResultStore& store, const SweepOptions& options)
    : store_(store), options_(options), began_(std::filesystem::file_time_type::clock::now()) {}

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

// What failed after this sweep began failed in a sweep beside it: to measure it here, too, would
// double the work on every cell that cannot succeed.
bool StoreView::tried_again(const Cell& cell, int sample) const {
  if (cell.attempt > 1 && cell.sample == sample) return true;
  if (!options_.retry_failed) return false;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(
      store_.result_path(cell.request.experiment, cell.key, sample), error);
  return error || written < began_;
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
