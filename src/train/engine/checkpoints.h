// When a run writes files. The step loop calls one verb between two steps; most runs write nothing.
// Every folder is there whole or not at all (checkpoint/saved_folder.h): all ranks have written
// their files before rank 0 gives it its name, and whatever ends one of them before leaves what was
// there as it was.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/trained_state.h"
#include "sftbench/measure/events.h"

namespace sftbench {

class Checkpoints {
 public:
  virtual ~Checkpoints() = default;

  // Collective, after each step; `last`: none follows. Seconds that it took. What cannot be written
  // is among unsaved(), and the training is worth as much without it.
  virtual double after_step(const TrainingProgress& progress, bool last) = 0;

  virtual const std::vector<SavedFolder>& saved() const = 0;
  virtual const std::vector<UnsavedFolder>& unsaved() const = 0;
};

// As job.save says. Collective: makes the folder of checkpoints, rids it of what was left
// half-written, and keeps other runs out of it and of the model's place. RunError(kUnsupported)
// when a rank does not see the files of the others, or for a choice that is not known.
// RunError(kWeights) when a folder cannot be written to, another run writes there, or there is no
// room for what will be written.
std::unique_ptr<Checkpoints> make_checkpoints(const TrainingJob& job, int64_t total_steps,
                                              const TrainedState& state);

// What a measurement has to say of these choices; often nothing.
std::vector<std::string> notes_on_saving(const TrainingJob& job, const TrainedState& state);

}  // namespace sftbench
