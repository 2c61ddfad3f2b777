// The small runs of `doctor --probe`. The engine trains them, and the cost model is held to what
// they took: products, caches and the host's work beside each other, which no operator alone shows.
// No published model has these shapes.
#pragma once

#include <vector>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// Full tuning and LoRA of a Llama with 28 M parameters, on rows of random tokens: few and many
// positions, recomputed and kept. The order is part of the probe's schema.
// `data`: JSONL with one field input_ids for each entry, of kProbeLength tokens or more.
std::vector<TrainingJob> probe_jobs(ParameterDtype dtype, const std::string& data);

inline constexpr int64_t kProbeLength = 128, kProbeVocabulary = 8192;
inline constexpr int64_t kProbeSteps = 5;  // of a run, which a probe repeats

}  // namespace sftbench
