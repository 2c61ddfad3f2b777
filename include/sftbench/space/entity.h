// One point of an entity space, and one thing to measure: that point under one experiment.
// Identifiers are ado's, byte for byte: Python's str() of each value, joined by dashes. ado has had
// two generations of them. Both are read everywhere, one is written.
#pragma once

#include <cstdint>
#include <optional>
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

enum class AdoIds {
  k17,  // up to ado 1.7: in the order of the space; integer ranges count in floats (batch_size.1.0)
  k18,  // from 1.8 on: sorted by property; a long entity id is a hash; integers stay integers
};

// The generation that "1.7" or "1.8" names.
std::optional<AdoIds> ado_ids_named(std::string_view name);

struct Entity {
  int64_t index = 0;      // position in the expansion, 0-based
  PropertyValues values;  // in entitySpace order
  AdoIds ids = AdoIds::k18;
};

// "batch_size.1-model_max_length.512-model_name.smollm2-135m-number_gpus.0"; of 1.7
// "model_name.smollm2-135m-number_gpus.0-model_max_length.512-batch_size.1".
std::string entity_id(const Entity& entity);

constexpr size_t kLongestEntityId = 700;  // of 1.8; in characters, not bytes

// An entity's id of 1.8: itself up to 700 characters, else "hash-" and its SHA-256.
std::string shortened_id(std::string id);
bool is_shortened_id(std::string_view id);

// An experiment with some optional properties fixed. Up to ado 1.7 their order is part of its id.
struct ExperimentReference {
  const Experiment* experiment = nullptr;
  PropertyValues parameterization;
  AdoIds ids = AdoIds::k18;
};

// "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.8"
std::string experiment_id(const ExperimentReference& reference);

// Whether `id` names the experiment, in one generation or the other.
bool is_experiment_id(const ExperimentReference& reference, std::string_view id);

// What one measurement measures. `inputs` holds every property of the experiment, in its order and
// in canonical form: the entity's values, then the parameterization's, then the defaults.
struct MeasurementRequest {
  std::string experiment;  // identifier
  std::string experiment_id;
  std::string entity_id;
  int64_t entity_index = 0;
  Json entity;  // the space's properties and values in its order, as ado's tables show them
  Json inputs;
};

MeasurementRequest make_request(const Entity& entity, const ExperimentReference& reference);

}  // namespace sftbench
