// One point of an entity space, and one thing to measure: that point under one experiment.
// Identifiers are ado's, byte for byte: Python's str() of each value, joined by dashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/catalog/experiment.h"

namespace sftbench {

using PropertyValues = std::vector<std::pair<std::string, Json>>;

// Python's str() of a value as ado's identifiers show it: 1e-05, 2.0, None; booleans are numbers
// there (1, 0), except inside lists, which print as Python's repr ("['True', 'False']").
std::string python_str(const Json& value);

struct Entity {
  int64_t index = 0;      // position in the expansion, 0-based
  PropertyValues values;  // in entitySpace order
};

// "model_name.smollm2-135m-number_gpus.0-model_max_length.512-batch_size.1"
std::string entity_id(const Entity& entity);

// An experiment with some optional properties fixed; the order of the parameterization is part of
// its id.
struct ExperimentReference {
  const Experiment* experiment = nullptr;
  PropertyValues parameterization;
};

// "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.8"
std::string experiment_id(const ExperimentReference& reference);

// What one measurement measures. `inputs` holds every property of the experiment, in its order and
// in canonical form: the entity's values, then the parameterization's, then the defaults.
struct MeasurementRequest {
  std::string experiment;  // identifier
  std::string experiment_id;
  std::string entity_id;
  int64_t entity_index = 0;
  Json inputs;
};

MeasurementRequest make_request(const Entity& entity, const ExperimentReference& reference);

}  // namespace sftbench
