// What the command line says of a model of one's own, looked at before anything starts.
#pragma once

#include "cli/selection.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// A mistake of the command line concerns every cell, so no measurement begins. InputError in three cases:
//  - The folder of --model lacks a file of a model, or cannot be read.
//  - The data need a chat template, and the tokenizer has none.
//  - --lora-targets names no linear layer of the model.
// With a space's file nothing is checked here, because each cell has its own verdict.
void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options);

}  // namespace sftbench
