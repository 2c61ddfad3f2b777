// A model's configuration and shape, remembered: predictions and refusals of many entities ask for
// the same few models.
#pragma once

#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct KnownModel {
  Json hf_config;
  ModelConfig config;
  ModelShape shape;
};

// Of this thread, valid until it has asked for 64 other models. InputError as parse_model_config().
const KnownModel& known_model(const ModelSource& source);

}  // namespace sftbench
