// The properties of entities as columns: those that the space names, in its order, with its values.
// Measurements of older versions say so in the entity's id only, which ado up to 1.7 wrote in that
// order: "model_name.smollm2-135m-number_gpus.0-model_max_length.512".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sftbench/results/repeats.h"

namespace sftbench {

using EntityProperties = std::vector<std::pair<std::string_view, Scalar>>;

// The id taken apart at the names among `inputs`. A value that reads as `inputs` has it lasts that
// long, whatever is in it; one that is spelled otherwise (1 for 1.0) lasts up to the next dash that
// a name follows.
EntityProperties entity_properties(std::string_view entity_id, const Record& inputs);

// Entities of several spaces under one list of columns: each space's order is kept where they
// agree.
class EntityColumns {
 public:
  explicit EntityColumns(const std::vector<Repeats>& rows);

  const std::vector<std::string_view>& names() const { return names_; }
  // One cell for each name, null where the row's entity has no such property.
  const std::vector<Scalar>& row(size_t index) const { return cells_[index]; }

 private:
  std::vector<std::string_view> names_;
  std::vector<std::vector<Scalar>> cells_;
};

}  // namespace sftbench
