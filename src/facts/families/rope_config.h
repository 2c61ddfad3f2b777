// The rotary embedding's part of config.json, in the spellings of transformers 4 and 5.
#pragma once

#include <cstdint>

#include "families/config_fields.h"
#include "sftbench/families/model_config.h"

namespace sftbench {

// What a configuration class has where config.json says nothing, and how it calls some fields.
struct RopeDefaults {
  double theta = 10000.0;
  double share = 0.0;           // of a head's values, those that are rotated; 0: always all
  int64_t original_length = 0;  // of pre-training; 0: the model's maximum
  bool grows_queries = false;   // by llama_4_scaling_beta
  // Beside rope_parameters.
  const char *theta_key = "rope_theta", *share_key = "partial_rotary_factor";
};

// `top`: the fields of config.json itself. head_dim may be 0 when it could not be read.
RopeConfig read_rope_config(ConfigFields& top, int64_t max_position_embeddings, int64_t head_dim,
                            const RopeDefaults& defaults);

}  // namespace sftbench
