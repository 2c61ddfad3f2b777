// One lock per measurement key: no two processes measure one key at the same time. They may be
// sweeps or runs, on one machine or on several that share the folder. NFSv4 is specified to pass
// these open-file-description locks on to its server. The lock belongs to the open file, so a child
// that inherits the descriptor keeps it even when its parent is killed. The kernel releases it when
// the last holder ends, so no lock is ever stale. The file is removed when nobody needs it. Its
// content, host and process, is for people.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

// Somebody else measures the key.
class KeyBusy : public InputError {
 public:
  using InputError::InputError;
};

// Of the key whose claim stands at `path`.
KeyBusy key_busy(const std::filesystem::path& path, const std::string& holder);

// Who has the lock at `path`, without taking it: "node1, process 77". Nothing when nobody has, or
// when it cannot be read.
std::optional<std::string> lock_holder(const std::filesystem::path& path);

class KeyLock {
 public:
  // Nothing when somebody else has it, who is named in `holder` ("host, process 123") if that is
  // known. InputError (path and the system's reason) when the file cannot be made or locked, or
  // when something else than a regular file stands there: a link is not followed.
  static std::optional<KeyLock> try_acquire(const std::filesystem::path& path,
                                            std::string* holder = nullptr);

  // The same, but KeyBusy, which names the holder.
  static KeyLock acquire(const std::filesystem::path& path);

  // Removes the file while it is still locked, then unlocks it. A file that took its place stays.
  ~KeyLock();
  KeyLock(KeyLock&& other) noexcept = default;
  KeyLock& operator=(KeyLock&& other) noexcept;

  int fd() const { return file_.get(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  KeyLock(std::filesystem::path path, OwnedFd file)
      : path_(std::move(path)), file_(std::move(file)) {}
  void release();

  std::filesystem::path path_;
  OwnedFd file_;
};

}  // namespace sftbench
