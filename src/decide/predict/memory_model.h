// Bytes that a rank holds: what stands between backward pass and update, and what comes on top of
// it where the most is held.
#pragma once

#include "predict/model_work.h"
#include "predict/unit_bytes.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {

class MemoryModel {
 public:
  // All references outlive it. `follows_engine`: memory is that of this engine, rather than
  // of another implementation or of torch's ways to compute again.
  MemoryModel(const TrainingJob& job, const ModelWork& work, const StackModel& stack,
              const UnitSizes& sizes, bool follows_engine);

  // Parameters, gradients, and the optimizer's state.
  MemoryCost between_backward_and_update() const;

  // With the activations, the logits and what the update copies. `buffer_bytes`: of gathered units
  // and of gradients that are not reduced yet, at most.
  MemoryCost at_peak(double buffer_bytes) const;

 private:
  void put_peak(MemoryCost& memory) const;
  double inputs_on_device() const;
  bool on_gpu() const { return job_.device.kind == "cuda"; }
  bool offloads_shards() const;
  bool offloads_state() const;
  double offloaded_chunk_bytes() const;
  bool keeps_masters() const { return sizes_.element().master > 0; }
  void put_masters(MemoryCost& memory) const;
  double update_copies() const;
  double band_bytes() const;
  double logit_chunk_bytes() const;
  double chunked_logit_bytes() const;
  double logit_bytes(double logits) const;
  double logit_tile_bytes() const;
  void put_peak_of_stack(MemoryCost& memory) const;
  double layer_while_computed() const;
  double layer_that_waits() const;
  double stream_bytes() const;

  const TrainingJob& job_;
  const ModelWork& work_;
  const StackModel& stack_;
  const UnitSizes& sizes_;
  bool follows_engine_;
  UnitBytes root_, layer_;
  ContextCost context_;
};

}  // namespace sftbench
