// What is known of each model of the documents' lists: where its weights are, what its architecture
// is, how many parameters it has, and where each of these facts comes from (config/models.yaml).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/base/yaml.h"

namespace sftbench {

// How sure a fact is: read in its source, recalled by its writer, inferred from a sibling,
// unpublished.
enum class Confidence { kRead, kRecalled, kInferred, kUnpublished };
std::string_view to_string(Confidence confidence);

// A parameter count that somebody else gives, tied output weights counted once.
struct PublishedCount {
  std::string text;  // as published: "6738415616" or "3.4B"
  double parameters = 0;
  double tolerance = 0;  // half a unit of the last digit that is given; 0: exact
  Confidence confidence = Confidence::kRecalled;
  std::string source;
};

struct ModelFacts {
  std::string name;             // as in entities: "llama3.1-8b"
  std::string family;           // Hugging Face model_type: "llama"
  bool in_entity_space = true;  // false: named only in a table of target modules
  std::map<std::string, std::vector<std::string>>
      weights;                            // Vanilla, GPTQ-Quantized -> places to look, in order
  std::vector<std::string> lora_targets;  // of the documents' tables; empty: in none
  std::vector<std::string> gptq_lora_targets;
  Json hf_config;                             // Hugging Face config.json; null when unpublished
  Confidence confidence = Confidence::kRead;  // of hf_config as a whole
  std::map<std::string, Confidence>
      less_sure;                         // keys of hf_config that are less sure than the rest
  std::vector<std::string> same_shapes;  // hub ids of others whose tensors have the same shapes
  std::vector<std::string> sources;
  std::string note;  // open questions and how they were settled; may be empty
  std::optional<PublishedCount> published;

  // Number of experts of a mixture-of-experts model (num_local_experts); 0 for a dense one, nothing
  // when unknown.
  std::optional<int64_t> experts() const;
};

// The model that a name which is none here may mean.
struct NearModel {
  std::string name;          // empty: nothing is near
  bool same_one = false;     // it is that model, by its place on the hub or in another spelling
  bool same_shapes = false;  // it is another, whose tensors have the same shapes
};

class ModelCatalog {
 public:
  // InputError with everything that is wrong with the file.
  static ModelCatalog read(const std::string& path);

  const std::vector<ModelFacts>& models() const { return models_; }
  const ModelFacts* find(std::string_view name) const;
  std::vector<std::string> names() const;
  // "Llama-2-7B", "meta-llama/Llama-3.1-8B-Instruct", "granit-3.1-2b": letter case, dashes, dots,
  // the organization, and endings as -hf and -instruct do not matter.
  NearModel near(std::string_view written) const;

 private:
  std::vector<ModelFacts> models_;
};

}  // namespace sftbench
