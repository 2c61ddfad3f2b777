// sftbench_manifest.json lists what a saved folder consists of. It names every other file with its
// size and checksum, and the step and job that they belong to. A file that was damaged, cut, or
// taken from another folder is thus found before anything is read from it. transformers and peft
// ignore the manifest.
//
// {"schema": "sftbench.saved/1", "kind": "checkpoint", "step": 12, "job": digest of the job,
//  "format": "FULL", "files": {name: {"bytes": n, "xxh3_128": 32 hexadecimal digits}, ...},
//  "digest": XXH3-128 of this object without "digest", written by the same rules}
// The text is as Json::dump(1) writes it, and a newline: no byte of it may be another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

inline constexpr const char* kManifestFile = "sftbench_manifest.json";

// A file as it was written.
struct FileSum {
  std::string name;
  uint64_t bytes = 0;
  std::string xxh3_128;
};

// {name: {"bytes": ..., "xxh3_128": ...}, ...}, and back. Throws Json::exception.
Json to_json(const std::vector<FileSum>& sums);
std::vector<FileSum> sums_from_json(const Json& json);

// Of a run. What counts more in a file was not written by this program.
constexpr int64_t kMostStepsOfFile = int64_t{1} << 53;

struct Manifest {
  std::string kind;  // "checkpoint", which a run can go on from, or "model"
  int64_t step = 0;  // after which it was saved
  std::string job;   // digest of the job's identity
  std::string format;
  std::vector<FileSum> files;
};

// Writes a small file, whole or not at all. InputError when it cannot be written.
FileSum write_summed(const std::filesystem::path& folder, const std::string& name,
                     std::string_view text);

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// InputError naming the file: it is missing, or one of its bytes is not as it was written.
Manifest read_manifest(const std::filesystem::path& folder);

// Reads every `shares`-th file of the manifest from the `share`-th on, once, so that `shares`
// processes read all of them together. InputError naming each file that is missing, of another size
// or of other content, and every file of weights that the manifest does not know.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest, size_t share = 0,
                  size_t shares = 1);

// Reads the files of the manifest, and looks at no others. InputError as above.
void verify_named_files(const std::filesystem::path& folder, const Manifest& manifest);

// A folder whose manifest is intact, and in which nothing stands but the files that it names.
bool holds_only_saved_files(const std::filesystem::path& folder);

// A name that a saved model or checkpoint may have for one of its files.
bool is_saved_file_name(const std::string& name);

}  // namespace sftbench
