#include "sftbench/families/model_shape.h"

namespace sftbench {

int64_t parameter_count(const Json& hf_config) {
  return shape_of(parse_model_config(hf_config)).parameters();
}

}  // namespace sftbench
