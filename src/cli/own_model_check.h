// What the command line says of a training of one's own, looked at before anything starts.
#pragma once

#include <string>

#include "cli/selection.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// A mistake of the command line concerns every cell, so no measurement begins. InputError in four
// cases:
//  - The folder of --model lacks a file of a model, or cannot be read. So with --tokenizer.
//  - The data need a chat template, and the tokenizer has none.
//  - An option of training, or --set beside one or beside --model, contradicts another, or the
//  model.
//  - The first entry of a set, or of what is evaluated, cannot be trained on.
// With a space's file nothing is checked here, because each cell has its own verdict. Of what --set
// alone says, the first entry is.
void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options);

// The same of a job, which may have been edited: its schedule, and the first entries of data of
// one's own.
void refuse_job_mistakes(const TrainingJob& job, const std::string& path);

// A note about properties in the words of whoever gave them: "--warmup-ratio 0.1 has no effect
// ...", or the key of a file.
std::string in_given_words(std::string note, const LoadedSpace& loaded, const Selection& selection);

}  // namespace sftbench
