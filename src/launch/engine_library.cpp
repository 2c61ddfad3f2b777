#include "sftbench/launch/engine_library.h"

#include "sftbench/base/build_info.h"
#include "sftbench/base/companion_library.h"
#include "sftbench/base/waiting_threads.h"
#include "sftbench_interfaces.h"  // written at build time

namespace sftbench {
namespace {

CompanionLibrary engine_library(const char* file_name = "libsftbench_engine.so") {
  return {file_name,
          "SFTBENCH_ENGINE",
          "training",
          kEngineVersionSymbol,
          build_info().version.c_str(),
          kEngineInterfaceSymbol,
          SFTBENCH_ENGINE_INTERFACE,
          "; `sftbench doctor` tells what is missing"};
}

}  // namespace

std::vector<std::filesystem::path> engine_library_candidates(const std::string& device) {
  std::vector<std::filesystem::path> candidates = candidates_of(engine_library());
  const auto for_gpus = candidates_of(engine_library("libsftbench_engine_cuda.so"));
  if (for_gpus == candidates) return candidates;  // the environment names one for all devices
  candidates.insert(device == "cuda" ? candidates.begin() : candidates.end(), for_gpus.begin(),
                    for_gpus.end());
  return candidates;
}

std::unique_ptr<Engine> load_engine(const std::string& device) {
  return load_engine(engine_library_candidates(device));
}

std::unique_ptr<Engine> load_engine(const std::vector<std::filesystem::path>& candidates) {
  limit_spinning();
  const LoadedCompanion library(engine_library(), candidates);
  return std::unique_ptr<Engine>(library.function<CreateEngineFunction>(kCreateEngineSymbol)());
}

}  // namespace sftbench
