#include "sftbench/launch/engine_library.h"

#include "sftbench/base/companion_library.h"
#include "sftbench/base/build_info.h"

namespace sftbench {
namespace {

CompanionLibrary engine_library() {
  return {"libsftbench_engine.so",
          "SFTBENCH_ENGINE",
          "training",
          kEngineVersionSymbol,
          build_info().version.c_str(),
          "; `sftbench doctor` tells what is missing"};
}

}  // namespace

std::vector<std::filesystem::path> engine_library_candidates() {
  return candidates_of(engine_library());
}

std::unique_ptr<Engine> load_engine() {
  return load_engine(engine_library_candidates());
}

std::unique_ptr<Engine> load_engine(const std::vector<std::filesystem::path>& candidates) {
  const LoadedCompanion library(engine_library(), candidates);
  return std::unique_ptr<Engine>(library.function<CreateEngineFunction>(kCreateEngineSymbol)());
}

}  // namespace sftbench
