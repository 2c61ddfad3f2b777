// What a rank holds of the model's units, by the job's strategy, precision and optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predict/model_work.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/predict/stack_model.h"

namespace sftbench {

inline constexpr double kFloatBytes = 4;

// A group of ranks: how many, on how many nodes.
struct GroupShape {
  std::string name;
  int64_t ranks = 1;
  int64_t nodes = 1;
};

// A strategy as numbers.
struct RankLayout {
  GroupShape shards{"shards", 1, 1};
  GroupShape replicas{"replicas", 1, 1};
  bool sharded = false;
  bool reshard = false;
  bool updates_parts = false;
  bool divides_gradients = false;
};

// RunError(kUnsupported): these ranks cannot be laid out so.
RankLayout layout_of(const TrainingJob& job, const StackModel& stack);

// Bytes of one value, by what it is.
struct ElementBytes {
  double stored = 4;    // a parameter at rest
  double computed = 4;  // a value in a product
  double frozen = 4;    // a parameter at rest that is neither trained nor quantized
  double trained = 4;   // a trained parameter of the model at rest, its gradient and its state
  double adapter = 4;   // the same of an adapter
  double gathered = 4;  // a parameter that is gathered
  double reduced = 4;   // a gradient that is reduced
  double master = 0;    // a trained parameter's copy in float32, beside it
};

// Bytes of one unit, whole.
struct UnitBytes {
  double shard = 0;  // at rest, of this rank
  double shard_grads = 0;
  double gathered = 0;
  double gradients = 0;   // before their reduction
  double reduced = 0;     // what a reduction is about
  double replicated = 0;  // what replicas sum: the shard, or everything
  double updated = 0;     // trained parameters as they are gathered behind their update
  double trained = 0;     // trained parameters that this rank updates
  double state = 0;       // of the optimizer, on the device
  double visiting = 0;    // of its states that live in the host's memory: the most at a time
};

class UnitSizes {
 public:
  UnitSizes(const TrainingJob& job, const StackModel& stack);

  const RankLayout& layout() const { return layout_; }
  const ElementBytes& element() const { return element_; }

  UnitBytes of(const UnitTensors& unit) const;

  // Elements of the tensor of which a rank updates at most.
  int64_t part_of(const TrainedShape& tensor) const;

  // Of an element that trains.
  double trained_bytes(const TrainedShape& tensor) const;

  // Of the optimizer for this part: on the device, or where it waits on the host.
  double state_of(const TrainedShape& tensor) const;

 private:
  double mean_trained_bytes(const std::vector<TrainedShape>& tensors) const;
  TrainedShape own_part(const TrainedShape& tensor) const;
  StateBytes state_bytes_of(const TrainedShape& tensor) const;
  double visiting_of(const TrainedShape& tensor) const;

  const TrainingJob& job_;
  RankLayout layout_;
  ElementBytes element_;
  double quantized_bytes_;  // of a quantized weight
  bool flat_gradients_;
};

}  // namespace sftbench
