// A folder that is being written and does not count yet. All of its files are on the disk before it
// takes its place, and taking it never removes or overwrites anything of somebody else: where
// something stands in the way, that stays, and what was written is kept under another name.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

// Which folder stands at a path: another one of the same name is another folder.
struct FolderId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FolderId& other) const {
    return device == other.device && inode == other.inode;
  }
};

// None where no folder stands; a symbolic link is none.
std::optional<FolderId> folder_id(const std::filesystem::path& path);

// A lock on a folder that ends with this process. InputError with `refusal` when another holds it.
// Where a file system has no locks, nobody is kept out.
OwnedFd lock_folder(const std::filesystem::path& path, const std::string& refusal);

// A file without which no reader takes a folder for a model, so that it comes last and goes first.
bool makes_loadable(const std::filesystem::path& file);

// Makes the folder and those above it. InputError.
void make_folder(const std::filesystem::path& path);

// InputError naming the path and the system's reason.
class PendingFolder {
 public:
  // Makes it, empty: what a process that was killed left there is removed. InputError when another
  // run writes there.
  explicit PendingFolder(std::filesystem::path path);
  // Removes it, unless it was complete.
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The following say that it is complete. REQUIRES: its files are on the disk.
  //
  // Takes the name `target`, where nothing stands or an empty folder. False: something does.
  bool take(const std::filesystem::path& target);
  // Takes the name of a folder that holds nothing but saved files (manifest.h) and is `expected`;
  // that one is removed. False: it is another, or holds something else.
  bool replace(const std::filesystem::path& target, const FolderId& expected);
  // Moves its files into the folder `target`, first those that make nothing loadable. Returns the
  // first that stands there already: then none is moved.
  std::optional<std::filesystem::path> move_files_into(const std::filesystem::path& target);

  // Takes `target` plus ".saved", or the next such name that is free. Returns where it is.
  std::filesystem::path keep_beside(const std::filesystem::path& target);

 private:
  void complete();

  std::filesystem::path path_;
  OwnedFd lock_;
  bool complete_ = false;
};

}  // namespace sftbench
