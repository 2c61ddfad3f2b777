// The rotary embedding's part of config.json, in the spellings of transformers 4 and 5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/checkpoint/model_config.h"

namespace sftbench {

// REQUIRES: `hf_config` is an object. head_dim may be 0 when it could not be read.
RopeConfig read_rope_config(const Json& hf_config, const std::string& origin,
                            int64_t max_position_embeddings, int64_t head_dim,
                            std::vector<Diagnostic>& findings);

}  // namespace sftbench
