// The other way of save_state.h: reads into a run's model and optimizer what a folder has of the
// elements that this rank owns.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/trained_state.h"

namespace sftbench {

// How the ranks shared the parameters when they were saved, and in which form.
struct SavedLayout {
  std::string format;
  std::string strategy;
  int64_t ranks = 1;
};

// InputError: parameters that are missing, or of another shape.
void restore_parameters(const std::filesystem::path& folder, const SavedLayout& layout,
                        const TrainedState& state);

// `numbers` by state_key(). Notes on what is not in the same bits. RunError(kUnsupported) naming a
// state that cannot be cut as this layout needs it.
std::vector<std::string> restore_optimizer(const std::filesystem::path& folder,
                                           const SavedLayout& layout, const Json& numbers,
                                           const TrainedState& state);

void restore_loss_scaling(const std::filesystem::path& folder, const Json& numbers,
                          const TrainedState& state);

}  // namespace sftbench
