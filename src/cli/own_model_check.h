// What the command line says of a model of one's own, looked at before anything starts.
#pragma once

#include "cli/selection.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// A mistake of the command line is every cell's, so it is no measurement that failed. InputError where the
// folder of --model lacks what a model has or cannot be read, where its tokenizer has no chat template and
// the data need one, and where --lora-targets names no linear of it. Nothing else is looked at, and nothing
// where a space's file is given: there each cell has its verdict.
void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options);

}  // namespace sftbench
