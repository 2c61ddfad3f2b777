// The loss on entries that no step trains on: Trainer.evaluate().
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/step_batches.h"
#include "engine/trained_state.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/measure/events.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/parallel/communicator.h"
#include "sftbench/parallel/parallel_parameters.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// What a rank evaluates: as many micro-batches as every other rank, since all of them take part in
// each layer's communication.
struct EvaluationData {
  struct Batch {
    std::vector<int64_t> entries;
    bool counts = true;  // false: for the sake of the other ranks alone
  };
  std::shared_ptr<const EncodedEntries> dataset;  // these entries of it are encoded
  std::vector<Batch> batches;
  std::vector<int64_t> generated;  // the first of all ranks' entries, encoded on each: texts that
                                   // the model goes on with
  Padding padding = Padding::kLongest;
  int64_t pad_id = 0;
};

// `entries` in their order, in micro-batches of which rank r takes every ranks-th from the r-th on.
std::vector<EvaluationData::Batch> evaluation_batches(const std::vector<int64_t>& entries,
                                                      int64_t batch_size, int64_t ranks,
                                                      int64_t rank);

// All references outlive it. `runner` runs layers without a backward pass.
class Evaluation {
 public:
  Evaluation(const EvaluationPlan& plan, EvaluationData data, CausalLm& model,
             ParallelParameters& parameters, Communicator& world,
             std::unique_ptr<LayerRunner> runner, BatchReader reader);

  bool on_start() const { return plan_.on_start; }
  // After the step that `progress` ends with; `last`: none follows.
  bool is_due(const TrainingProgress& progress, bool last) const;

  // Collective. RunError(kData) when no position bears loss.
  EvaluationEvent evaluate(const TrainingProgress& progress);

 private:
  EvaluationPlan plan_;
  EvaluationData data_;
  CausalLm& model_;
  ParallelParameters& parameters_;
  Communicator& world_;
  std::unique_ptr<LayerRunner> runner_;
  BatchReader reader_;
};

}  // namespace sftbench
