// What the edits of a job mean for what its result says.
#pragma once

#include <string>
#include <vector>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// Brings inputs and ids of `job`, which were those of the job before it was edited, in line with
// its other fields. `edited`: "section.field" of what differs. Returns those of them that change
// what is measured. InputError (of `origin`) for what cannot be edited.
std::vector<std::string> follow_edits(TrainingJob& job, const std::vector<std::string>& edited,
                                      const std::string& origin);

}  // namespace sftbench
