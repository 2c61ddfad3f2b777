// `predict --exact`: the prediction's memory beside that of a rehearsal (launch/rehearsal.h).
#pragma once

#include "cli/definition_list.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/launch/rehearsal.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

struct ExactPrediction {
  Rehearsal rehearsal;
  RehearsedGpu gpu;
  Fit fit = Fit::kUnknown;
  bool assumes_even_experts = false;  // of a mixture, because the rehearsal computes no router
};

// Makes the job's dataset if it is not there. InputError when the job is not for a GPU that
// config/gpus.yaml knows.
ExactPrediction predict_exactly(const Resolution& resolution, const Prediction& prediction);

Definitions exact_lines(const ExactPrediction& exact, const Prediction& prediction);
Json exact_json(const ExactPrediction& exact);

}  // namespace sftbench
