// Goes on from a checkpoint: every rank reads the elements that it owns, and no others, from
// whichever files hold them, so that the number of ranks, the strategy and the form of the files
// may be others than when it was saved.
//
// Under the same layout all goes on in the same bits. Under another one the states of an optimizer
// that has one value for each element do, too; those of 8 and 4 bits are rounded anew; those of
// whole matrices (factored squares, GaLore's projections) are refused.
#pragma once

#include <string>
#include <vector>

#include "engine/trained_state.h"

namespace sftbench {

struct Resumed {
  TrainingProgress progress;
  std::vector<std::string> notes;  // where it goes on in another way than one run would
};

// Collective: job.save.resume_from, of which the state becomes what was saved. First the ranks read
// all of its files once, together, and hold them to their checksums. RunError(kWeights) naming each
// file that is missing, damaged or of another checkpoint; RunError(kUnsupported) naming every
// difference to the job that saved it, or the state that does not fit.
Resumed resume(const TrainingJob& job, int64_t total_steps, TrainedState& state);

}  // namespace sftbench
