// Loads the training half (libsftbench_engine.so, and libtorch with it) when a command is about to
// train: commands that do not train answer without paying for it.
// There may be two of them, each with a libtorch of its own: libsftbench_engine_cuda.so trains on
// GPUs, the other one on CPUs. Where only one is there, it is asked for both devices.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/engine/engine.h"

namespace sftbench {

// Where the library that trains on `device` ("cpu" or "cuda") is looked for (companion_library.h);
// SFTBENCH_ENGINE names another file.
std::vector<std::filesystem::path> engine_library_candidates(const std::string& device);

// The first candidate that exists. RunError(kUnsupported) when there is none, when it cannot be
// loaded (a libtorch that is missing) or belongs to another version of the program.
std::unique_ptr<Engine> load_engine(const std::string& device);
std::unique_ptr<Engine> load_engine(const std::vector<std::filesystem::path>& candidates);

}  // namespace sftbench
