#include "checkpoint/merge_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr std::string_view kWeight = ".weight";

bool has_leaf(std::string_view module, std::string_view leaf) {
  return module == leaf ||
         (module.ends_with(leaf) && module[module.size() - leaf.size() - 1] == '.');
}

// By Hugging Face's names, with or without ".weight".
bool is_embedding(std::string_view name) {
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return has_leaf(name, "embed_tokens") || has_leaf(name, "wte") ||
         has_leaf(name, "word_embeddings");
}

bool is_head(std::string_view name) {
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return has_leaf(name, "lm_head");
}

bool is_whole(const std::string& module, const Delta& delta, const std::filesystem::path& file,
              MergeFindings& findings) {
  const StoredTensor *a = delta.a.tensor, *b = delta.b.tensor;
  const std::string kind = delta.of_embedding ? "lora_embedding_" : "lora_";
  if (a == nullptr || b == nullptr) {
    findings.add(file, module, "has no " + kind + (a == nullptr ? "A" : "B"), "both");
    return false;
  }
  const bool fits =
      a->shape.size() == 2 && b->shape.size() == 2 && a->shape[0] == b->shape[1] && a->shape[0] > 0;
  if (!fits) {
    findings.add(
        file, module,
        "has " + kind + "A " + shape_text(a->shape) + " and " + kind + "B " + shape_text(b->shape),
        "[r, in] and [out, r]");
  }
  return fits;
}

// Where an adapter has them, each linear has one for each output.
bool has_fitting_magnitude(const std::string& module, const Delta& delta, bool expected,
                           const std::filesystem::path& file, MergeFindings& findings) {
  const StoredTensor* magnitude = delta.magnitude.tensor;
  if (!expected && magnitude == nullptr) return true;
  const std::vector<int64_t> shape = {delta.b.tensor->shape.front()};
  if (delta.of_embedding) {
    findings.add(file, module, "is an embedding under DoRA, which is not merged here", "linears");
  } else if (magnitude == nullptr || !expected) {
    findings.add(file, module,
                 std::string(expected ? "has no" : "has a") + " lora_magnitude_vector",
                 std::string("use_dora ") + (expected ? "false" : "true") +
                     " in adapter_config.json, or the file that it describes");
  } else if (magnitude->shape != shape) {
    findings.add(file, module, "has lora_magnitude_vector " + shape_text(magnitude->shape),
                 shape_text(shape));
  } else {
    return true;
  }
  return false;
}

}  // namespace

// --- the base ------------------------------------------------------------------------------------

BaseTensors::BaseTensors(const std::filesystem::path& folder) : shards_(open_checkpoint(folder)) {
  for (const CheckpointShard& shard : shards_) {
    for (const StoredTensor& tensor : shard.tensors) {
      order_.push_back({&shard, &tensor});
      by_name_[tensor.name] = order_.size() - 1;
      // As transformers names the modules of a text model beside a vision tower since 4.52.
      constexpr std::string_view kTextModel = "language_model.model.";
      if (tensor.name.starts_with(kTextModel))
        by_name_["model.language_model." + tensor.name.substr(kTextModel.size())] =
            order_.size() - 1;
    }
  }
}

std::optional<size_t> BaseTensors::find(const std::string& name) const {
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

// --- the merged model ----------------------------------------------------------------------------

std::vector<std::byte> Merged::bytes(int threads) const {
  std::vector<std::byte> bytes = converted(source, header.dtype);
  if (delta) add_delta(bytes, header.dtype, *delta, threads);
  return bytes;
}

MergePlan::MergePlan(const Adapter& adapter, const AdapterSettings& settings,
                     const BaseTensors& base, const std::filesystem::path& file,
                     MergeFindings& findings)
    : settings_(settings), base_(base), file_(file), findings_(findings) {
  for (const Place& place : base.all()) {
    const StoredTensor& tensor = *place.tensor;
    merged_.push_back({{tensor.name, tensor.dtype, tensor.shape}, place});
  }
  find_vocabulary(adapter);
  for (const auto& [name, place] : adapter.replaced) replace(name, place);
  for (const auto& [module, delta] : adapter.deltas) adapt(module, delta);
  require_equal_rows();
}

// Gives a head that is the embedding a tensor of its own where the adapter changes one of them.
void MergePlan::find_vocabulary(const Adapter& adapter) {
  for (size_t i = 0; i < merged_.size(); ++i) {
    if (is_embedding(merged_[i].header.name)) embedding_ = i;
    if (is_head(merged_[i].header.name)) head_ = i;
  }
  std::string head_name = "lm_head.weight";
  const auto look_at = [&](const std::string& name, bool changed) {
    unties_ = unties_ || (changed && is_embedding(name)) || is_head(name);
    if (is_head(name)) head_name = name.ends_with(kWeight) ? name : name + std::string(kWeight);
  };
  for (const auto& [module, delta] : adapter.deltas) look_at(module, true);
  for (const auto& [name, place] : adapter.replaced) {
    // An embedding that is not named there was not trained: rows were added to it, and to the head.
    look_at(name, std::any_of(settings_.modules_to_save.begin(), settings_.modules_to_save.end(),
                              [](const std::string& saved) { return is_embedding(saved); }));
  }
  if (head_ || !embedding_ || !unties_) return;
  merged_.push_back(merged_[*embedding_]);
  merged_.back().header.name = head_name;
  head_ = merged_.size() - 1;
  added_head_ = true;
}

std::optional<size_t> MergePlan::find(const std::string& weight) const {
  return head_ && is_head(weight) ? head_ : base_.find(weight);
}

void MergePlan::replace(const std::string& name, const Place& place) {
  const std::optional<size_t> at = find(name);
  if (!at) return findings_.add(file_, name, "is no tensor of the base");
  Merged& merged = merged_[*at];
  std::vector<int64_t> shape = merged.header.shape;
  const bool of_tokens = (at == embedding_ || at == head_) && shape.size() == 2;
  if (of_tokens && place.tensor->shape.size() == 2) shape.front() = place.tensor->shape.front();
  if (shape != place.tensor->shape || !is_float(merged.header.dtype)) {
    return findings_.add(file_, name,
                         "is of " + shape_text(place.tensor->shape) + ", and the base has " +
                             shape_text(merged.header.shape) + " in " +
                             std::string(to_string(merged.header.dtype)),
                         "the base that it was trained on");
  }
  merged.header.shape = shape;
  merged.source = place;
  merged.replaced = true;
}

void MergePlan::adapt(const std::string& module, const Delta& delta) {
  if (!is_whole(module, delta, file_, findings_) ||
      !has_fitting_magnitude(module, delta, settings_.magnitudes, file_, findings_)) {
    return;
  }
  const std::optional<size_t> at = find(module + std::string(kWeight));
  if (!at) {
    return findings_.add(file_, module, "adapts a linear that the base does not have",
                         "the base that it was trained on");
  }
  Merged& merged = merged_[*at];
  std::vector<int64_t> expected = {delta.b.tensor->shape.front(), delta.a.tensor->shape.back()};
  const bool transposed = delta.of_embedding || (settings_.transposed && !is_head(module));
  if (transposed) std::swap(expected.front(), expected.back());
  if (merged.header.shape != expected) {
    const bool of_tokens = (at == embedding_ || at == head_) && merged.header.shape.size() == 2 &&
                           merged.header.shape.back() == expected.back();
    return findings_.add(
        file_, module,
        "is of " + shape_text(expected) + ", and the base has " + shape_text(merged.header.shape),
        of_tokens ? kRowsOfTokens : "the base that it was trained on");
  }
  if (!is_float(merged.header.dtype)) {
    return findings_.add(file_, module,
                         "the base has it in " + std::string(to_string(merged.header.dtype)),
                         "F32, BF16 or F16");
  }
  if (merged.delta) {
    return findings_.add(file_, module,
                         "adapts " + merged.header.name + ", which another one adapts, too",
                         "one delta for each linear");
  }
  merged.delta = delta;
  merged.delta->transposed = transposed;
  merged.delta->scaling = scaling_of(settings_, module, delta.a.tensor->shape[0], findings_);
}

void MergePlan::require_equal_rows() {
  if (!head_ || !embedding_) return;
  const Merged &head = merged_[*head_], &embedding = merged_[*embedding_];
  if (head.header.shape == embedding.header.shape) return;
  findings_.add(file_, head.replaced ? head.header.name : embedding.header.name,
                "makes the embedding " + shape_text(embedding.header.shape) + " and the head " +
                    shape_text(head.header.shape),
                "as many rows in both");
}

std::optional<int64_t> MergePlan::rows() const {
  if (!embedding_ || merged_[*embedding_].header.shape.empty()) return std::nullopt;
  return merged_[*embedding_].header.shape.front();
}

void MergePlan::tie_equals(int threads) {
  if (!head_ || !embedding_ || !unties_) return;
  differ_ = merged_[*head_].bytes(threads) != merged_[*embedding_].bytes(threads);
  if (!differ_ && added_head_) merged_.pop_back();
}

Json MergePlan::config(Json config) const {
  const auto text = config.find("text_config");
  const bool has_text = text != config.end() && text->is_object();
  Json& of_text = has_text ? *text : config;
  if (embedding_ && merged_[*embedding_].replaced) of_text["vocab_size"] = *rows();
  if (!differ_) return config;
  if (of_text.contains("tie_word_embeddings")) of_text["tie_word_embeddings"] = false;
  config["tie_word_embeddings"] = false;
  return config;
}

}  // namespace sftbench
