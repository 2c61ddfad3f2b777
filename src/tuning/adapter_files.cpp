// Names in peft's files: "base_model.model." + the linear's name + ".lora_A.weight", and
// "prompt_embeddings" as it is.
#include "sftbench/tuning/adapter_files.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/safetensors.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/model/stored_dtype.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// --- reading -------------------------------------------------------------------------------------
// Adapters are of a floating-point dtype.
std::optional<torch::Dtype> adapter_dtype(StoredDtype dtype) {
  const std::optional<torch::Dtype> known = torch_dtype_of(dtype);
  return known && c10::isFloatingType(*known) ? known : std::nullopt;
}

// What is wrong with one stored tensor as the value of `target`; empty: nothing.
std::string mismatch(const StoredTensor& stored, const torch::Tensor& target) {
  if (target.sizes() != torch::IntArrayRef(stored.shape))
    return "has shape " + shape_text(stored.shape);
  if (!adapter_dtype(stored.dtype)) return "is stored as " + std::string(to_string(stored.dtype));
  return {};
}

void copy_into(torch::Tensor& target, const StoredTensor& stored, const MappedFile& file) {
  torch::Tensor values = torch::empty(stored.shape, *adapter_dtype(stored.dtype));
  std::memcpy(values.data_ptr(), file.data() + stored.offset_bytes, stored.size_bytes);
  target.copy_(values);
}

// Settings of a LoraConfig that change what the adapter computes, with the values that leave it as
// it is here. A file that lacks one has peft's default, which is among them.
std::vector<std::string> unknown_settings(const Json& config) {
  const std::map<std::string, std::vector<Json>> known = {
      {"bias", {"none"}},
      {"use_dora", {false}},
      {"use_rslora", {false}},
      {"use_qalora", {false}},
      {"lora_bias", {false}},
      {"fan_in_fan_out", {false}},
      {"modules_to_save", {nullptr}},
      {"layers_to_transform", {nullptr}},
      {"exclude_modules", {nullptr}},
      {"target_parameters", {nullptr}},
      {"trainable_token_indices", {nullptr}},
      {"layer_replication", {nullptr}},
      {"alora_invocation_tokens", {nullptr}},
      {"rank_pattern", {nullptr, Json::object()}},
      {"alpha_pattern", {nullptr, Json::object()}},
  };
  std::vector<std::string> unknown;
  for (const auto& [key, values] : known) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    if (std::find(values.begin(), values.end(), *found) == values.end())
      unknown.push_back(key + " " + found->dump());
  }
  return unknown;
}

// Reads members of a config and remembers what is wrong with them.
class ConfigReader {
 public:
  ConfigReader(const fs::path& file) : file_(file), config_(read_json_file(file.string())) {}

  const Json& config() const { return config_; }

  template <typename Holds>
  Json member(const char* key, const char* expected, const Holds& holds) {
    const auto found = config_.find(key);
    if (found == config_.end()) {
      findings_.push_back(finding(file_, key, "missing", expected));
    } else if (!holds(*found)) {
      findings_.push_back(finding(file_, key, "found " + found->dump().substr(0, 60), expected));
    } else {
      return *found;
    }
    return nullptr;
  }

  void add(const char* key, const std::string& message, const std::string& expected) {
    findings_.push_back(finding(file_, key, message, expected));
  }

  void throw_if_failed() const {
    if (!findings_.empty()) throw InputError(findings_);
  }

 private:
  fs::path file_;
  Json config_;
  std::vector<Diagnostic> findings_;
};

bool is_positive(const Json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 1;
}

bool is_text_or_texts(const Json& value) {
  return value.is_string() ||
         (value.is_array() && !value.empty() &&
          std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_string(); }));
}

std::unique_ptr<Tuning> read_lora(ConfigReader& reader) {
  const Json rank = reader.member("r", "an integer of at least 1", is_positive);
  const Json alpha =
      reader.member("lora_alpha", "a number", [](const Json& v) { return v.is_number(); });
  const Json targets =
      reader.member("target_modules", "a list of names, or all-linear", is_text_or_texts);
  reader.throw_if_failed();
  if (const std::vector<std::string> unknown = unknown_settings(reader.config());
      !unknown.empty()) {
    throw RunError(ReasonCode::kUnsupported,
                   "adapter_config.json asks for " + join(unknown) +
                       "; plain LoRA on linears, with one rank and one alpha, is what there is");
  }
  TuningOptions options;
  options.lora.rank = rank;
  options.lora.alpha = alpha;
  options.lora.dropout = 0;
  if (targets.is_string()) {
    options.lora.target_modules = {targets.get<std::string>()};
  } else {
    options.lora.target_modules = targets.get<std::vector<std::string>>();
  }
  return make_tuning("lora", options);
}

std::unique_ptr<Tuning> read_prompt(ConfigReader& reader) {
  const Json tokens = reader.member("num_virtual_tokens", "an integer of at least 1", is_positive);
  reader.throw_if_failed();
  TuningOptions options;
  options.prompt.virtual_tokens = tokens;
  return make_tuning("pt", options);
}

}  // namespace

std::string adapter_tensor_name(const std::string& parameter) {
  const bool of_linear =
      parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
  return of_linear ? "base_model.model." + parameter : parameter;
}

std::string adapter_config_text(Json peft_config, const std::string& base_model) {
  check(!peft_config.is_null(), "a method with adapters is saved");
  peft_config["base_model_name_or_path"] = base_model.empty() ? Json() : Json(base_model);
  return json_text(peft_config, 2) + "\n";
}

void save_adapter(const fs::path& folder, const Tuning& tuning,
                  const std::vector<NamedParameter>& trained, const std::string& base_model) {
  const std::string config = adapter_config_text(tuning.peft_config(), base_model);
  std::vector<TensorHeader> tensors;
  std::string data;
  for (const NamedParameter& parameter : trained) {
    const torch::Tensor values = parameter.tensor->detach().cpu().contiguous();
    tensors.push_back({adapter_tensor_name(parameter.name), stored_dtype_of(values.scalar_type()),
                       values.sizes().vec()});
    data.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  }
  write_file_atomic(folder / kAdapterWeightsFile, safetensors_header(tensors) + data);
  write_file_atomic(folder / kAdapterConfigFile, config);
}

std::unique_ptr<Tuning> read_adapter_config(const fs::path& folder) {
  ConfigReader reader(folder / kAdapterConfigFile);
  if (!reader.config().is_object()) {
    reader.add("", "not an object", "peft's settings");
    reader.throw_if_failed();
  }
  const Json type = reader.member("peft_type", "LORA or PROMPT_TUNING", [](const Json& value) {
    return value == "LORA" || value == "PROMPT_TUNING";
  });
  reader.throw_if_failed();
  return type == "LORA" ? read_lora(reader) : read_prompt(reader);
}

void load_adapter(const fs::path& folder, const std::vector<NamedParameter>& trained) {
  const torch::NoGradGuard no_grad;
  const fs::path path = folder / kAdapterWeightsFile;
  const MappedFile file(path);
  std::map<std::string, StoredTensor> stored;
  for (const StoredTensor& tensor : read_safetensors_header(file.text(), path.string()))
    stored[tensor.name] = tensor;

  std::vector<std::pair<torch::Tensor*, StoredTensor>> sources;
  std::vector<Diagnostic> findings;
  for (const NamedParameter& parameter : trained) {
    const auto found = stored.find(adapter_tensor_name(parameter.name));
    const std::string expected = "shape " + shape_text(parameter.tensor->sizes().vec());
    if (found == stored.end()) {
      findings.push_back(
          finding(path, adapter_tensor_name(parameter.name), "missing tensor", expected));
      continue;
    }
    if (const std::string wrong = mismatch(found->second, *parameter.tensor); !wrong.empty())
      findings.push_back(
          finding(path, found->first, wrong, expected + " in F32, BF16, F16 or F64"));
    sources.emplace_back(parameter.tensor, found->second);
    stored.erase(found);
  }
  for (const auto& [name, tensor] : stored)
    findings.push_back(
        finding(path, name, "unexpected tensor that the adapters have no place for"));
  if (!findings.empty()) throw InputError(findings);
  for (auto& [target, source] : sources) copy_into(*target, source, file);
}

}  // namespace sftbench
