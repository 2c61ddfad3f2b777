// Adapters as a request asks for them.
#pragma once

#include <string>

#include "plan/request_reader.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// All but the targets. REQUIRES: the experiment has adapters.
LoraPlan lora_plan(const RequestReader& request);

// Why they do not fit the model, whose linears are quantized or not; empty: they do. The engine
// says the same later.
std::string adapters_refusal(const LoraPlan& plan, bool quantized, const KnownModel& model);

}  // namespace sftbench
