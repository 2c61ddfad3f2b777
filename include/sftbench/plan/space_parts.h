// A space divided into parts: entities of a part differ in the sizes of their batches alone. All
// that resolve() decides is alike in them but for those sizes, so who asks something of each entity
// of a space resolves one of each part.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/plan/resolve.h"
#include "sftbench/space/space.h"
#include "sftbench/space/validity.h"

namespace sftbench {

class SpaceParts {
 public:
  // The space outlives it.
  SpaceParts(const Space& space, const ResolveOptions& options);

  int64_t count() const { return part_count_; }
  int64_t entities_of_each() const { return entities_of_each_; }
  // The index in the space of entity `number` of a part, from 0.
  int64_t entity(int64_t part, int64_t number) const;

  // Turns the job and the rules' inputs of one entity of a part into those of another, `entity`.
  // The job's inputs, its entity and its ids stay as they are.
  void put_sizes(int64_t entity, TrainingJob& job) const;
  void put_sizes(int64_t entity, RuleInputs& rules) const;

 private:
  enum class Size { kBatch, kLength, kAccumulation };
  // A dimension, as a digit of an entity's index.
  struct Digit {
    int64_t stride = 1;
    int64_t size = 1;
    Size meaning = Size::kBatch;
    std::vector<int64_t> values = {};  // of a size; of the others none
  };

  static int64_t spread(int64_t number, const std::vector<Digit>& digits);

  std::vector<Digit> parts_, sizes_;  // the last turns fastest
  int64_t part_count_ = 1, entities_of_each_ = 1;
};

}  // namespace sftbench
