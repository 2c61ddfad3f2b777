// The data that a job trains on and is evaluated with.
#pragma once

#include "plan/request_reader.h"

namespace sftbench {

struct ResolvedData {
  DataSource source;
  EvaluationPlan evaluation;
  bool generates = false;  // Resolution::generate_dataset
};

// RunError(kData): a file is not there.
ResolvedData resolve_data(const RequestReader& request);

}  // namespace sftbench
