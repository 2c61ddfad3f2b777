#include "sftbench/data/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

fs::path spill_folder() {
  const char* given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? fs::path(given) : user_cache_directory();
}

[[noreturn]] void fail(const fs::path& folder, const char* what) {
  throw RunError(ReasonCode::kData, std::string("data that are larger than memory holds of them "
                                                "cannot be ") +
                                        what + " in " + folder.string() + ": " +
                                        std::strerror(errno) +
                                        "; TMPDIR names another folder for them");
}

OwnedFd nameless_file(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  OwnedFd file(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (file) return file;
  // Some file systems know no files without names.
  std::string name = (folder / "sftbench-data-XXXXXX").string();
  file = OwnedFd(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) fail(folder, "kept");
  ::unlink(name.c_str());
  return file;
}

}  // namespace

SpillFile::SpillFile(size_t most_bytes_in_memory) : most_bytes_(most_bytes_in_memory) {}

uint64_t SpillFile::append(std::string_view bytes) {
  const uint64_t begin = size_bytes();
  if (bytes.empty()) return begin;
  if (in_file_ == 0 && in_memory_ + bytes.size() <= most_bytes_) {
    if (!memory_) memory_.reset(new char[most_bytes_]);
    std::memcpy(memory_.get() + in_memory_, bytes.data(), bytes.size());
    in_memory_ += bytes.size();
    return begin;
  }
  if (!file_) {
    folder_ = spill_folder();
    file_ = nameless_file(folder_);
  }
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(in_file_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(folder_, "kept");
    in_file_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return begin;
}

void SpillFile::read(uint64_t begin, char* buffer, size_t size_bytes) const {
  check(begin + size_bytes <= this->size_bytes(), "what is read was appended");
  if (size_bytes == 0) return;
  if (begin < in_memory_) {
    std::memcpy(buffer, memory_.get() + begin, size_bytes);
    return;
  }
  for (uint64_t at = begin - in_memory_; size_bytes > 0;) {
    const ssize_t got = ::pread(file_.get(), buffer, size_bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(folder_, "read");
    at += static_cast<uint64_t>(got);
    buffer += got;
    size_bytes -= static_cast<size_t>(got);
  }
}

}  // namespace sftbench
