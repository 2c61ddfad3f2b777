#include "sftbench/base/companion_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message, const std::string& evidence = {}) {
  throw RunError(ReasonCode::kUnsupported, message, evidence);
}

fs::path first_that_exists(const CompanionLibrary& library,
                           const std::vector<fs::path>& candidates) {
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [](const fs::path& path) { return fs::exists(path); });
  if (found != candidates.end()) return *found;
  std::vector<std::string> tried;
  for (const fs::path& path : candidates) tried.push_back(path.string());
  refuse(std::string(library.purpose) + " needs " + library.file_name +
         ", which was not found; looked for " + join(tried) + library.advice);
}

}  // namespace

std::vector<fs::path> candidates_of(const CompanionLibrary& library) {
  if (const char* file = std::getenv(library.override_variable); file != nullptr && *file != '\0')
    return {file};
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {folder / library.file_name,
          folder.parent_path() / "lib" / "sftbench" / library.file_name};
}

LoadedCompanion::LoadedCompanion(const CompanionLibrary& library,
                                 const std::vector<fs::path>& candidates)
    : library_(library), path_(first_that_exists(library, candidates)) {
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const std::string reason = ::dlerror();
    refuse(std::string(library_.purpose) + " cannot load its library: " + reason + library_.advice,
           reason);
  }
  const std::string version = function<const char* (*)()>(library_.version_symbol)();
  if (version != library_.version) {
    refuse(path_.string() + " is of sftbench " + version + ", but this is sftbench " +
           library_.version + ": build both together");
  }
  // Builds of before there was a digest do not have the function.
  void* const found = ::dlsym(handle_, library_.interface_symbol);
  const std::string interface =
      found == nullptr ? "" : reinterpret_cast<const char* (*)()>(found)();
  if (interface != library_.interface) {
    refuse(path_.string() + " is of another build of sftbench " + version +
           ", whose interface differs from this program's: build both together");
  }
}

void* LoadedCompanion::find(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (found == nullptr) {
    refuse(path_.string() + " is no " + library_.file_name + " of sftbench: it has no function " +
           symbol);
  }
  return found;
}

}  // namespace sftbench
