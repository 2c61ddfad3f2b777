// The rotary embedding's part of config.json, in the spellings of transformers 4 and 5.
#pragma once

#include <cstdint>

#include "families/config_fields.h"
#include "sftbench/families/model_config.h"

namespace sftbench {

// `top`: the fields of config.json itself. head_dim may be 0 when it could not be read.
RopeConfig read_rope_config(ConfigFields& top, int64_t max_position_embeddings, int64_t head_dim,
                            double default_theta);

}  // namespace sftbench
