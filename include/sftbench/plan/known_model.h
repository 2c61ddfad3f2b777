// A model's configuration and shape, remembered: predictions and refusals of many entities ask for
// the same few models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// Layers that cost the same.
struct LayerKind {
  size_t layer = 0;  // the first one, of the shape's
  int64_t count = 0;
};

struct KnownModel {
  Json hf_config;
  ModelConfig config;
  ModelShape shape;
  std::vector<LayerKind> kinds;
};

// Of this thread, valid until it has asked for 64 other models. InputError as parse_model_config().
const KnownModel& known_model(const ModelSource& source);

// That rows are longer than the model has positions, which is legal: rotary embeddings have no end.
// Empty: they are not, or nobody knows. REQUIRES: learned positions were refused.
std::string note_on_positions(const ModelSource& source, int64_t model_max_length);

}  // namespace sftbench
