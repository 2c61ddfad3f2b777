// Loads the training half (libsftbench_engine.so, and libtorch with it) when a command is about to
// train: commands that do not train answer without paying for it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/engine/engine.h"

namespace sftbench {

// Where the library is looked for: SFTBENCH_ENGINE (a file) if it is set, else beside the
// executable (build tree), else in ../lib/sftbench (installed).
std::vector<std::filesystem::path> engine_library_candidates();

// The first candidate that exists. RunError(kUnsupported) naming the places when there is none, the
// loader's own words when it cannot be loaded (a libtorch that is missing), both versions when it
// belongs to another version of the program. The library is never unloaded: libtorch's threads and
// static objects live until the process ends.
std::unique_ptr<Engine> load_engine();
std::unique_ptr<Engine> load_engine(const std::vector<std::filesystem::path>& candidates);

}  // namespace sftbench
