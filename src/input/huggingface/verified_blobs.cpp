#include "huggingface/verified_blobs.h"

#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "huggingface/blob_hash.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// File systems take their times from a clock that ticks every 4 to 10 ms: a write within the tick
// of the one before would leave the stamp as it is.
constexpr auto kClockTick = std::chrono::milliseconds(20);
constexpr size_t kLongestRecord = 256;

fs::path record_of(const HubRepository& repository, const std::string& oid) {
  return repository.lock(oid).replace_extension(".verified");
}

std::string time_text(const timespec& time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

}  // namespace

std::string file_stamp(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return std::to_string(status.st_size) + " " + time_text(status.st_mtim) + " " +
         time_text(status.st_ctim) + " " + std::to_string(status.st_ino) + "\n";
}

bool is_remembered(const HubRepository& repository, const std::string& oid, const fs::path& path) {
  const fs::path record = record_of(repository, oid);
  std::error_code error;
  if (!fs::is_regular_file(record, error) || fs::file_size(record, error) > kLongestRecord)
    return false;
  try {
    const std::string stamp = file_stamp(path);
    return !stamp.empty() && read_file(record) == stamp;
  } catch (const InputError&) {
    return false;
  }
}

void remember(const HubRepository& repository, const std::string& oid, const fs::path& path,
              const std::string& stamp) {
  std::this_thread::sleep_for(kClockTick);
  const std::string now = file_stamp(path);
  if (now.empty() || (!stamp.empty() && stamp != now)) return;
  try {
    write_file_atomic(record_of(repository, oid), now);
  } catch (const InputError&) {
  }
}

void forget(const HubRepository& repository, const std::string& oid) {
  std::error_code error;
  fs::remove(record_of(repository, oid), error);
}

bool is_right(const HubRepository& repository, const HubFile& file, const fs::path& path,
              const std::function<void(uint64_t)>& on_piece) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != file.size_bytes)
    return false;
  if (is_remembered(repository, file.oid, path)) return true;
  const std::string stamp = file_stamp(path);
  BlobHash hash(file.oid, file.size_bytes);
  hash_file(path, file.size_bytes, hash, [&](uint64_t bytes) {
    on_piece(bytes);
    return true;
  });
  if (hash.hexadecimal() != file.oid) return false;
  remember(repository, file.oid, path, stamp);
  return true;
}

}  // namespace sftbench
