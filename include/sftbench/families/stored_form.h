// In which form a checkpoint holds its weights, by its config.json.
#pragma once

#include "sftbench/base/json.h"

namespace sftbench {

// Whether experts are stored in MXFP4, and decoded as they are read.
bool is_mxfp4(const Json& hf_config);

}  // namespace sftbench
