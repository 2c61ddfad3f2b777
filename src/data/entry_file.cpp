#include "sftbench/data/entry_file.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/data/parquet_library.h"

namespace sftbench {
namespace {

JsonlFile open_file(const std::filesystem::path& path, int64_t most) {
  if (path.extension() != ".parquet" && path.extension() != ".arrow") return JsonlFile(path, most);
  const std::unique_ptr<ParquetLibrary> library = load_parquet_library();
  const std::unique_ptr<ParquetRows> rows = library->read_rows(path);
  int64_t read = 0;
  return JsonlFile([&](std::string& row) { return read++ < most && rows->read_next(row); },
                   path.string());
}

}  // namespace

Entries open_entries(const std::filesystem::path& path, int64_t most) {
  std::vector<JsonlFile> files;
  for (const std::filesystem::path& file : data_files(path)) {
    files.push_back(open_file(file, most));
    most -= std::min(most, files.back().size());
    if (most == 0) break;
  }
  return Entries(std::move(files));
}

}  // namespace sftbench
