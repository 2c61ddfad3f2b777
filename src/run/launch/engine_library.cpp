#include "sftbench/launch/engine_library.h"

#include <algorithm>
#include <fstream>

#include "sftbench/base/build_info.h"
#include "sftbench/base/companion_library.h"
#include "sftbench/base/error.h"
#include "sftbench/base/waiting_threads.h"
#include "sftbench_interfaces.h"  // written at build time

namespace sftbench {
namespace {

namespace fs = std::filesystem;

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

// The wheel sftbench-engine: PREFIX/lib/python3.12/site-packages/sftbench_engine.
std::vector<fs::path> folders_of_wheels() {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const auto& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path folder = entry.path() / packages / "sftbench_engine";
      if (fs::exists(folder, error)) found.push_back(folder);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// An engine calls the torch beside it by inline functions and layouts that hold for one minor
// version alone. Another one might load, and crash later.
void refuse_another_torch(const fs::path& engine) {
  const fs::path packages = engine.parent_path().parent_path();
  std::string wanted;
  if (!(std::ifstream(engine.parent_path() / "torch") >> wanted)) return;  // not from a wheel
  std::string there = "none";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(packages, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("torch-") || entry.path().extension() != ".dist-info") continue;
    there = entry.path().stem().string().substr(std::string("torch-").size());
    if (there.starts_with(wanted + ".")) return;
  }
  throw RunError(ReasonCode::kUnsupported, engine.string() + " needs torch " + wanted +
                                               ", and the torch of " + packages.string() + " is " +
                                               there + ": pip install 'torch==" + wanted + ".*'");
}

}  // namespace

std::vector<fs::path> engine_library_candidates(const std::string& device) {
  std::vector<fs::path> candidates = candidates_of(engine_library());
  std::vector<fs::path> for_gpus = candidates_of(engine_library("libsftbench_engine_cuda.so"));
  if (for_gpus == candidates) return candidates;  // the environment names one for all devices
  for (const fs::path& folder : folders_of_wheels()) {
    candidates.push_back(folder / "libsftbench_engine.so");
    for_gpus.push_back(folder / "libsftbench_engine_cuda.so");
  }
  candidates.insert(device == "cuda" ? candidates.begin() : candidates.end(), for_gpus.begin(),
                    for_gpus.end());
  return candidates;
}

std::unique_ptr<Engine> load_engine(const std::string& device) {
  return load_engine(engine_library_candidates(device));
}

std::unique_ptr<Engine> load_engine(const std::vector<fs::path>& candidates) {
  limit_spinning();
  for (const fs::path& path : candidates) {
    if (!fs::exists(path)) continue;
    refuse_another_torch(path);
    break;
  }
  const LoadedCompanion library(engine_library(), candidates);
  return std::unique_ptr<Engine>(library.function<CreateEngineFunction>(kCreateEngineSymbol)());
}

}  // namespace sftbench
