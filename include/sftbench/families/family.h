// The families of models that this program trains: how Hugging Face calls them, how their
// config.json is read, and what they consist of. One row for each, at the end of a source file
// (families/granite.cpp).
#pragma once

#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {

class ConfigFields;

// How checkpoints name what every family has.
struct ModelNames {
  const char* embedding;     // "model.embed_tokens"
  const char* layer_prefix;  // "model.layers.", which the layer's number follows
  const char* final_norm;    // "model.norm"
  const char* output;        // "lm_head"
};

// The class in model/ that builds a family's models.
enum class ModelClass { kLlama, kBloom, kGptBigCode, kVision };

struct Family {
  const char* model_type;    // of config.json: "granite"
  const char* architecture;  // "GraniteForCausalLM"
  const char* layer_class;   // that FSDP wraps: "GraniteDecoderLayer"; "": that of the text model
  ModelNames names;
  // Fills everything but `family`, `gptq` and `nf4`. Findings stay in the fields.
  void (*read)(ConfigFields& fields, ModelConfig& config);
  ModelShape (*shape)(const ModelConfig& config);
  // The name here of a tensor that checkpoints have had under several; null: they never had. Empty:
  // the tensor is of a part that is not trained, which saved models take over
  // (engine/carried_tensors.h).
  std::string (*canonical_name)(const std::string& stored) = nullptr;
  ModelClass model_class = ModelClass::kLlama;
};

// Sorted by model_type.
const std::vector<Family>& families();

const Family& family_of(const ModelConfig& config);
// Nothing for a model_type that is not trained.
const Family* find_family(const std::string& model_type);

// Whether models of this type are trained, and read images.
bool is_vision_family(const std::string& model_type);

// Whether models of this type have parts for images, and their text model alone is trained.
bool is_text_part_family(const std::string& model_type);

// The model types that can be trained, sorted.
const std::vector<std::string>& known_model_types();

}  // namespace sftbench
