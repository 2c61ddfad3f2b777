// How many bytes a run is going to save: known before its first step, so that a disk on which there
// is no room for them costs no training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/trained_state.h"

namespace sftbench {

// Of all ranks' tensors. The other files of a checkpoint are small.
struct SavedSize {
  uint64_t model_bytes = 0;
  uint64_t optimizer_bytes = 0;  // of states that exist before the first step
};

// Collective. With what a saved model takes over from the weights' directory. InputError where that
// cannot be read.
SavedSize saved_size(const TrainedState& state, const std::string& weights_directory);

// Checkpoints that are certain to stand side by side, of a run of so many steps. A run that may end
// sooner, or goes on from another, is certain of one.
int64_t certain_checkpoints(const TrainingJob& job, int64_t total_steps);

// Why there is no room for what is certain to be saved; nothing: there is, or nobody knows. Folders
// of one file system share what is free there.
std::optional<std::string> lack_of_room(const TrainingJob& job, const SavedSize& size,
                                        int64_t total_steps);

}  // namespace sftbench
