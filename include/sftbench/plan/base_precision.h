// What a model was saved in beside what it is trained in. "Distributed SFT Part 2": the precision
// of training has to match the base model's.
#pragma once

#include <string>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// Why tuning does not train weights of the form that config.json says, dense, GPTQ or NF4: each has
// a method of its own. Empty: it does.
std::string weights_refusal(const ModelSource& model, TuningMethod tuning);

// Why float16 may fail over weights that were trained in bfloat16; empty: it is something else. Of
// all combinations this one alone loses range: float16 ends at 65504, and float32 and bfloat16
// at 3.4e38. bfloat16 over float16 or float32 rounds weights to 8 bits, which is the experiments'
// own default, and float32 holds all of them. Quantized weights are float16 by rule, and random
// ones were trained in nothing.
std::string narrower_range_warning(const TrainingJob& job);

}  // namespace sftbench
