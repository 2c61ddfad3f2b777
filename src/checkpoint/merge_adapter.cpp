#include "sftbench/checkpoint/merge_adapter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "checkpoint/adapter_settings.h"
#include "checkpoint/half.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/model_card.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "adapter_model.safetensors";
constexpr std::string_view kPeftPrefix = "base_model.model.";

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

struct Delta {
  Place a, b;  // [r, in], [out, r]
  float scaling = 0;
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

bool is_whole(const std::string& linear, const Delta& delta, const fs::path& file,
              MergeFindings& findings) {
  const StoredTensor *a = delta.a.tensor, *b = delta.b.tensor;
  if (a == nullptr || b == nullptr) {
    findings.add(file, linear, std::string("has no ") + (a == nullptr ? "lora_A" : "lora_B"),
                 "both");
    return false;
  }
  const bool fits =
      a->shape.size() == 2 && b->shape.size() == 2 && a->shape[0] == b->shape[1] && a->shape[0] > 0;
  if (!fits) {
    findings.add(file, linear,
                 "has lora_A " + shape_text(a->shape) + " and lora_B " + shape_text(b->shape),
                 "[r, in] and [out, r]");
  }
  return fits;
}

// Before anything is written: a single NaN of the adapter makes rows of the model NaN.
void check_finite(const Place& place, MergeFindings& findings) {
  if (place.tensor == nullptr) return;
  const std::vector<float> values = floats_of(place);
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return;
  findings.add(place.shard->path, place.tensor->name,
               std::string("element ") + std::to_string(bad - values.begin()) + " is " +
                   (std::isnan(*bad) ? "NaN" : "infinite"),
               "finite numbers");
}

void check_finite(const Adapter& adapter, MergeFindings& findings) {
  for (const auto& [linear, delta] : adapter.deltas) {
    check_finite(delta.a, findings);
    check_finite(delta.b, findings);
  }
  for (const auto& [name, place] : adapter.replaced) check_finite(place, findings);
}

// Where a run of this program saved the adapter, its two files have to be what was saved. The others
// may be gone: they are not merged.
void check_saved(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kManifestFile, error)) return;
  Manifest manifest = read_manifest(folder);
  std::erase_if(manifest.files, [](const FileSum& sum) {
    return sum.name != kAdapterConfig && sum.name != kWeights;
  });
  verify_named_files(folder, manifest);
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
  const Json method = found->is_object() ? found->value("quant_method", Json()) : Json();
  throw InputError({finding(file, "quantization_config",
                            "the base is quantized (" +
                                (method.is_string() ? method.get<std::string>() : "unknown") +
                                "), and a delta would be rounded away",
                            "the base in its own dtype: --model DIR")});
}

// What each tensor of the base gets, by its position.
struct Plan {
  std::map<size_t, Delta> deltas;
  std::map<size_t, Place> replaced;
};

Plan plan_merge(const Adapter& adapter, const AdapterSettings& settings, const Base& base,
                const fs::path& file, MergeFindings& findings) {
  Plan plan;
  for (const auto& [linear, delta] : adapter.deltas) {
    if (!is_whole(linear, delta, file, findings)) continue;
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
      Delta scaled = delta;
      scaled.scaling = scaling_of(settings, linear, delta.a.tensor->shape[0], findings);
      if (!plan.deltas.emplace(*found, scaled).second) {
        findings.add(file, linear, "adapts " + weight.name + ", which another one adapts, too",
                     "one delta for each linear");
      }
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

// Rows [begin, end) of weight += scaling * B A. False: a finite element is not finite any more.
bool add_rows(std::vector<std::byte>& weight, StoredDtype dtype, const std::vector<float>& a,
              const std::vector<float>& b, size_t rank, float scaling, size_t begin, size_t end) {
  const size_t columns = a.size() / rank;
  std::vector<float> row(columns);
  bool finite = true;
  for (size_t i = begin; i < end; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (size_t k = 0; k < rank; ++k) {
      const float factor = b[i * rank + k];
      const float* values = a.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * values[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      const size_t index = i * columns + j;
      const float before = element(dtype, weight.data(), index);
      set_element(dtype, weight.data(), index, before + scaling * row[j]);
      const float after = element(dtype, weight.data(), index);
      finite = finite && (std::isfinite(after) || !std::isfinite(before));
    }
  }
  return finite;
}

[[noreturn]] void refuse_overflow(const Place& place, StoredDtype dtype) {
  throw InputError({finding(place.shard->path, place.tensor->name,
                            "makes a weight that " + std::string(to_string(dtype)) +
                                " does not hold: it would be infinite",
                            "the scaling, and the base, that it was trained with")});
}

// InputError where that leaves what the dtype holds.
void add_delta(std::vector<std::byte>& weight, const StoredTensor& tensor, const Delta& delta,
               int threads) {
  const std::vector<float> a = floats_of(delta.a), b = floats_of(delta.b);
  const auto rank = static_cast<size_t>(delta.a.tensor->shape[0]);
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, std::max<size_t>(rows, 1));
  std::vector<std::thread> others;
  std::atomic<bool> finite = true;
  for (size_t t = 0; t < count; ++t) {
    others.emplace_back([&, t] {
      if (!add_rows(weight, tensor.dtype, a, b, rank, delta.scaling, rows * t / count,
                    rows * (t + 1) / count)) {
        finite = false;
      }
    });
  }
  for (std::thread& thread : others) thread.join();
  if (!finite) refuse_overflow(delta.b, tensor.dtype);
}

// In the dtype of the base. InputError where that does not hold it.
std::vector<std::byte> converted(const Place& place, StoredDtype dtype) {
  if (place.tensor->dtype == dtype) return bytes_of(place);
  const std::vector<float> values = floats_of(place);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(element_size_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    set_element(dtype, bytes.data(), i, values[i]);
    if (!std::isfinite(element(dtype, bytes.data(), i))) refuse_overflow(place, dtype);
  }
  return bytes;
}

// --- other files -----------------------------------------------------------------------------------

bool is_copied(const fs::directory_entry& entry) {
  static const std::set<std::string> kFormats = {".safetensors", ".bin",  ".pt",   ".pth", ".h5",
                                                 ".msgpack",     ".gguf", ".onnx", ".ckpt"};
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && !name.starts_with(".") &&
         !name.ends_with(".safetensors.index.json") && !name.ends_with(".bin.index.json") &&
         name != kAdapterConfig && name != kModelCardFile && name != "sftbench_manifest.json" &&
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

// The cards of the base and of the adapter tell of other weights.
void write_card(const MergeRequest& request, const AdapterSettings& settings,
                const MergeSummary& summary, const fs::path& target) {
  ModelCard card;
  card.title = "Fine-tuned model";
  card.base_model = base_model_name(request.base);
  const Json config = read_json_file((request.base / "config.json").string());
  if (config.contains("vision_config")) card.pipeline_tag = kImagesToText;
  card.facts = {{"Base model", card.base_model},
                {"Method", "LoRA, merged: r " + card_number(settings.rank) + ", lora_alpha " +
                               card_number(settings.alpha)},
                {"Adapted linears", std::to_string(summary.adapted)}};
  if (summary.replaced > 0) {
    card.facts.emplace_back("Tensors of the adapter's own", std::to_string(summary.replaced));
  }
  AtomicFile file((target / kModelCardFile).string());
  file.append(model_card_text(card));
  file.commit();
}

void refuse_occupied(const fs::path& output) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(output, error))) return;
  if (fs::is_directory(output, error) && fs::is_empty(output, error)) return;
  throw InputError({finding(output, {}, "is there already", "a new folder, or an empty one")});
}

}  // namespace

std::string base_model_of(const fs::path& adapter) {
  const Json config = read_json_file((adapter / kAdapterConfig).string());
  const Json base = config.is_object() ? config.value("base_model_name_or_path", Json()) : Json();
  return base.is_string() ? base.get<std::string>() : std::string();
}

MergeSummary merge_adapter(const MergeRequest& request) {
  refuse_occupied(request.output);
  check_saved(request.adapter);
  MergeFindings findings;
  const AdapterSettings settings = read_adapter_settings(request.adapter, findings);
  refuse_quantized(request.base);
  const CheckpointShard adapter_file = open_safetensors(request.adapter / kWeights);
  const Adapter adapter = sort_tensors(adapter_file, findings);
  check_finite(adapter, findings);
  const Base base(request.base);
  const Plan plan = plan_merge(adapter, settings, base, adapter_file.path, findings);
  findings.throw_if_any();

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
      add_delta(bytes, *place.tensor, found->second, request.threads);
    }
    writer.append(bytes.data(), bytes.size());
    done += bytes.size();
    if (request.progress) request.progress({done, summary.size_bytes});
  }
  writer.finish();
  summary.copied = copy_others(request, folder.pending().path());
  write_card(request, settings, summary, folder.pending().path());
  folder.commit();
  return summary;
}

}  // namespace sftbench
