// The batch that a file of LLMForge leaves open. Its service takes it from a table of earlier runs,
// this program from the prediction of memory.
#pragma once

#include <vector>

#include "cli/selection.h"
#include "sftbench/space/space.h"

namespace sftbench {

// Makes `given`'s batch_size, which is one entry for each device, the largest of 1, 2, 4, ... 64
// for each that is predicted to fit. It stays where the space has several entities, or nothing is
// known of the GPU.
void fit_batch(const LoadedSpace& loaded, const Selection& selection,
               std::vector<GivenValue>& given);

}  // namespace sftbench
