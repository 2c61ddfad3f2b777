// The data that a job trains on and is evaluated with.
#pragma once

#include <string>
#include <vector>

#include "plan/request_reader.h"

namespace sftbench {

struct ResolvedData {
  DataSource source;
  EvaluationPlan evaluation;
  bool generates = false;  // Resolution::generate_dataset
};

// Settings that have no effect on these data are noted. RunError(kData): a file is not there.
ResolvedData resolve_data(const RequestReader& request, std::vector<std::string>& notes);

}  // namespace sftbench
