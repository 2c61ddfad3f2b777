// What the command line says of a training of one's own, looked at before anything starts.
#pragma once

#include "cli/selection.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// A mistake of the command line concerns every cell, so no measurement begins. InputError in four
// cases:
//  - The folder of --model lacks a file of a model, or cannot be read. So with --tokenizer.
//  - The data need a chat template, and the tokenizer has none.
//  - An option of training contradicts another one, or the model: --lora-targets, --lora-r,
//    --eval-split.
//  - The first entry of a set, or of what is evaluated, cannot be trained on.
// With a space's file, or of --set alone, nothing is checked here, because each cell has its own
// verdict.
void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options);

}  // namespace sftbench
