#include "sftbench/launch/engine_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/launch/build_info.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libsftbench_engine.so";

template <typename Function>
Function symbol(void* library, const char* name, const fs::path& path) {
  auto* found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr) {
    throw RunError(ReasonCode::kUnsupported,
                   path.string() + " is not an engine of sftbench: it has no function " + name);
  }
  return found;
}

}  // namespace

std::vector<fs::path> engine_library_candidates() {
  if (const char* file = std::getenv("SFTBENCH_ENGINE"); file != nullptr && *file != '\0') {
    return {file};
  }
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {folder / kFileName, folder.parent_path() / "lib" / "sftbench" / kFileName};
}

std::unique_ptr<Engine> load_engine() {
  return load_engine(engine_library_candidates());
}

std::unique_ptr<Engine> load_engine(const std::vector<fs::path>& candidates) {
  std::vector<std::string> tried;
  for (const fs::path& path : candidates) {
    tried.push_back(path.string());
    if (!fs::exists(path)) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const std::string reason = dlerror();
      throw RunError(ReasonCode::kUnsupported,
                     "the training engine cannot be loaded: " + reason +
                         "; `sftbench doctor` tells what is missing",
                     reason);
    }
    const std::string version =
        symbol<EngineVersionFunction>(library, kEngineVersionSymbol, path)();
    if (version != build_info().version) {
      throw RunError(ReasonCode::kUnsupported, path.string() + " is of sftbench " + version +
                                                   ", but this is sftbench " +
                                                   build_info().version + ": build both together");
    }
    return std::unique_ptr<Engine>(
        symbol<CreateEngineFunction>(library, kCreateEngineSymbol, path)());
  }
  throw RunError(ReasonCode::kUnsupported, std::string("the training engine ") + kFileName +
                                               " was not found; looked for " + join(tried));
}

}  // namespace sftbench
