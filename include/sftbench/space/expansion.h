// The entities of a space one after the other, each with its id and its verdict. From one entity to
// the next only the dimensions that turn are looked at, so that a million entities take a fraction
// of a second and no memory. Says the same as Space::entity(), entity_id() and validate() do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/space/space.h"
#include "sftbench/space/validity.h"

namespace sftbench {

class Expansion {
 public:
  // Stands on the entity `first`. `space` and `models` must outlive the expansion.
  // REQUIRES: 0 <= first < space.entity_count()
  Expansion(const Space& space, const ModelCatalog& models, int64_t first = 0);

  int64_t index() const { return index_; }
  const std::string& entity_id() const { return shortened_.empty() ? id_ : shortened_; }

  // The rules that this entity breaks under Space::experiments[experiment].
  std::vector<Violation> violations(size_t experiment) const {
    return validate(inputs_[experiment], models_);
  }

  // To the next entity; after the last one, to the first.
  void advance();

 private:
  // A dimension with what each of its values adds to the id and is to the rules. Ranges can be too
  // long to be held: `texts` and `values` are empty for them.
  struct Axis {
    const Dimension* dimension = nullptr;
    std::string prefix;              // "-batch_size."
    std::vector<std::string> texts;  // of a list's values, with the prefix
    std::vector<Json> values;        // of a list's values, canonical; empty: no rule reads them
    bool ruled = false;
    int64_t digit = 0;    // position in the dimension
    size_t part = 0;      // which part of the id is its own
    size_t id_begin = 0;  // where that begins
  };

  void take_values_from(size_t first_axis);
  void write_from(size_t first_part);
  void set_inputs(const Axis& axis, const Json& canonical);

  const ModelCatalog& models_;
  const AdoIds ids_;
  std::vector<Axis> axes_;
  std::vector<size_t> order_;       // axes in the order of the id's parts
  std::vector<RuleInputs> inputs_;  // per experiment
  std::string id_;
  std::string shortened_;  // where the id is longer than ado's ids may be
  int64_t index_;
};

}  // namespace sftbench
