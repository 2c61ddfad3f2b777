#include "sftbench/data/parquet_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libsftbench_parquet.so";
constexpr const char* kAdvice =
    "; build it with: bash experiments/setup.sh sftbench sftbench_parquet";

template <typename Function>
Function symbol(void* library, const char* name, const fs::path& path) {
  auto* found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr) {
    throw RunError(ReasonCode::kUnsupported, path.string() +
                                                 " is not a Parquet library of sftbench: it has no "
                                                 "function " +
                                                 name);
  }
  return found;
}

std::unique_ptr<ParquetLibrary> load(const fs::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    throw RunError(ReasonCode::kUnsupported,
                   "the Parquet library cannot be loaded: " + reason + kAdvice, reason);
  }
  const std::string version =
      symbol<ParquetVersionFunction>(library, kParquetVersionSymbol, path)();
  if (version != SFTBENCH_VERSION) {
    throw RunError(ReasonCode::kUnsupported, path.string() + " is of sftbench " + version +
                                                 ", but this is sftbench " + SFTBENCH_VERSION +
                                                 ": build both together");
  }
  return std::unique_ptr<ParquetLibrary>(
      symbol<CreateParquetLibraryFunction>(library, kCreateParquetLibrarySymbol, path)());
}

}  // namespace

std::vector<fs::path> parquet_library_candidates() {
  if (const char* file = std::getenv("SFTBENCH_PARQUET"); file != nullptr && *file != '\0') {
    return {file};
  }
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {folder / kFileName, folder.parent_path() / "lib" / "sftbench" / kFileName};
}

std::unique_ptr<ParquetLibrary> load_parquet_library() {
  std::vector<std::string> tried;
  for (const fs::path& path : parquet_library_candidates()) {
    if (fs::exists(path)) return load(path);
    tried.push_back(path.string());
  }
  throw RunError(ReasonCode::kUnsupported, std::string("reading and writing Parquet needs ") +
                                               kFileName + ", which was not found; looked for " +
                                               join(tried) + kAdvice);
}

}  // namespace sftbench
