#include "sftbench/data/entry_file.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/data/parquet_library.h"

namespace sftbench {
namespace {

JsonlFile open_file(const std::filesystem::path& path, int64_t most) {
  if (path.extension() != ".parquet" && path.extension() != ".arrow") return JsonlFile(path, most);
  const std::unique_ptr<ParquetLibrary> library = load_parquet_library();
  const std::unique_ptr<ParquetRows> rows = library->read_rows(path);
  int64_t read = 0;
  return JsonlFile([&](std::string& row) { return read++ < most && rows->read_next(row); },
                   path.string(), rows->left_out());
}

// Said before the first file is read, whichever of them are: who looks at the first entry alone finds
// it, too. A file by itself says so when it is read.
void refuse_empty(const std::vector<std::filesystem::path>& files) {
  if (files.size() < 2) return;
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    if (std::filesystem::file_size(file, error) != 0 || error) continue;
    throw InputError({finding(file, {}, "the file is empty",
                              "entries in every file of the folder; move it elsewhere")});
  }
}

}  // namespace

Entries open_entries(const std::filesystem::path& path, int64_t most) {
  const std::vector<std::filesystem::path> paths = data_files(path);
  refuse_empty(paths);
  std::vector<JsonlFile> files;
  for (const std::filesystem::path& file : paths) {
    files.push_back(open_file(file, most));
    most -= std::min(most, files.back().size());
    if (most == 0) break;
  }
  return Entries(std::move(files));
}

}  // namespace sftbench
