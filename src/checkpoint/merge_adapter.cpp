#include "sftbench/checkpoint/merge_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <thread>
#include <utility>

#include "checkpoint/half.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr std::string_view kPeftPrefix = "base_model.model.";

class MergeFindings {
 public:
  void add(const fs::path& file, const std::string& key, const std::string& message,
           const std::string& expected = {}) {
    constexpr size_t kMost = 20;
    if (all_.size() < kMost) all_.push_back(finding(file, key, message, expected));
  }
  void throw_if_any() {
    if (!all_.empty()) throw InputError(std::move(all_));
  }

 private:
  std::vector<Diagnostic> all_;
};

// A tensor and where its bytes are.
struct Place {
  const CheckpointShard* shard = nullptr;
  const StoredTensor* tensor = nullptr;
};

bool is_float(StoredDtype dtype) {
  return dtype == StoredDtype::kF32 || dtype == StoredDtype::kBF16 || dtype == StoredDtype::kF16;
}

std::vector<std::byte> bytes_of(const Place& place) {
  std::vector<std::byte> bytes(place.tensor->size_bytes);
  place.shard->read(*place.tensor, 0, bytes.data(), bytes.size());
  return bytes;
}

float element(StoredDtype dtype, const std::byte* bytes, size_t index) {
  float value = 0;
  uint16_t half = 0;
  if (dtype == StoredDtype::kF32) {
    std::memcpy(&value, bytes + 4 * index, 4);
    return value;
  }
  std::memcpy(&half, bytes + 2 * index, 2);
  return dtype == StoredDtype::kBF16 ? from_bfloat16(half) : from_float16(half);
}

void set_element(StoredDtype dtype, std::byte* bytes, size_t index, float value) {
  if (dtype == StoredDtype::kF32) {
    std::memcpy(bytes + 4 * index, &value, 4);
    return;
  }
  const uint16_t half = dtype == StoredDtype::kBF16 ? to_bfloat16(value) : to_float16(value);
  std::memcpy(bytes + 2 * index, &half, 2);
}

std::vector<float> floats_of(const Place& place) {
  const std::vector<std::byte> bytes = bytes_of(place);
  std::vector<float> values(static_cast<size_t>(place.tensor->numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element(place.tensor->dtype, bytes.data(), i);
  }
  return values;
}

// --- the adapter -----------------------------------------------------------------------------------

struct Settings {
  double alpha = 8;
  bool rank_stabilized = false;
  std::vector<std::pair<std::regex, double>> alpha_pattern;
};

// What peft does for these, and this does not.
void refuse_other_kinds(const Json& config, const fs::path& file, MergeFindings& findings) {
  const auto is_set = [&](const char* key) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return false;
    return found->is_boolean() ? found->get<bool>() : !found->empty();
  };
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "fan_in_fan_out",
                          "target_parameters", "trainable_token_indices", "layer_replication",
                          "arrow_config", "kasa_config", "velora_config", "monteclora_config"}) {
    if (is_set(key))
      findings.add(file, key, "merging such an adapter is not done here", "plain LoRA");
  }
  const std::string bias = config.value("bias", "none");
  if (bias != "none") findings.add(file, "bias", "found '" + bias + "'", "none");
}

Settings read_settings(const fs::path& folder, MergeFindings& findings) {
  const fs::path file = folder / kConfig;
  const Json config = read_json_file(file.string());
  const auto type = config.is_object() ? config.find("peft_type") : config.end();
  if (!config.is_object() || type == config.end() || *type != "LORA") {
    throw InputError({finding(file, "peft_type",
                              type == config.end() || !config.is_object()
                                  ? "is missing"
                                  : "found " + type->dump() + ", which has nothing to merge",
                              "LORA")});
  }
  refuse_other_kinds(config, file, findings);
  Settings settings;
  const auto alpha = config.find("lora_alpha");
  if (alpha == config.end() || !alpha->is_number()) {
    findings.add(file, "lora_alpha", "is no number", "a number");
  } else {
    settings.alpha = alpha->get<double>();
  }
  settings.rank_stabilized = config.value("use_rslora", Json(false)) == Json(true);
  const Json patterns = config.value("alpha_pattern", Json::object());
  for (const auto& [pattern, value] : patterns.items()) {
    constexpr size_t kLongest = 200;
    try {
      if (pattern.size() > kLongest || !value.is_number()) throw std::regex_error({});
      settings.alpha_pattern.emplace_back("(.*\\.)?(" + pattern + ")", value.get<double>());
    } catch (const std::regex_error&) {
      findings.add(file, "alpha_pattern." + pattern, "is no regular expression with a number");
    }
  }
  return settings;
}

struct Delta {
  Place a, b;  // [r, in], [out, r]
};

struct Adapter {
  std::map<std::string, Delta> deltas;    // by the linear's name
  std::map<std::string, Place> replaced;  // by the tensor's name
};

std::optional<std::string> without_suffix(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return std::string(name.substr(0, name.size() - suffix.size()));
}

Adapter sort_tensors(const CheckpointShard& shard, MergeFindings& findings) {
  Adapter adapter;
  for (const StoredTensor& tensor : shard.tensors) {
    std::string_view name = tensor.name;
    if (name.starts_with(kPeftPrefix)) name.remove_prefix(kPeftPrefix.size());
    const Place place{&shard, &tensor};
    if (!is_float(tensor.dtype)) {
      findings.add(shard.path, tensor.name, "has dtype " + std::string(to_string(tensor.dtype)),
                   "F32, BF16 or F16");
    } else if (const auto of_a = without_suffix(name, ".lora_A.weight")) {
      adapter.deltas[*of_a].a = place;
    } else if (const auto of_b = without_suffix(name, ".lora_B.weight")) {
      adapter.deltas[*of_b].b = place;
    } else if (name.find("lora_") != std::string_view::npos) {
      findings.add(shard.path, tensor.name, "is of a kind of LoRA that is not done here",
                   "lora_A and lora_B");
    } else {
      adapter.replaced[std::string(name)] = place;
    }
  }
  if (adapter.deltas.empty() && adapter.replaced.empty()) {
    findings.add(shard.path, {}, "holds no tensors of LoRA", "lora_A and lora_B");
  }
  return adapter;
}

void check_delta(const std::string& linear, const Delta& delta, const fs::path& file,
                 MergeFindings& findings) {
  const StoredTensor *a = delta.a.tensor, *b = delta.b.tensor;
  if (a == nullptr || b == nullptr) {
    return findings.add(file, linear, std::string("has no ") + (a == nullptr ? "lora_A" : "lora_B"),
                        "both");
  }
  const bool fits =
      a->shape.size() == 2 && b->shape.size() == 2 && a->shape[0] == b->shape[1] && a->shape[0] > 0;
  if (!fits) {
    findings.add(file, linear,
                 "has lora_A " + shape_text(a->shape) + " and lora_B " + shape_text(b->shape),
                 "[r, in] and [out, r]");
  }
}

// --- the base --------------------------------------------------------------------------------------

class Base {
 public:
  explicit Base(const fs::path& folder) : folder_(folder), shards_(open_checkpoint(folder)) {
    for (const CheckpointShard& shard : shards_) {
      for (const StoredTensor& tensor : shard.tensors) {
        order_.push_back({&shard, &tensor});
        by_name_[tensor.name] = order_.size() - 1;
      }
    }
  }

  const std::vector<Place>& tensors() const { return order_; }

  // Under its name, or with or without the name of the inner model in front, as hubs have both.
  std::optional<size_t> find(const std::string& name) const {
    for (const std::string& prefix :
         {std::string(), std::string("model."), std::string("transformer.")}) {
      if (const auto found = by_name_.find(prefix + name); found != by_name_.end())
        return found->second;
      if (prefix.empty() || !name.starts_with(prefix)) continue;
      const auto bare = by_name_.find(name.substr(prefix.size()));
      if (bare != by_name_.end()) return bare->second;
    }
    return std::nullopt;
  }

 private:
  fs::path folder_;
  std::vector<CheckpointShard> shards_;
  std::vector<Place> order_;
  std::map<std::string, size_t> by_name_;
};

void refuse_quantized(const fs::path& base) {
  const fs::path file = base / "config.json";
  const Json config = read_json_file(file.string());
  const auto found = config.is_object() ? config.find("quantization_config") : config.end();
  if (!config.is_object() || found == config.end() || found->is_null()) return;
  throw InputError({finding(file, "quantization_config",
                            "the base is quantized (" + found->value("quant_method", "unknown") +
                                "), and a delta would be rounded away",
                            "the base in its own dtype: --model DIR")});
}

// What each tensor of the base gets, by its position.
struct Plan {
  std::map<size_t, std::pair<std::string, Delta>> deltas;
  std::map<size_t, Place> replaced;
};

Plan plan_merge(const Adapter& adapter, const Base& base, const fs::path& file,
                MergeFindings& findings) {
  Plan plan;
  for (const auto& [linear, delta] : adapter.deltas) {
    check_delta(linear, delta, file, findings);
    if (delta.a.tensor == nullptr || delta.b.tensor == nullptr) continue;
    const auto found = base.find(linear + ".weight");
    if (!found) {
      findings.add(file, linear, "adapts a linear that the base does not have",
                   "the base that it was trained on");
      continue;
    }
    const StoredTensor& weight = *base.tensors()[*found].tensor;
    const std::vector<int64_t> expected = {delta.b.tensor->shape.front(),
                                           delta.a.tensor->shape.back()};
    if (weight.shape != expected) {
      findings.add(
          file, linear,
          "is of " + shape_text(expected) + ", and the base has " + shape_text(weight.shape),
          "the base that it was trained on");
    } else if (!is_float(weight.dtype)) {
      findings.add(file, linear, "the base has it in " + std::string(to_string(weight.dtype)),
                   "F32, BF16 or F16");
    } else {
      plan.deltas[*found] = {linear, delta};
    }
  }
  for (const auto& [name, place] : adapter.replaced) {
    const auto found = base.find(name);
    if (!found) {
      findings.add(file, name, "is no tensor of the base");
    } else if (base.tensors()[*found].tensor->shape != place.tensor->shape) {
      findings.add(file, name,
                   "is of " + shape_text(place.tensor->shape) + ", and the base has " +
                       shape_text(base.tensors()[*found].tensor->shape),
                   "a base of the same vocabulary");
    } else {
      plan.replaced[*found] = place;
    }
  }
  return plan;
}

// --- merging ---------------------------------------------------------------------------------------

double scaling_of(const Settings& settings, const std::string& linear, int64_t rank) {
  double alpha = settings.alpha;
  for (const auto& [pattern, value] : settings.alpha_pattern) {
    if (!std::regex_match(linear, pattern)) continue;
    alpha = value;
    break;
  }
  const auto r = static_cast<double>(rank);
  return alpha / (settings.rank_stabilized ? std::sqrt(r) : r);
}

// Rows [begin, end) of weight += scaling * B A.
void add_rows(std::vector<std::byte>& weight, StoredDtype dtype, const std::vector<float>& a,
              const std::vector<float>& b, size_t rank, float scaling, size_t begin, size_t end) {
  const size_t columns = a.size() / rank;
  std::vector<float> row(columns);
  for (size_t i = begin; i < end; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (size_t k = 0; k < rank; ++k) {
      const float factor = b[i * rank + k];
      const float* values = a.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * values[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      const size_t index = i * columns + j;
      set_element(dtype, weight.data(), index,
                  element(dtype, weight.data(), index) + scaling * row[j]);
    }
  }
}

void add_delta(std::vector<std::byte>& weight, const StoredTensor& tensor, const Delta& delta,
               double scaling, int threads) {
  const std::vector<float> a = floats_of(delta.a), b = floats_of(delta.b);
  const auto rank = static_cast<size_t>(delta.a.tensor->shape[0]);
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, std::max<size_t>(rows, 1));
  std::vector<std::thread> others;
  for (size_t t = 0; t < count; ++t) {
    others.emplace_back([&, t] {
      add_rows(weight, tensor.dtype, a, b, rank, static_cast<float>(scaling), rows * t / count,
               rows * (t + 1) / count);
    });
  }
  for (std::thread& thread : others) thread.join();
}

// In the dtype of the base.
std::vector<std::byte> converted(const Place& place, StoredDtype dtype) {
  if (place.tensor->dtype == dtype) return bytes_of(place);
  const std::vector<float> values = floats_of(place);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(element_size_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) set_element(dtype, bytes.data(), i, values[i]);
  return bytes;
}

// --- other files -----------------------------------------------------------------------------------

bool is_copied(const fs::directory_entry& entry) {
  static const std::set<std::string> kFormats = {".safetensors", ".bin",  ".pt",   ".pth", ".h5",
                                                 ".msgpack",     ".gguf", ".onnx", ".ckpt"};
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && !name.starts_with(".") &&
         !name.ends_with(".safetensors.index.json") && !name.ends_with(".bin.index.json") &&
         name != kConfig && name != "README.md" && name != "sftbench_manifest.json" &&
         kFormats.count(entry.path().extension().string()) == 0;
}

// Tokenizers lie beside adapters, too, and are then what was trained with.
std::vector<std::string> copy_others(const MergeRequest& request, const fs::path& target) {
  std::map<std::string, fs::path> files;
  for (const fs::path& folder : {request.base, request.adapter}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool of_model = name == "config.json" || name == "generation_config.json";
      if (is_copied(entry) && (folder == request.base || !of_model)) files[name] = entry.path();
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, path] : files) {
    AtomicFile file((target / name).string());
    file.append(read_file(path));
    file.commit();
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::string base_model_of(const fs::path& adapter) {
  const Json config = read_json_file((adapter / kConfig).string());
  const Json base = config.is_object() ? config.value("base_model_name_or_path", Json()) : Json();
  return base.is_string() ? base.get<std::string>() : std::string();
}

MergeSummary merge_adapter(const MergeRequest& request) {
  MergeFindings findings;
  const Settings settings = read_settings(request.adapter, findings);
  refuse_quantized(request.base);
  const CheckpointShard adapter_file = open_safetensors(request.adapter / kWeights);
  const Adapter adapter = sort_tensors(adapter_file, findings);
  const Base base(request.base);
  const Plan plan = plan_merge(adapter, base, adapter_file.path, findings);
  findings.throw_if_any();

  std::error_code error;
  if (fs::exists(request.output, error) && !fs::is_empty(request.output, error)) {
    throw InputError(
        {finding(request.output, {}, "is there already", "a new folder, or an empty one")});
  }
  ModelFolder folder(request.output);
  MergeSummary summary;
  summary.adapted = static_cast<int64_t>(plan.deltas.size());
  summary.replaced = static_cast<int64_t>(plan.replaced.size());
  summary.tensors = static_cast<int64_t>(base.tensors().size());
  std::vector<TensorHeader> headers;
  for (const Place& place : base.tensors()) {
    headers.push_back({place.tensor->name, place.tensor->dtype, place.tensor->shape});
    summary.size_bytes += place.tensor->size_bytes;
  }
  ModelFilesWriter writer(folder.pending().path(), headers);
  uint64_t done = 0;
  for (size_t i = 0; i < base.tensors().size(); ++i) {
    const Place& place = base.tensors()[i];
    const auto whole = plan.replaced.find(i);
    std::vector<std::byte> bytes = whole == plan.replaced.end()
                                       ? bytes_of(place)
                                       : converted(whole->second, place.tensor->dtype);
    if (const auto found = plan.deltas.find(i); found != plan.deltas.end()) {
      const auto& [linear, delta] = found->second;
      add_delta(bytes, *place.tensor, delta, scaling_of(settings, linear, delta.a.tensor->shape[0]),
                request.threads);
    }
    writer.append(bytes.data(), bytes.size());
    done += bytes.size();
    if (request.progress) request.progress({done, summary.size_bytes});
  }
  writer.finish();
  summary.copied = copy_others(request, folder.pending().path());
  folder.commit();
  return summary;
}

}  // namespace sftbench
