#include "sftbench/checkpoint/saved_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/refusal.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint-", kPendingEnd = ".saving";
// In a folder that is there already, which may be a file system of its own.
constexpr const char* kModelInside = ".model.saving";
constexpr const char* kModelReplaced = ".model.replaced";

[[noreturn]] void refuse_to_replace(const fs::path& there, const fs::path& kept) {
  refuse(there, "something else is there, and stays; what was saved is " + kept.string(),
         "a folder that nobody else writes to");
}

// "checkpoint-12": 12.
std::optional<int64_t> step_of(std::string_view name) {
  if (name.substr(0, kCheckpoint.size()) != kCheckpoint) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kCheckpoint.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end) return {};
  return step;
}

// ".checkpoint-12.saving"
bool is_pending_name(std::string_view name) {
  if (name.size() <= kPendingEnd.size() || name.front() != '.') return false;
  const size_t end = name.size() - kPendingEnd.size();
  return name.substr(end) == kPendingEnd && step_of(name.substr(1, end - 1));
}

// Whether it is intact is another question. A model has a manifest, too, under another name.
bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kTrainerStateFile, ignored) ||
         (step_of(folder.filename().string()) &&
          fs::is_regular_file(folder / kManifestFile, ignored));
}

fs::path pending_model_path(const fs::path& target) {
  return fs::is_directory(target) ? target / kModelInside : pending_path(target);
}

}  // namespace

fs::path pending_path(const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  return folder / ("." + target.filename().string() + std::string(kPendingEnd));
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / (std::string(kCheckpoint) + std::to_string(step));
}

std::vector<FoundCheckpoint> list_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::optional<int64_t> step = step_of(entry.path().filename().string());
    if (step && is_checkpoint(entry.path())) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.step < b.step; });
  return found;
}

fs::path find_checkpoint(const fs::path& path) {
  const std::string expected =
      "a checkpoint, which has " + std::string(kTrainerStateFile) + ", or a folder of them";
  std::error_code error;
  if (!fs::is_directory(path, error)) refuse(path, "no such folder", expected);
  if (is_checkpoint(path)) return path;
  const std::vector<FoundCheckpoint> found = list_checkpoints(path);
  if (found.empty()) refuse(path, "no checkpoint", expected);
  return found.back().path;
}

Manifest read_checkpoint_manifest(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  if (manifest.kind != "checkpoint") {
    refuse(folder / kManifestFile, "of a " + manifest.kind, "that of a checkpoint");
  }
  const std::optional<int64_t> step = step_of(folder.filename().string());
  if (!step || *step == manifest.step) return manifest;
  refuse(folder / kManifestFile, "is of step " + std::to_string(manifest.step),
         "step " + std::to_string(*step) + ", as the folder is named");
}

fs::path earlier_path(const fs::path& folder) {
  std::error_code ignored;
  for (int number = 1;; ++number) {
    fs::path earlier = folder / ("earlier-" + std::to_string(number));
    if (!fs::exists(fs::symlink_status(earlier, ignored))) return earlier;
  }
}

std::optional<fs::path> path_below(const fs::path& path, const fs::path& folder) {
  if (path.empty() || folder.empty()) return {};
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  const fs::path whole_folder = error ? fs::path() : fs::weakly_canonical(folder, error);
  const fs::path below =
      error ? path.lexically_relative(folder) : whole.lexically_relative(whole_folder);
  if (below.empty() || *below.begin() == "..") return {};
  return below;
}

std::optional<fs::path> checkpoint_around(const fs::path& path, const fs::path& checkpoints) {
  const std::optional<fs::path> below = path_below(path, checkpoints);
  if (!below) return {};
  const std::string first = below->begin()->string();
  if (!step_of(first) && !is_pending_name(first)) return {};
  return checkpoints / first;
}

// --- checkpoints ---------------------------------------------------------------------------------

CheckpointFolder::CheckpointFolder(fs::path path) : path_(std::move(path)) {
  open();
  for (const auto& entry : fs::directory_iterator(path_)) {
    const fs::path name = entry.path().filename();
    const std::optional<FolderId> id = folder_id(entry.path());
    if (id && step_of(name.string())) known_[name] = *id;
  }
}

void CheckpointFolder::open() {
  make_folder(path_);
  lock_ = OwnedFd();
  lock_ = lock_folder(path_, "another run saves its checkpoints there");
  if (::access(path_.c_str(), W_OK) != 0) fail(path_, "cannot write", errno);
  id_ = folder_id(fs::canonical(path_));
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (is_pending_name(entry.path().filename().string())) leftovers.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

void CheckpointFolder::set_aside() {
  const std::vector<FoundCheckpoint> found = list_checkpoints(path_);
  if (found.empty()) return;
  const fs::path earlier = earlier_path(path_);
  make_folder(earlier);
  const auto move = [&earlier](const fs::path& path) {
    const fs::path target = earlier / path.filename();
    if (::rename(path.c_str(), target.c_str()) != 0) fail(path, "cannot move aside", errno);
  };
  for (const FoundCheckpoint& one : found) {
    move(one.path);
    known_.erase(one.path.filename());
  }
  std::error_code ignored;
  if (fs::exists(path_ / kTrainingLogsFile, ignored)) move(path_ / kTrainingLogsFile);
}

std::unique_ptr<PendingFolder> CheckpointFolder::start(int64_t step) {
  std::error_code gone;
  const fs::path real = fs::canonical(path_, gone);
  if (gone || folder_id(real) != id_) {  // another folder stands there now, or none
    known_.clear();
    open();
  }
  return std::make_unique<PendingFolder>(pending_path(checkpoint_path(path_, step)));
}

bool CheckpointFolder::is_known(const fs::path& checkpoint) const {
  const auto known = known_.find(checkpoint.filename());
  return known != known_.end() && folder_id(checkpoint) == known->second;
}

void CheckpointFolder::commit(PendingFolder& pending, int64_t step) {
  const fs::path target = checkpoint_path(path_, step);
  const auto known = known_.find(target.filename());
  const bool done =
      (known != known_.end() && pending.replace(target, known->second)) || pending.take(target);
  if (!done) refuse_to_replace(target, pending.keep_beside(target));
  if (const std::optional<FolderId> id = folder_id(target)) known_[target.filename()] = *id;
}

void CheckpointFolder::keep_newest(int64_t limit, int64_t step, int64_t best) {
  std::vector<FoundCheckpoint> found = list_checkpoints(path_);
  const auto of_best = [best](const FoundCheckpoint& one) { return one.step == best; };
  if (best != step && std::erase_if(found, of_best) > 0) limit = std::max<int64_t>(1, limit - 1);
  found.erase(std::remove_if(found.begin(), found.end(),
                             [this](const FoundCheckpoint& one) {
                               return !is_known(one.path) || !holds_only_saved_files(one.path);
                             }),
              found.end());
  std::stable_partition(found.begin(), found.end(),
                        [step](const FoundCheckpoint& one) { return one.step > step; });
  const auto excess = static_cast<int64_t>(found.size()) - limit;
  for (int64_t i = 0; i < excess; ++i) {
    const fs::path& oldest = found[static_cast<size_t>(i)].path;
    // First no longer a checkpoint, then removed: whoever dies in between leaves no half of one.
    const fs::path aside = pending_path(oldest);
    std::error_code error;
    fs::remove_all(aside, error);
    if (::rename(oldest.c_str(), aside.c_str()) != 0) fail(oldest, "cannot remove", errno);
    fs::remove_all(aside, error);
    if (error) fail(oldest, "cannot remove", error.value());
    known_.erase(oldest.filename());
  }
}

// --- models --------------------------------------------------------------------------------------

namespace {

std::optional<Manifest> model_manifest(const fs::path& folder, const std::string& job) {
  try {
    Manifest manifest = read_manifest(folder);
    if (manifest.kind == "model" && manifest.job == job) return manifest;
  } catch (const InputError&) {
  }
  return {};
}

bool is_whole_model_of(const fs::path& folder, const std::string& job) {
  try {
    const std::optional<Manifest> manifest = model_manifest(folder, job);
    if (manifest) verify_named_files(folder, *manifest);
    return manifest.has_value();
  } catch (const InputError&) {
    return false;
  }
}

// The manifest is moved aside first, and comes back last: while it is not there, the model is being
// replaced. Next is what makes it loadable, so that nobody loads a part.
std::vector<fs::path> names_to_move(const Manifest& manifest) {
  std::vector<fs::path> names;
  for (const FileSum& sum : manifest.files) names.emplace_back(sum.name);
  std::stable_partition(names.begin(), names.end(), makes_loadable);
  names.insert(names.begin(), kManifestFile);
  return names;
}

}  // namespace

bool holds_model_of(const fs::path& folder, const std::string& job) {
  return is_whole_model_of(folder, job) || model_manifest(folder / kModelReplaced, job).has_value();
}

ModelFolder::ModelFolder(fs::path target, std::string replaces)
    : target_(std::move(target)),
      replaces_(std::move(replaces)),
      whole_(!replaces_.empty() && is_whole_model_of(target_, replaces_) &&
                     holds_only_saved_files(target_)
                 ? folder_id(target_)
                 : std::nullopt),
      pending_(whole_ ? pending_path(target_) : pending_model_path(target_)) {
  if (!replaces_.empty()) restore();
}

bool ModelFolder::may_go_into(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != kModelInside) return false;
  }
  return true;
}

// Brings back the model that a run was replacing when it was killed. Files of the new one that
// stand there already give way: the others of it are gone.
void ModelFolder::restore() {
  const fs::path aside = target_ / kModelReplaced;
  std::error_code error;
  if (!fs::is_directory(aside, error)) return;
  const std::optional<Manifest> manifest = model_manifest(aside, replaces_);
  if (manifest && !is_whole_model_of(target_, replaces_)) {
    std::vector<fs::path> names = names_to_move(*manifest);
    std::reverse(names.begin(), names.end());
    for (const fs::path& name : names) {
      if (!fs::exists(aside / name, error)) continue;
      if (::rename((aside / name).c_str(), (target_ / name).c_str()) != 0)
        fail(target_ / name, "cannot be brought back", errno);
    }
  }
  fs::remove_all(aside, error);
}

// Moves the model that may be replaced into a hidden folder. None where no such model stands.
std::optional<fs::path> ModelFolder::set_aside() {
  if (replaces_.empty() || !is_whole_model_of(target_, replaces_)) return {};
  const fs::path aside = target_ / kModelReplaced;
  const std::vector<fs::path> names = names_to_move(read_manifest(target_));
  make_folder(aside);
  for (const fs::path& name : names) {
    if (::rename((target_ / name).c_str(), (aside / name).c_str()) != 0)
      fail(target_ / name, "cannot replace", errno);
  }
  return aside;
}

void ModelFolder::commit() {
  if (whole_ && pending_.replace(target_, *whole_)) return;
  const bool inside = pending_.path().parent_path() == target_;
  const std::optional<fs::path> replaced = set_aside();
  if (!inside && pending_.take(target_)) return;
  const fs::path beside = inside ? target_ / "model" : target_;
  if (!fs::is_directory(target_)) refuse_to_replace(target_, pending_.keep_beside(beside));
  const std::optional<fs::path> in_the_way = pending_.move_files_into(target_);
  if (in_the_way) refuse_to_replace(*in_the_way, pending_.keep_beside(beside));
  std::error_code ignored;
  if (replaced) fs::remove_all(*replaced, ignored);
}

}  // namespace sftbench
