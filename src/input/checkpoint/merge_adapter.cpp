#include "sftbench/checkpoint/merge_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/adapter_settings.h"
#include "checkpoint/merge_plan.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/model_card.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kConfig = "config.json";
constexpr std::string_view kPeftPrefix = "base_model.model.";

// --- the adapter ---------------------------------------------------------------------------------

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
    } else if (const auto of_outputs = without_suffix(name, ".lora_magnitude_vector")) {
      adapter.deltas[*of_outputs].magnitude = place;
    } else if (const auto of_rows = without_suffix(name, ".lora_embedding_A")) {
      adapter.deltas[*of_rows].a = place;
      adapter.deltas[*of_rows].of_embedding = true;
    } else if (const auto of_width = without_suffix(name, ".lora_embedding_B")) {
      adapter.deltas[*of_width].b = place;
      adapter.deltas[*of_width].of_embedding = true;
    } else if (const auto below = without_suffix(name, ".base_layer.weight")) {
      adapter.replaced[*below + ".weight"] = place;  // peft saves it where the vocabulary has grown
    } else if (name.find("lora_") != std::string_view::npos) {
      findings.add(shard.path, tensor.name, "is of a kind of LoRA that is not done here",
                   "lora_A and lora_B");
    } else if (name.find("trainable_tokens_delta") != std::string_view::npos) {
      findings.add(shard.path, tensor.name,
                   "holds single rows (trainable_token_indices), which are not merged here",
                   "modules_to_save with the whole embedding");
    } else {
      adapter.replaced[std::string(name)] = place;
    }
  }
  if (adapter.deltas.empty() && adapter.replaced.empty()) {
    findings.add(shard.path, {}, "holds no tensors of LoRA", "lora_A and lora_B");
  }
  return adapter;
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
    check_finite(delta.magnitude, findings);
  }
  for (const auto& [name, place] : adapter.replaced) check_finite(place, findings);
}

// Where a run of this program saved the adapter, its two files have to be what was saved. The
// others may be gone: they are not merged.
void check_saved(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kManifestFile, error)) return;
  Manifest manifest = read_manifest(folder);
  std::erase_if(manifest.files, [](const FileSum& sum) {
    return sum.name != kAdapterConfig && sum.name != kWeights;
  });
  verify_named_files(folder, manifest);
}

// --- what is refused -----------------------------------------------------------------------------

void refuse_quantized(const fs::path& base) {
  const fs::path file = base / kConfig;
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

// --- other files ---------------------------------------------------------------------------------

// Whatever a base has beside its weights.
bool is_of_base(const fs::directory_entry& entry) {
  static const std::set<std::string> kFormats = {".safetensors", ".bin",  ".pt",   ".pth", ".h5",
                                                 ".msgpack",     ".gguf", ".onnx", ".ckpt"};
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && !name.starts_with(".") &&
         !name.ends_with(".safetensors.index.json") && !name.ends_with(".bin.index.json") &&
         name != kAdapterConfig && name != kModelCardFile && name != kManifestFile &&
         kFormats.count(entry.path().extension().string()) == 0;
}

// Of an adapter, which may be a checkpoint or lie among other things, what was trained with:
// tokenizer and processor.
bool is_of_adapter(const fs::directory_entry& entry) {
  static const std::set<std::string> kOthers = {"config.json", "generation_config.json",
                                                kTrainerStateFile};
  const std::string name = entry.path().filename().string();
  const bool of_state = name.starts_with("optimizer") || name.starts_with("model");
  return is_of_base(entry) && is_saved_file_name(name) && !of_state && kOthers.count(name) == 0;
}

std::vector<std::string> copy_others(const MergeRequest& request, const fs::path& target) {
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::directory_iterator(request.base))
    if (is_of_base(entry)) files[entry.path().filename().string()] = entry.path();
  for (const auto& entry : fs::directory_iterator(request.adapter))
    if (is_of_adapter(entry)) files[entry.path().filename().string()] = entry.path();
  std::vector<std::string> names;
  for (const auto& [name, path] : files) {
    AtomicFile file((target / name).string());
    file.append(read_file(path));
    file.commit();
    names.push_back(name);
  }
  return names;
}

// Byte for byte the base's, unless the merged model is of another vocabulary, or no longer tied.
void write_config(const fs::path& base, const MergePlan& plan, const fs::path& target) {
  const Json before = read_json_file((base / kConfig).string());
  const Json config = plan.config(before);
  if (config == before) return;
  AtomicFile file((target / kConfig).string());
  file.append(json_text(config, 2) + "\n");
  file.commit();
}

// A tokenizer beside the adapter goes with the model, and a token without a row is an error of
// whoever loads both.
void require_rows_of_tokens(const fs::path& adapter, const MergePlan& plan,
                            MergeFindings& findings) {
  const fs::path file = adapter / "tokenizer.json";
  const std::optional<int64_t> rows = plan.rows();
  std::error_code error;
  if (!rows || !fs::is_regular_file(file, error)) return;
  const Json tokenizer = read_json_file(file.string());
  const auto added = tokenizer.is_object() ? tokenizer.find("added_tokens") : tokenizer.end();
  if (added == tokenizer.end() || !added->is_array()) return;
  for (const Json& token : *added) {
    const Json id = token.is_object() ? token.value("id", Json()) : Json();
    if (!id.is_number_integer() || id.get<int64_t>() < *rows) continue;
    findings.add_once(file, "added_tokens",
                      "the token " + json_text(token.value("content", Json())) + " has id " +
                          json_text(id) + ", and the merged embedding has " + counted(*rows, "row"),
                      kRowsOfTokens);
  }
}

// The cards of the base and of the adapter tell of other weights.
void write_card(const MergeRequest& request, const AdapterSettings& settings,
                const MergeSummary& summary, const fs::path& target) {
  ModelCard card;
  card.title = "Fine-tuned model";
  card.base_model = base_model_name(request.base);
  const Json config = read_json_file((request.base / kConfig).string());
  if (config.contains("vision_config")) card.pipeline_tag = kImagesToText;
  card.facts = {
      {"Base model", card.base_model},
      {"Method", (settings.magnitudes ? "DoRA" : "LoRA") + std::string(", merged: r ") +
                     card_number(settings.rank) + ", lora_alpha " + card_number(settings.alpha)},
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
  const BaseTensors base(request.base);
  MergePlan plan(adapter, settings, base, adapter_file.path, findings);
  require_rows_of_tokens(request.adapter, plan, findings);
  findings.throw_if_any();
  plan.tie_equals(request.threads);

  ModelFolder folder(request.output);
  MergeSummary summary;
  std::vector<TensorHeader> headers;
  for (const Merged& merged : plan.tensors()) {
    headers.push_back(merged.header);
    summary.size_bytes += merged.header.size_bytes();
    summary.adapted += merged.delta ? 1 : 0;
    summary.replaced += merged.replaced ? 1 : 0;
  }
  summary.tensors = static_cast<int64_t>(headers.size());
  ModelFilesWriter writer(folder.pending().path(), headers);
  uint64_t done = 0;
  for (const Merged& merged : plan.tensors()) {
    const std::vector<std::byte> bytes = merged.bytes(request.threads);
    writer.append(bytes.data(), bytes.size());
    done += bytes.size();
    if (request.progress) request.progress({done, summary.size_bytes});
  }
  writer.finish();
  summary.copied = copy_others(request, folder.pending().path());
  write_config(request.base, plan, folder.pending().path());
  write_card(request, settings, summary, folder.pending().path());
  folder.commit();
  return summary;
}

}  // namespace sftbench
