#include "engine/saved_size.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/carried_tensors.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Of what this rank saves.
class OwnStateBytes : public OptimizerStateVisitor {
 public:
  explicit OwnStateBytes(const std::vector<OwnedTensor>& owned) {
    for (const OwnedTensor& tensor : owned) saved_here_[tensor.name] = tensor.saved_here;
  }

  void parameter(const std::string& name) override { counts_ = saved_here_.at(name); }
  void number(const char*, int64_t&) override {}
  void number(const char*, double&) override {}
  void values(const char*, const torch::Tensor& values) override { add(values); }
  void shaped(const char*, const torch::Tensor& values) override { add(values); }
  void quantized(const char*, const ops::QuantizedTensor& values) override {
    add(values.codes);
    add(values.scales);
  }

  uint64_t bytes = 0;

 private:
  void add(const torch::Tensor& values) {
    if (counts_) bytes += values.nbytes();
  }

  std::map<std::string, bool> saved_here_;
  bool counts_ = false;
};

uint64_t bytes_of_model(const TrainedState& state) {
  uint64_t bytes = 0;
  for (const ParameterInfo& info : state.parameters.inventory()) {
    if (!state.saves(info)) continue;
    uint64_t numel = 1;
    for (const int64_t extent : info.shape) numel *= static_cast<uint64_t>(extent);
    bytes += numel * torch::elementSize(info.dtype);
  }
  return bytes;
}

struct FileSystem {
  uint64_t needed_bytes = 0;
  uint64_t free_bytes = 0;
  std::string folder;  // the first of them
};

// The nearest folder around it that is there, which is of the file system that it will be of.
fs::path standing(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

void add(const std::string& folder, uint64_t needed_bytes,
         std::map<dev_t, FileSystem>& file_systems) {
  struct stat status {};
  struct statvfs room {};
  const fs::path there = standing(folder);
  if (::stat(there.c_str(), &status) != 0 || ::statvfs(there.c_str(), &room) != 0) return;
  if (room.f_blocks == 0) return;  // it does not say
  FileSystem& of = file_systems[status.st_dev];
  if (of.folder.empty()) of.folder = folder;
  of.needed_bytes += needed_bytes;
  of.free_bytes = uint64_t{room.f_bavail} * room.f_frsize;
}

}  // namespace

SavedSize saved_size(const TrainedState& state, const std::string& weights_directory) {
  OwnStateBytes own(state.parameters.owned());
  state.optimizer.visit_state(own);
  SavedSize size;
  size.model_bytes = bytes_of_model(state);
  if (!state.has_adapters()) {
    size.model_bytes +=
        CarriedTensors(weights_directory, family_of(state.model.config())).size_bytes();
  }
  for (const std::string& told : state.group.all_gather(std::to_string(own.bytes))) {
    size.optimizer_bytes += std::stoull(told);
  }
  return size;
}

int64_t certain_checkpoints(const TrainingJob& job, int64_t total_steps) {
  const SavePlan& plan = job.save;
  if (plan.strategy == IntervalStrategy::kNo) return 0;
  const bool may_end_sooner = job.batches.stop_after_seconds > 0 || job.batches.stop_when_known > 0;
  if (plan.strategy != IntervalStrategy::kSteps || may_end_sooner || !plan.resume_from.empty()) {
    return 1;
  }
  const int64_t interval = interval_steps(plan.steps, plan.steps_ratio, total_steps);
  const int64_t saves = (total_steps + interval - 1) / interval;
  // The oldest goes when the newest is there.
  return plan.total_limit > 0 ? std::min(saves, plan.total_limit + 1) : saves;
}

std::optional<std::string> lack_of_room(const TrainingJob& job, const SavedSize& size,
                                        int64_t total_steps) {
  const SavePlan& plan = job.save;
  std::map<dev_t, FileSystem> file_systems;
  const auto kept = static_cast<uint64_t>(certain_checkpoints(job, total_steps));
  if (kept > 0) {
    add(plan.checkpoint_directory, kept * (size.model_bytes + size.optimizer_bytes), file_systems);
  }
  if (!plan.model_directory.empty()) add(plan.model_directory, size.model_bytes, file_systems);
  for (const auto& [device, room] : file_systems) {
    if (room.needed_bytes <= room.free_bytes) continue;
    return "there is not enough room at " + room.folder + ": " +
           bytes_text(static_cast<double>(room.needed_bytes)) + " will be saved, " +
           bytes_text(static_cast<double>(room.free_bytes)) + " are free";
  }
  return {};
}

}  // namespace sftbench
