// Loads the training half (libsftbench_engine.so, and libtorch with it) when a command is about to
// train: commands that do not train answer without paying for it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/engine/engine.h"

namespace sftbench {

// Where the library is looked for (companion_library.h); SFTBENCH_ENGINE names another file.
std::vector<std::filesystem::path> engine_library_candidates();

// The first candidate that exists. RunError(kUnsupported) when there is none, when it cannot be
// loaded (a libtorch that is missing) or belongs to another version of the program.
std::unique_ptr<Engine> load_engine();
std::unique_ptr<Engine> load_engine(const std::vector<std::filesystem::path>& candidates);

}  // namespace sftbench
