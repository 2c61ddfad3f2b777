// A training job as a file: what `run --dry-run` prints, what a result holds, what `run --job`
// reads. A fingerprint of every field goes with it, so that an edit is seen: the inputs, and with
// them key and ids, then say what is really trained.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// What --dry-run prints.
Json job_file(const TrainingJob& job);

// What a result holds: the same without what stands in the result itself. Null for a job that was
// never resolved.
Json job_in_result(const TrainingJob& job);

struct JobFile {
  TrainingJob job;
  std::vector<std::string> edited;   // "lora.rank", of fields that change what is measured
  std::vector<std::string> renewed;  // what has other content than when the job was printed
  bool gathers = false;  // parallel.context_rotation of version 0.1.0, which no run does any more
};

// Reads either of them; of a result the whole file. The job's inputs follow its edits: under the
// name of the property that the field comes from, or, where there is none, as job.<field>. They
// follow the content of the files that the job names, too. InputError, with all findings at once.
// Fields can be missing, unknown or of the wrong type. Inputs and ids must not be edited, since
// they follow from the other fields. Nor must a name be edited without the files that it names.
JobFile read_job_file(const std::string& path);

// As resolve() does it for a space whose model has this config.json: RunError, kUnsupported for a
// family that this version does not train, kWeights for all else that cannot be done. `path` is the
// job's.
void refuse_unfit_model(const TrainingJob& job, const std::string& path);

}  // namespace sftbench
