// What a sweep keeps of its trainings: one folder for each measurement, named as its result.
#pragma once

#include <functional>
#include <string>

#include "cli/save_options.h"
#include "sftbench/sweep/cell.h"

namespace sftbench {

// For SweepOptions::keep. InputError for what is wrong for every cell. `results`: the folder of -o.
std::function<void(const Cell&, TrainingJob&)> keeping(const SaveOptions& save,
                                                       const std::string& results,
                                                       const std::string& backend);

}  // namespace sftbench
