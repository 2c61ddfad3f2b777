// Folders that are there whole or not at all: everything goes into a temporary folder beside the
// target, ".checkpoint-3.saving", which takes its name when all of it is on the disk. Whoever looks
// sees the folder that was there before, or the new one. What a process that was killed leaves
// behind counts for nothing, and is removed when somebody saves there again.
//
// Checkpoints of a run are folders checkpoint-<step> in one folder, with trainer_state.json as what
// a whole one has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

inline constexpr const char* kTrainerStateFile = "trainer_state.json";

// Where the files of `target` go before it is there.
std::filesystem::path pending_path(const std::filesystem::path& target);

// InputError naming the path and the system's reason.
class PendingFolder {
 public:
  // Makes pending_path(target), empty.
  explicit PendingFolder(std::filesystem::path target);
  // Removes it, unless it was committed.
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  // Gives it its name; a folder that had it is removed then. REQUIRES: its files are on the disk.
  void commit();

 private:
  std::filesystem::path target_, path_;
  bool committed_ = false;
};

struct FoundCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// The whole ones in `folder`, by rising step.
std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& folder);

// `path` if it is a checkpoint, or the newest whole one in it. InputError saying what is there.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

// A folder of checkpoints that this process writes to and no other, for as long as this lives: made
// if it is missing, and rid of what was left half-written in it. InputError when it cannot be
// written to, or another run saves there.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path);

  // Removes others than that of `step`, which was saved last, until `limit` are left: first those of
  // later steps, which a run that was resumed before them has left behind, then the oldest.
  void keep_newest(int64_t limit, int64_t step) const;

 private:
  std::filesystem::path path_;
  OwnedFd lock_;
};

}  // namespace sftbench
