// The other way of save_state.h: reads into a run's model and optimizer what a folder has of the
// elements that this rank owns.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/trained_state.h"
#include "sftbench/base/json.h"

namespace sftbench {

// How the ranks shared the parameters when they were saved, and in which form.
struct SavedLayout {
  std::string format;
  std::string strategy;
  int64_t ranks = 1;
};

// Numbers of a state, by state_key(). Counters count updates or steps, so none exceeds the forward
// passes of the run that saved them.
struct SavedNumbers {
  Json numbers;
  int64_t most_counted = 0;
};

// InputError: parameters that are missing, or of another shape.
void restore_parameters(const std::filesystem::path& folder, const SavedLayout& layout,
                        const TrainedState& state);

// Notes on what is not in the same bits. RunError(kUnsupported) naming a state that cannot be cut
// as this layout needs it. InputError: a number that is missing or cannot be one of a run.
std::vector<std::string> restore_optimizer(const std::filesystem::path& folder,
                                           const SavedLayout& layout, const SavedNumbers& saved,
                                           const TrainedState& state);

void restore_loss_scaling(const std::filesystem::path& folder, const SavedNumbers& saved,
                          const TrainedState& state);

}  // namespace sftbench
