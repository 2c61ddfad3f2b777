#include "engine/restore_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/saved_folder.h"
#include "sftbench/checkpoint/stored_state.h"
#include "sftbench/model/stored_dtype.h"
#include "sftbench/tuning/adapter_files.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

[[noreturn]] void refuse(const fs::path& file, const std::string& key, const std::string& found,
                         const std::string& expected = {}) {
  throw InputError({{file.string(), 0, key, found, expected, {}}});
}

// --- what files hold, as tensors -----------------------------------------------------------------

// [n] elements of a stored tensor, from element `first` on.
Tensor read_elements(const CheckpointShard& file, const StoredTensor& tensor, int64_t first,
                     int64_t count) {
  const std::optional<torch::Dtype> dtype = torch_dtype_of(tensor.dtype);
  if (!dtype) refuse(file.path, tensor.name, "is " + std::string(to_string(tensor.dtype)));
  const int64_t element_bytes = element_size_bytes(tensor.dtype);
  Tensor values = torch::empty({count}, *dtype);
  file.read(tensor, static_cast<uint64_t>(first * element_bytes), values.data_ptr(),
            static_cast<size_t>(count * element_bytes));
  return values;
}

Tensor read_all(const CheckpointShard& file, const StoredTensor& tensor) {
  return read_elements(file, tensor, 0, tensor.numel());
}

// Elements [begin, end) of the value that lie in the run, which begin at max(begin, run.begin).
Tensor read_run(const StoredRun& run, int64_t begin, int64_t end) {
  if (run.map.empty()) {
    return read_elements(*run.file, *run.tensor, run.offset, run.end - run.begin);
  }
  const ops::QuantizedTensor stored{map_of_name(run.map), read_all(*run.file, *run.tensor),
                                    read_all(*run.file, *run.scales)};
  return ops::dequantize_blockwise(stored, run.end - run.begin)
      .slice(0, std::max(begin, run.begin) - run.begin, std::min(end, run.end) - run.begin);
}

// Elements [begin, begin + n) of the value become those of `target`, which has n.
void read_into(const Tensor& target, const StoredState& stored, const std::string& value,
               int64_t begin) {
  const int64_t end = begin + target.numel();
  const Tensor flat = target.detach().view(-1);
  int64_t reached = 0;
  for (const StoredRun& run : stored.runs(value, begin, end)) {
    const Tensor values = read_run(run, begin + reached, end);
    flat.slice(0, reached, reached + values.numel()).copy_(values);
    reached += values.numel();
  }
}

// --- parameters ----------------------------------------------------------------------------------

// As the checkpoint says that it was saved, whatever else stands in the folder.
StoredState open_model(const fs::path& folder, const SavedLayout& layout, bool of_peft) {
  if (layout.format != "FULL") return StoredState::of_pieces(folder, "model");
  if (!of_peft) return StoredState::of_files(folder, open_checkpoint(folder));
  std::vector<CheckpointShard> files;
  files.push_back(open_safetensors(folder / kAdapterWeightsFile));
  return StoredState::of_files(folder, std::move(files));
}

}  // namespace

void restore_parameters(const fs::path& folder, const SavedLayout& layout,
                        const TrainedState& state) {
  const torch::NoGradGuard no_grad;
  const bool of_peft = layout.format == "FULL" && state.has_adapters();
  const StoredState stored = open_model(folder, layout, of_peft);
  std::vector<Diagnostic> findings;
  for (const OwnedTensor& owned : state.parameters.owned()) {
    const std::string name = of_peft ? adapter_tensor_name(owned.name) : owned.name;
    const StoredValue* value = stored.find(name);
    const std::string expected = "shape " + shape_text(owned.shape);
    if (value == nullptr) {
      findings.push_back({folder.string(), 0, name, "missing tensor", expected, {}});
    } else if (value->shape != owned.shape) {
      findings.push_back(
          {folder.string(), 0, name, "has shape " + shape_text(value->shape), expected, {}});
    } else if (findings.empty()) {
      read_into(owned.tensor, stored, name, owned.begin);
    }
  }
  if (!findings.empty()) throw InputError(findings);
}

// --- the optimizer -------------------------------------------------------------------------------

namespace {

// Numbers of a state, from trainer_state.json.
class NumberRestorer : public OptimizerStateVisitor {
 public:
  NumberRestorer(const fs::path& folder, const SavedNumbers& saved)
      : file_(folder / kTrainerStateFile), saved_(saved) {}

  void parameter(const std::string& name) override { parameter_ = name; }
  void number(const char* name, int64_t& value) override {
    value = whole_number_at(saved_.numbers, key(name), 0, saved_.most_counted, file_.string());
  }
  void number(const char* name, double& value) override {
    const auto found = saved_.numbers.find(key(name));
    if (found == saved_.numbers.end()) refuse(file_, key(name), "missing number");
    const bool fits =
        found->is_number() && std::isfinite(found->get<double>()) && found->get<double>() >= 0;
    if (!fits) refuse(file_, key(name), "found " + found->dump(), "a number, 0 or more");
    value = found->get<double>();
  }
  void values(const char*, const Tensor&) override {}
  void quantized(const char*, const ops::QuantizedTensor&) override {}
  void shaped(const char*, const Tensor&) override {}

 protected:
  std::string key(const char* name) const { return state_key(parameter_, name); }

 private:
  fs::path file_;
  const SavedNumbers& saved_;
  std::string parameter_;
};

class StateRestorer : public NumberRestorer {
 public:
  StateRestorer(const fs::path& folder, const SavedLayout& layout, const SavedNumbers& saved,
                const std::vector<OwnedTensor>& owned)
      : NumberRestorer(folder, saved),
        stored_(StoredState::of_pieces(folder, "optimizer")),
        layout_(layout) {
    for (const OwnedTensor& tensor : owned) owned_[tensor.name] = &tensor;
  }

  void parameter(const std::string& name) override {
    NumberRestorer::parameter(name);
    of_ = owned_.at(name);
  }

  void values(const char* name, const Tensor& values) override {
    require(name, of_->shape);
    read_into(values, stored_, key(name), of_->begin);
  }

  void quantized(const char* name, const ops::QuantizedTensor& values) override {
    require(name, of_->shape);
    const int64_t begin = of_->begin, end = begin + of_->tensor.numel();
    const std::vector<StoredRun> runs = stored_.runs(key(name), begin, end);
    const StoredRun& run = runs.front();
    if (run.begin == begin && run.end == end && run.map == map_name(values.map)) {
      values.codes.copy_(read_all(*run.file, *run.tensor));
      values.scales.copy_(read_all(*run.file, *run.scales));
      return;
    }
    const Tensor wide = torch::empty({end - begin}, torch::kFloat32);
    read_into(wide, stored_, key(name), begin);
    const ops::QuantizedTensor rounded = ops::quantize_blockwise(wide, values.map);
    values.codes.copy_(rounded.codes);
    values.scales.copy_(rounded.scales);
    rounded_ = true;
  }

  void shaped(const char* name, const Tensor& values) override {
    require(name, values.sizes().vec());
    read_into(values, stored_, key(name), 0);
  }

  bool rounded() const { return rounded_; }

 private:
  void require(const char* name, const std::vector<int64_t>& shape) const {
    const StoredValue* value = stored_.find(key(name));
    if (value != nullptr && value->shape == shape) return;
    throw RunError(
        ReasonCode::kUnsupported,
        "the optimizer's state " + key(name) + " " +
            (value == nullptr ? "was not saved"
                              : "was saved in shape " + shape_text(value->shape)) +
            ": optimizers that keep states of whole matrices (adafactor, adalomo, galore) keep "
            "others for parts of them. They resume with parameters cut as they were, under " +
            layout_.strategy + " on " + counted(layout_.ranks, "rank"));
  }

  StoredState stored_;
  SavedLayout layout_;
  std::map<std::string, const OwnedTensor*> owned_;
  const OwnedTensor* of_ = nullptr;
  bool rounded_ = false;
};

}  // namespace

std::vector<std::string> restore_optimizer(const fs::path& folder, const SavedLayout& layout,
                                           const SavedNumbers& saved, const TrainedState& state) {
  const torch::NoGradGuard no_grad;
  StateRestorer restorer(folder, layout, saved, state.parameters.owned());
  state.optimizer.visit_state(restorer);
  if (!restorer.rounded()) return {};
  return {"resumed under another layout than " + layout.strategy + " on " +
          counted(layout.ranks, "rank") +
          ", which saved it: quantized states of the optimizer are in other blocks now, and "
          "were rounded anew"};
}

void restore_loss_scaling(const fs::path& folder, const SavedNumbers& saved,
                          const TrainedState& state) {
  NumberRestorer restorer(folder, saved);
  state.loss_scaler.visit_state(restorer);
}

}  // namespace sftbench
