// A step as one CUDA graph: forward and backward passes, the norm of the gradients, clipping and
// the update are recorded once and launched as one. The host launches of a small model take longer
// than its arithmetic.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engine/step_batches.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct TrainingRun;

struct StepOutcome {
  double loss = 0;  // of the whole step
  double gradient_norm =
      0;  // before clipping. Where it or the loss is not finite, nothing was updated
};

// From its construction on, all work of the thread goes to a stream of its own.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Trains on `batches`. The first step of its shapes is left to the caller: libraries set
  // themselves up in it, which no graph can record. The second is recorded. `at` is told the phase
  // while it is. At most kShapes graphs are kept; steps of other shapes are left to the caller,
  // too.
  virtual std::optional<StepOutcome> run(const StepBatches& batches, double learning_rate,
                                         const std::function<void(const char*)>& at) = 0;

  // Steps that a graph was launched for.
  virtual int64_t launches() const = 0;

  static constexpr size_t kShapes = 16;
};

// Null where the job wants none. The run outlives it. RunError(kUnsupported) for what a graph
// cannot repeat, which names it.
std::unique_ptr<StepGraph> make_step_graph(const TrainingJob& job, TrainingRun& run);

}  // namespace sftbench
