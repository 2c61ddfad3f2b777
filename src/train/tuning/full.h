// Full fine-tuning: every parameter trains.
#pragma once

#include <memory>

#include "sftbench/tuning/tuning.h"

namespace sftbench {

std::unique_ptr<Tuning> make_full_tuning(const TuningOptions& options);

}  // namespace sftbench
