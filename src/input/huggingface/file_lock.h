// An advisory lock on a file, as huggingface_hub takes it (filelock's UnixFileLock: flock), so that
// its processes and ours exclude each other.
#pragma once

#include <filesystem>
#include <functional>

namespace sftbench {

class FileLock {
 public:
  // Waits until the lock is free; `waiting` is called while it is not, between short naps, and may
  // throw to give up. InputError when the file cannot be made. A file system without flock gives a
  // lock that excludes nobody: blobs are renamed into place whole, so that costs traffic only.
  FileLock(const std::filesystem::path& path, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace sftbench
