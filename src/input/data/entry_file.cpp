#include "sftbench/data/entry_file.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/csv_rows.h"
#include "data/file_bytes.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/data/parquet_library.h"

namespace sftbench {
namespace {

// More files than these are opened anew for each entry: a process may hold 1024 open.
constexpr size_t kMostHeldOpen = 64;

JsonlFile open_table(const std::filesystem::path& path, int64_t most,
                     std::shared_ptr<SpillFile> kept) {
  const std::unique_ptr<ParquetLibrary> library = load_parquet_library();
  const std::unique_ptr<ParquetRows> rows = library->read_rows(path);
  int64_t read = 0;
  const JsonlFile::NextRow next = [&](std::string& row, int&) {
    return read++ < most && rows->read_next(row);
  };
  return JsonlFile(next, path.string(), rows->left_out(), std::move(kept));
}

JsonlFile open_file(const std::filesystem::path& path, int64_t most, JsonlFile::Opened opened,
                    const std::shared_ptr<SpillFile>& kept) {
  const std::string kind = unpacked_extension(path);
  const bool table = kind == ".arrow" || is_parquet(path);
  const Packing packing = packing_of(path, table);
  if (table) return open_table(path, most, kept);
  const bool csv = kind == ".csv" || kind == ".tsv";
  if (!csv && packing == Packing::kNone) return JsonlFile(path, most, opened);
  std::unique_ptr<FileBytes> bytes = open_bytes(path, packing);
  if (!csv) return JsonlFile([&] { return bytes->next(); }, path.string(), most, kept);
  CsvRows rows(std::move(bytes), path.string(), kind == ".tsv" ? '\t' : ',');
  int64_t read = 0;
  const JsonlFile::NextRow next = [&](std::string& row, int& number) {
    return read++ < most && rows.next(row, number);
  };
  return JsonlFile(next, path.string(), {}, kept);
}

// Said before the first file is read, whichever of them are: who looks at the first entry alone
// finds it, too. A file by itself says so when it is read.
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
  const std::string slice = slice_of_data(path);
  if (!slice.empty()) most = entries_that_decide(slice);
  refuse_empty(paths);
  const auto opened =
      paths.size() > kMostHeldOpen ? JsonlFile::Opened::kWhenRead : JsonlFile::Opened::kAlways;
  const auto kept = std::make_shared<SpillFile>();
  std::vector<JsonlFile> files;
  for (const std::filesystem::path& file : paths) {
    files.push_back(open_file(file, most, opened, kept));
    most -= std::min(most, files.back().size());
    if (most == 0) break;
  }
  Entries entries(std::move(files));
  entries.take_slice(slice);
  if (entries.size() == 0 && !slice.empty())
    throw InputError({finding(path, {}, "the slice " + slice + " has no entry", "a larger one")});
  return entries;
}

}  // namespace sftbench
