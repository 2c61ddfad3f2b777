// A model of one's own in keys: what is in its folder, in place of where the folder lies.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// Adds digests of what a run reads of an own model: model_config, model_weights unless they are
// random, model_tokenizer, and model_templates where entries are conversations or images. A
// tokenizer of its own becomes a digest in place of its name. REQUIRES: options.own_model. What
// cannot be read, or is not at hand, is refused where it is read.
void name_own_model(Json& inputs, const ResolveOptions& options);

// Without what the others say better (plan/content_names.h).
Json without_names(const Json& inputs);

// Digests among the inputs of a stored job that the files it names do not have any more become
// those that they have. Returns what has changed, as "the files of /data/pairs.json".
std::vector<std::string> renew_content(TrainingJob& job);

}  // namespace sftbench
