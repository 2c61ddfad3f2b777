#include "sftbench/data/parquet_library.h"

#include <array>
#include <string_view>

#include "sftbench/base/companion_library.h"
#include "sftbench/base/file.h"
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

bool is_parquet(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  constexpr std::string_view kMagic = "PAR1";
  std::array<char, kMagic.size()> begin{};
  const size_t got = RandomAccessFile(path).read_at(0, begin.data(), begin.size());
  return path.extension() == ".parquet" || std::string_view(begin.data(), got) == kMagic;
}

std::unique_ptr<ParquetLibrary> load_parquet_library() {
  const LoadedCompanion library(kLibrary, parquet_library_candidates());
  return std::unique_ptr<ParquetLibrary>(
      library.function<CreateParquetLibraryFunction>(kCreateParquetLibrarySymbol)());
}

}  // namespace sftbench
