// What a merge makes of each tensor of the base (merge_adapter.h).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/adapter_settings.h"
#include "checkpoint/merge_tensors.h"
#include "sftbench/base/json.h"
#include "sftbench/checkpoint/safetensors_writer.h"

namespace sftbench {

// Which file an adapter of a larger vocabulary lacks.
inline constexpr const char* kRowsOfTokens =
    "the rows of the added tokens: an adapter_model.safetensors with embedding and head, as peft "
    "saves it under "
    "save_embedding_layers=True, or --model DIR with the base whose embedding was resized";

struct Adapter {
  std::map<std::string, Delta> deltas;    // by the module's name
  std::map<std::string, Place> replaced;  // by the tensor's name
};

// The tensors of a checkpoint in their order.
class BaseTensors {
 public:
  // InputError.
  explicit BaseTensors(const std::filesystem::path& folder);

  const std::vector<Place>& all() const { return order_; }

  // Under its name, or with or without the name of the inner model in front, as hubs have both.
  std::optional<size_t> find(const std::string& name) const;

 private:
  std::vector<CheckpointShard> shards_;
  std::vector<Place> order_;
  std::map<std::string, size_t> by_name_;
};

// A tensor of the merged model: the values of `source` in the dtype and shape of `header`, plus the
// delta.
struct Merged {
  TensorHeader header;
  Place source;
  std::optional<Delta> delta = {};
  bool replaced = false;

  // InputError where the dtype does not hold a value.
  std::vector<std::byte> bytes(int threads) const;
};

// The tensors of the base in their order, changed as the adapter says. A base whose head is its
// embedding has one tensor for both. An adapter of only one of the two unties them: the other stays
// as it was, as in peft's model before a merge. (peft 0.21 merges a LoRA of either into both, and
// its model is another one afterwards.)
class MergePlan {
 public:
  // Adds what does not fit, of the adapter's `file`.
  MergePlan(const Adapter& adapter, const AdapterSettings& settings, const BaseTensors& base,
            const std::filesystem::path& file, MergeFindings& findings);

  const std::vector<Merged>& tensors() const { return merged_; }

  // Of the embedding, where there is one of a name that is known.
  std::optional<int64_t> rows() const;

  // Drops the head's own tensor where it became what the embedding is. REQUIRES: no findings.
  void tie_equals(int threads);

  // The base's config.json, of the tensors that there are now.
  Json config(Json config) const;

 private:
  void find_vocabulary(const Adapter& adapter);
  std::optional<size_t> find(const std::string& weight) const;
  void replace(const std::string& name, const Place& place);
  void adapt(const std::string& module, const Delta& delta);
  void require_equal_rows();

  const AdapterSettings& settings_;
  const BaseTensors& base_;
  const std::filesystem::path& file_;
  MergeFindings& findings_;
  std::vector<Merged> merged_;
  std::optional<size_t> embedding_, head_;
  bool unties_ = false, added_head_ = false, differ_ = false;
};

}  // namespace sftbench
