// Where a run's checkpoints and its model go. Everything is written into a hidden folder first,
// ".checkpoint-3.saving", which takes its name when all of it is on the disk (pending_folder.h).
// Readers see either the earlier folder or the whole new one. What a killed process leaves behind
// counts for nothing. The next run that saves there removes it.
//
// Checkpoints of a run are folders checkpoint-<step> in one folder. Anything else in that folder,
// and anything in a checkpoint that its manifest (manifest.h) does not name, is left as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/owned_fd.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/pending_folder.h"

namespace sftbench {

inline constexpr const char* kTrainerStateFile = "trainer_state.json";
// fms-hf-tuning's log of the losses, beside the checkpoints.
inline constexpr const char* kTrainingLogsFile = "training_logs.jsonl";

// Where the files of `target` go before it is there.
std::filesystem::path pending_path(const std::filesystem::path& target);

inline constexpr int64_t kNoStep = -1;

struct FoundCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// Those in `folder`, by rising step: folders of that name with a manifest or a trainer's state.
std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& folder);

// `path` if it is a checkpoint, or the newest one in it. InputError saying what is there.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

// The manifest of a checkpoint. InputError: what read_manifest() finds, a folder of something else,
// or a name checkpoint-<step> with another step than the content's.
Manifest read_checkpoint_manifest(const std::filesystem::path& folder);

// "/out/earlier-1", or the next number that is free: where set_aside() moves what is in "/out".
std::filesystem::path earlier_path(const std::filesystem::path& folder);

// "a/b" for "/out/a/b" below "/out", "." for the folder itself, whatever links lead there; none
// elsewhere.
std::optional<std::filesystem::path> path_below(const std::filesystem::path& path,
                                                const std::filesystem::path& folder);

// "/out/checkpoint-3" for everything at or below it, where "/out" gets checkpoints.
std::optional<std::filesystem::path> checkpoint_around(const std::filesystem::path& path,
                                                       const std::filesystem::path& checkpoints);

// A folder of checkpoints that this process writes to and no other, for as long as this lives: made
// if it is missing, and rid of what was left half-written in it. InputError when it cannot be
// written to, or another run saves there.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path);

  // Moves all checkpoints, and the log of their losses, to earlier_path(). Nothing where there is
  // no checkpoint. InputError.
  void set_aside();

  // A new folder for the files of this step's checkpoint.
  std::unique_ptr<PendingFolder> start(int64_t step);

  // They are complete. A checkpoint of the same step is replaced if it was there from the start, or
  // is this run's own, and holds nothing but its own files. InputError where anything else stands:
  // that stays, and the new one is beside it.
  void commit(PendingFolder& pending, int64_t step);

  // Removes others than that of `step`, which was saved last, until `limit` are left: first those
  // of later steps, which a run that was resumed before them has left behind, then the oldest.
  // Leaves what it may not replace, and does not count it. That of step `best` stays, as one of
  // `limit`, or beside the one.
  void keep_newest(int64_t limit, int64_t step, int64_t best = kNoStep);

 private:
  void open();
  bool is_known(const std::filesystem::path& checkpoint) const;

  std::filesystem::path path_;
  OwnedFd lock_;
  std::optional<FolderId> id_;
  std::map<std::filesystem::path, FolderId> known_;  // by name: ours, or there from the start
};

// Whether the job of this digest (manifest.h) saved the model in the folder, and no file has
// changed since. Also true where a run was killed while it replaced that model.
bool holds_model_of(const std::filesystem::path& folder, const std::string& job);

// Where a model goes, from the beginning of a run on: another run with the same folder is refused.
// A folder that is there already keeps what it holds, and gets the model's files beside it.
class ModelFolder {
 public:
  // A model of the job `replaces` is replaced, as of a run that goes on from its own checkpoint.
  // Empty: none is.
  explicit ModelFolder(std::filesystem::path target, std::string replaces = {});

  // A folder that is there is empty, but for what a run that was killed has left half-written.
  static bool may_go_into(const std::filesystem::path& folder);

  PendingFolder& pending() { return pending_; }

  // InputError where files of these names have appeared: they stay, and the model is beside them.
  void commit();

 private:
  void restore();
  std::optional<std::filesystem::path> set_aside();

  std::filesystem::path target_;
  std::string replaces_;
  std::optional<FolderId>
      whole_;  // a folder of nothing but the model that is replaced changes at once
  PendingFolder pending_;
};

}  // namespace sftbench
