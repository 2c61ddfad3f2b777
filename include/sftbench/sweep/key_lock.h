// One lock per measurement key: no two sweeps measure one key at a time, be they on one machine or
// on several that share the folder (an open-file-description lock, which NFSv4 is specified to pass
// on to its server). The lock belongs to the open file, so a child that inherits the descriptor keeps it even
// when its parent is killed, and the kernel gives it back when the last holder ends: there are no
// stale locks to judge. The file has a name only as long as somebody needs it; its content, host
// and process, is for people.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sftbench {

class KeyLock {
 public:
  // Nothing when somebody else has it, who is named in `holder` ("host, process 123") if that is
  // known. InputError (path and the system's reason) when the file cannot be made or locked.
  static std::optional<KeyLock> try_acquire(const std::filesystem::path& path,
                                            std::string* holder = nullptr);

  // Removes the file while it is still locked, then unlocks it.
  ~KeyLock();
  KeyLock(KeyLock&& other) noexcept;
  KeyLock& operator=(KeyLock&& other) noexcept;

  int fd() const { return fd_; }

 private:
  KeyLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  void release();

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace sftbench
