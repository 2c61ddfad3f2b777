#include "engine/save_state.h"

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine/carried_tensors.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/stored_state.h"
#include "sftbench/model/stored_dtype.h"
#include "sftbench/tuning/adapter_files.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGenerationConfig = "generation_config.json";

using Append = std::function<void(const void* bytes, size_t size_bytes)>;

void append_tensor(const Append& append, const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().cpu().contiguous();
  append(values.data_ptr(), values.nbytes());
}

// --- FULL ----------------------------------------------------------------------------------------

// Visits every rank's units, and gives rank 0's file one tensor after the other.
void visit_into(const TrainedState& state, const Append& append) {
  using Visited = ParallelParameters::Visited;
  std::set<std::string> saved;
  for (const ParameterInfo& info : state.parameters.inventory()) {
    if (state.leads() && state.saves(info)) saved.insert(info.name);
  }
  state.parameters.visit_whole(
      [&](const std::string& name, const torch::Tensor& values) {
        if (saved.count(name) != 0) append_tensor(append, values);
      },
      state.has_adapters() && !state.adds_rows ? Visited::kTrained : Visited::kAll);
}

// The same through a writer, rank 0's. The other ranks wait for it in the visit, so it goes through
// all of it, also where it can write no more.
template <typename MakeWriter>
auto visit_and_write(const TrainedState& state, const MakeWriter& make) {
  decltype(make()) writer;
  std::exception_ptr problem;
  const auto attempt = [&problem](const auto& act) {
    if (problem) return;
    try {
      act();
    } catch (const InputError&) {
      problem = std::current_exception();
    }
  };
  attempt([&] { writer = make(); });
  visit_into(state, [&](const void* bytes, size_t size) {
    attempt([&] { writer->append(bytes, size); });
  });
  if (problem) std::rethrow_exception(problem);
  return writer;
}

std::vector<TensorHeader> full_headers(const TrainedState& state) {
  std::vector<TensorHeader> headers;
  for (const ParameterInfo& info : state.parameters.inventory()) {
    if (!state.saves(info)) continue;
    const std::string name = !state.has_adapters() ? info.name
                             : info.trains         ? adapter_tensor_name(info.name)
                                                   : base_tensor_name(info.name, state.peft_config);
    headers.push_back({name, stored_dtype_of(info.dtype), info.shape});
  }
  return headers;
}

void save_full(const TrainedState& state, const std::string& weights_directory,
               const fs::path& folder, SavedPieces& pieces) {
  if (!state.makes_whole()) return;
  if (!state.leads()) return visit_into(state, {});
  std::vector<TensorHeader> headers = full_headers(state);
  if (state.has_adapters()) {
    pieces.files.push_back(visit_and_write(state, [&] {
                             return std::make_unique<SafetensorsWriter>(
                                 folder / kAdapterWeightsFile, headers);
                           })->finish());
    return;
  }
  std::optional<CarriedTensors> carried;
  const auto writer = visit_and_write(state, [&] {
    carried.emplace(weights_directory, family_of(state.model.config()));
    headers.insert(headers.end(), carried->headers().begin(), carried->headers().end());
    return std::make_unique<ModelFilesWriter>(folder, headers);
  });
  carried->append_to(*writer);
  for (FileSum& sum : writer->finish()) pieces.files.push_back(std::move(sum));
}

// --- a file of this rank's own -------------------------------------------------------------------

class RankFile {
 public:
  explicit RankFile(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  void add(std::string tensor, torch::Tensor values, std::vector<int64_t> shape) {
    headers_.push_back(
        {std::move(tensor), stored_dtype_of(values.scalar_type()), std::move(shape)});
    values_.push_back(std::move(values));
  }

  void write(const fs::path& folder, std::vector<FileSum>& sums) const {
    if (headers_.empty()) return;
    SafetensorsWriter writer(folder / name_, headers_);
    for (const torch::Tensor& values : values_) {
      append_tensor([&](const void* bytes, size_t size) { writer.append(bytes, size); }, values);
    }
    sums.push_back(writer.finish());
  }

 private:
  std::string name_;
  std::vector<TensorHeader> headers_;
  std::vector<torch::Tensor> values_;  // share the memory of what is saved
};

PieceRow row_of(const OwnedTensor& owned, const RankFile& file) {
  return {.value = owned.name,
          .shape = owned.shape,
          .begin = owned.begin,
          .end = owned.begin + owned.tensor.numel(),
          .file = file.name(),
          .tensor = owned.name,
          .offset = 0,
          .map = {},
          .scales = {}};
}

void save_sharded(const TrainedState& state, RankFile& file, Json& rows) {
  for (const OwnedTensor& owned : state.parameters.owned()) {
    if (!owned.saved_here) continue;
    file.add(owned.name, owned.tensor, {owned.tensor.numel()});
    rows.push_back(to_json(row_of(owned, file)));
  }
}

void save_local(const TrainedState& state, RankFile& file, Json& rows) {
  const std::vector<OwnedTensor>& all_owned = state.parameters.owned();
  for (const FlatArray& array : state.parameters.flat_arrays()) {
    if (!array.saved_here) continue;
    file.add(array.name, array.values, {array.values.numel()});
    for (const FlatArray::Part& part : array.parts) {
      PieceRow row = row_of(all_owned[part.owned], file);
      row.tensor = array.name;
      row.offset = part.offset;
      rows.push_back(to_json(row));
    }
  }
}

// --- the optimizer -------------------------------------------------------------------------------

class StateSaver : public OptimizerStateVisitor {
 public:
  StateSaver(const std::vector<OwnedTensor>& owned, RankFile& file, SavedPieces& pieces)
      : file_(file), pieces_(pieces) {
    for (const OwnedTensor& tensor : owned) owned_[tensor.name] = &tensor;
  }

  void parameter(const std::string& name) override { of_ = owned_.at(name); }
  void number(const char* name, int64_t& value) override { pieces_.numbers[key(name)] = value; }
  void number(const char* name, double& value) override { pieces_.numbers[key(name)] = value; }

  void values(const char* name, const torch::Tensor& values) override {
    if (!saves()) return;
    PieceRow row = row_of_state(name);
    file_.add(row.tensor, values, {values.numel()});
    pieces_.optimizer.push_back(to_json(row));
  }

  void quantized(const char* name, const ops::QuantizedTensor& values) override {
    if (!saves()) return;
    PieceRow row = row_of_state(name);
    row.map = map_name(values.map);
    row.scales = row.tensor + ".scales";
    row.tensor += ".codes";
    file_.add(row.tensor, values.codes, {values.codes.numel()});
    file_.add(row.scales, values.scales, {values.scales.numel()});
    pieces_.optimizer.push_back(to_json(row));
  }

  void shaped(const char* name, const torch::Tensor& values) override {
    if (!saves()) return;
    PieceRow row = row_of_state(name);
    row.shape = values.sizes().vec();
    row.begin = 0;
    row.end = values.numel();
    file_.add(row.tensor, values, row.shape);
    pieces_.optimizer.push_back(to_json(row));
  }

 private:
  std::string key(const char* name) const {
    return state_key(of_ == nullptr ? std::string() : of_->name, name);
  }
  bool saves() const {
    check(of_ != nullptr, "tensors of a state are of a parameter");
    return of_->saved_here;
  }
  PieceRow row_of_state(const char* name) const {
    PieceRow row = row_of(*of_, file_);
    row.value = row.tensor = key(name);
    return row;
  }

  std::map<std::string, const OwnedTensor*> owned_;
  RankFile& file_;
  SavedPieces& pieces_;
  const OwnedTensor* of_ = nullptr;
};

// --- what stands beside the weights --------------------------------------------------------------

const char* dtype_name(torch::Dtype dtype) {
  if (dtype == torch::kBFloat16) return "bfloat16";
  return dtype == torch::kFloat16 ? "float16" : "float32";
}

// The model's own, with the dtype and the vocabulary that were trained.
Json trained_config(const TrainedState& state, const TrainingJob& job) {
  Json config = job.model.hf_config;
  const auto text = config.find("text_config");
  Json& of_text = text != config.end() && text->is_object() ? *text : config;
  if (state.model.config().mxfp4_experts) config.erase("quantization_config");  // saved decoded
  const std::string embedding = std::string(state.model.names().embedding) + ".weight";
  for (const ParameterInfo& info : state.parameters.inventory()) {
    if (info.name != embedding) continue;
    of_text["vocab_size"] = info.shape.at(0);
    // transformers 5 writes "dtype" and reads both; those before it know "torch_dtype".
    if (!config.contains("dtype")) config["torch_dtype"] = dtype_name(info.dtype);
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (config.contains(key)) config[key] = dtype_name(info.dtype);
    }
  }
  return config;
}

}  // namespace

void save_model(const TrainedState& state, const std::string& weights_directory,
                const std::string& format, const fs::path& folder, SavedPieces& pieces) {
  if (format == "FULL") return save_full(state, weights_directory, folder, pieces);
  RankFile file(rank_file_name("model", state.group));
  if (format == "LOCAL") {
    save_local(state, file, pieces.model);
  } else {
    save_sharded(state, file, pieces.model);
  }
  file.write(folder, pieces.files);
}

void save_optimizer(const TrainedState& state, const fs::path& folder, SavedPieces& pieces) {
  const torch::NoGradGuard no_grad;
  RankFile file(rank_file_name("optimizer", state.group));
  StateSaver saver(state.parameters.owned(), file, pieces);
  state.optimizer.visit_state(saver);
  file.write(folder, pieces.files);
}

std::vector<FileSum> save_description(const TrainedState& state, const TrainingJob& job,
                                      const std::vector<TokenizerFile>& beside,
                                      const fs::path& folder) {
  const std::string& weights = job.model.weights_directory;
  std::vector<FileSum> sums;
  if (state.has_adapters()) {
    const std::string base = weights.empty() ? job.model.name : weights;
    sums.push_back(
        write_summed(folder, kAdapterConfigFile, adapter_config_text(state.peft_config, base)));
  } else {
    sums.push_back(
        write_summed(folder, "config.json", json_text(trained_config(state, job), 2) + "\n"));
    const fs::path generation = fs::path(weights) / kGenerationConfig;
    if (!weights.empty() && fs::is_regular_file(generation)) {
      sums.push_back(write_summed(folder, kGenerationConfig, read_file(generation)));
    }
  }
  for (const TokenizerFile& file : beside) {
    sums.push_back(write_summed(folder, file.name, file.text));
  }
  return sums;
}

}  // namespace sftbench
