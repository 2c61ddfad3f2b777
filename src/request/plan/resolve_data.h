// The data that a job trains on and is evaluated with.
#pragma once

#include "plan/request_reader.h"

namespace sftbench {

struct ResolvedData {
  DataSource source;
  EvaluationPlan evaluation;
  bool generates = false;  // Resolution::generate_dataset
};

// The datasets of the hub that the request names and that are not in the cache.
std::vector<std::string> absent_datasets(const RequestReader& request);

// RunError(kData): a file is not there.
ResolvedData resolve_data(const RequestReader& request);

}  // namespace sftbench
