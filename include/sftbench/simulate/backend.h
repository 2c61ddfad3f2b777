// The simulated engine and its simulated machine as a Backend (launch/backend.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sftbench/launch/backend.h"

namespace sftbench {

// The arguments of SimulatedEngine. `job` must outlive the backend. All ranks are simulated in this
// process.
std::unique_ptr<Backend> make_simulated_backend(const TrainingJob& job,
                                                const std::vector<std::string>& assignments,
                                                int sample, int attempt);

}  // namespace sftbench
