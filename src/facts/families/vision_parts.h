// The parts that families which read images share: their text model, their tower and their
// placeholder in config.json, and the shapes of tower and projector.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "families/config_fields.h"
#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {

// The object under `key`, or `otherwise`, with a finding where it is something else.
Json part_of(ConfigFields& fields, const std::string& key, const Json& otherwise);

// text_config, a model of one of the `known` types, the first where it names none; and what the
// whole model says of it: dtype, and tie_word_embeddings.
void read_text_part(ConfigFields& fields, ModelConfig& config,
                    const std::vector<std::string>& known);

// The same of Llama's kin; tie_word_embeddings, a matter of the whole model; and no quantization.
void read_text_model(ConfigFields& fields, ModelConfig& config);

// Names of the text model's tensors as transformers has had them: language_model.model. and
// language_model.lm_head. in the files, and as modules since 4.52 model.language_model.
std::string text_part_name(const std::string& stored);

// An activation function of CLIP or SigLIP under `key`.
VisionActivation read_vision_activation(ConfigFields& fields, const std::string& key,
                                        const std::string& otherwise);

// What a class of towers has where vision_config says nothing.
struct TowerDefaults {
  int64_t hidden_size = 768;
  int64_t heads = 12;
  int64_t patch_size = 16;
  const char* activation = "gelu_pytorch_tanh";
  double norm_eps = 1e-6;
};
void read_tower(ConfigFields& fields, const TowerDefaults& defaults, VisionConfig& vision);

// The placeholder under `key`. REQUIRES: vocab_size is read.
void read_image_token(ConfigFields& fields, const ModelConfig& config, const std::string& key,
                      int64_t of_class, VisionConfig& vision);

// A whole number above 0; 0 for anything else.
int64_t whole_number(const Json& value);

// The shape of the text model, with the tensors of tower and projector behind its embedding.
ModelShape vision_language_shape(const ModelConfig& config);

}  // namespace sftbench
