#include "huggingface/snapshot_links.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of models from a Hugging Face hub; https://bford.info/cachedir/\n";

void make_link(const fs::path& target, const fs::path& link) {
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  const fs::path temporary =
      link.parent_path() / ("." + link.filename().string() + "." + std::to_string(::getpid()));
  ::unlink(temporary.c_str());
  const fs::path relative = target.lexically_relative(link.parent_path());
  if (::symlink(relative.c_str(), temporary.c_str()) == 0 &&
      ::rename(temporary.c_str(), link.c_str()) == 0) {
    return;
  }
  const std::string reason = std::strerror(errno);
  ::unlink(temporary.c_str());
  throw RunError(ReasonCode::kWeights, "cannot link " + link.string() + ": " + reason);
}

}  // namespace

fs::path copy_in_snapshot(const HubRepository& repository, const std::string& commit,
                          const HubFile& file) {
  const fs::path place = repository.snapshot(commit) / file.path;
  std::error_code error;
  const bool copy = fs::symlink_status(place, error).type() == fs::file_type::regular &&
                    fs::file_size(place, error) == file.size_bytes;
  return copy ? place : fs::path();
}

bool is_linked(const HubRepository& repository, const std::string& commit, const HubFile& file) {
  if (!copy_in_snapshot(repository, commit, file).empty()) return true;
  const fs::path place = repository.snapshot(commit) / file.path;
  std::error_code error;
  const fs::path target = (place.parent_path() / fs::read_symlink(place, error)).lexically_normal();
  if (error || target != repository.blob(file.oid).lexically_normal()) return false;
  return fs::file_size(place, error) == file.size_bytes && !error;
}

void write_snapshot(const HubRepository& repository, const std::string& revision,
                    const std::string& commit, const std::vector<HubFile>& files) {
  for (const HubFile& file : files) {
    if (is_linked(repository, commit, file)) continue;
    make_link(repository.blob(file.oid), repository.snapshot(commit) / file.path);
  }
  if (revision == commit) return;
  const fs::path reference = repository.reference(revision);
  try {
    std::error_code error;
    if (fs::is_regular_file(reference, error) && read_file(reference) == commit) return;
    write_file_atomic(reference, commit);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kWeights, error.what());
  }
}

void tag_cache_folder(const fs::path& cache) {
  const fs::path tag = cache / "CACHEDIR.TAG";
  std::error_code error;
  if (fs::exists(tag, error)) return;
  try {
    write_file_atomic(tag, kCacheTag);
  } catch (const InputError&) {
  }
}

}  // namespace sftbench
