#include "sftbench/data/parquet_library.h"

#include "sftbench/base/companion_library.h"
#include "sftbench_interfaces.h"  // written at build time

namespace sftbench {
namespace {

constexpr CompanionLibrary kLibrary = {
    "libsftbench_parquet.so",
    "SFTBENCH_PARQUET",
    "reading and writing Parquet",
    kParquetVersionSymbol,
    SFTBENCH_VERSION,
    kParquetInterfaceSymbol,
    SFTBENCH_PARQUET_INTERFACE,
    "; build it with: bash experiments/setup.sh sftbench sftbench_parquet"};

}  // namespace

std::vector<std::filesystem::path> parquet_library_candidates() {
  return candidates_of(kLibrary);
}

std::unique_ptr<ParquetLibrary> load_parquet_library() {
  const LoadedCompanion library(kLibrary, parquet_library_candidates());
  return std::unique_ptr<ParquetLibrary>(
      library.function<CreateParquetLibraryFunction>(kCreateParquetLibrarySymbol)());
}

}  // namespace sftbench
