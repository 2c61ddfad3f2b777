// Everything that a run is made of, chosen once from the job: the step loop calls each part's verb
// and knows no variant of any.
#pragma once

#include <torch/types.h>

#include <memory>

#include "engine/activation_checkpoint.h"
#include "engine/checkpoints.h"
#include "engine/device_memory_watch.h"
#include "engine/evaluation.h"
#include "engine/generation.h"
#include "engine/load_watch.h"
#include "engine/rank_context.h"
#include "engine/step_batches.h"
#include "engine/step_graph.h"
#include "engine/training_device.h"
#include "sftbench/measure/events.h"
#include "sftbench/measure/timeline.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/model/expert_group.h"
#include "sftbench/optim/gradient_scaling.h"
#include "sftbench/optim/optimizer.h"
#include "sftbench/optim/schedule.h"
#include "sftbench/parallel/parallel_parameters.h"
#include "sftbench/parallel/process_mesh.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

struct TrainingRun {
  std::unique_ptr<Timeline> timeline;  // null: nobody wants one
  std::unique_ptr<TrainingDevice> device;
  std::unique_ptr<DeviceMemoryWatch> memory_watch;  // null: nobody wants it
  std::unique_ptr<ProcessMesh> mesh;
  std::unique_ptr<ExpertGroup> expert_group;  // of the model; null: none are divided
  std::unique_ptr<RankContext> context;       // of the rows; null: they are whole
  std::unique_ptr<CausalLm> model;
  std::unique_ptr<ParallelParameters> parameters;
  std::unique_ptr<BatchSource> batches;
  std::unique_ptr<ActivationPolicy> activations;
  std::unique_ptr<Evaluation> evaluation;  // null: nothing is evaluated
  std::unique_ptr<Generation> generation;  // null: no text is wanted
  std::unique_ptr<LossScaler> loss_scaler;
  std::unique_ptr<Optimizer> optimizer;
  Schedule schedule;
  double learning_rate = 0;  // the schedule's factor is on this
  double max_grad_norm = 0;
  std::unique_ptr<Checkpoints> checkpoints;
  TrainingProgress progress;  // that was made before this run
  TrainBegin begin;
  std::unique_ptr<StepGraph> step_graph;  // null: the host launches each step
};

// Builds all of it: device, model with its weights, tokenized data, tuning, optimizer.
// `group` outlives the run; `watch` is told how far it has come. Errors as Engine::train_job()
// says.
TrainingRun prepare_run(const TrainingJob& job, RankGroup& group, LoadWatch& watch);

// Where nobody looks.
inline TrainingRun prepare_run(const TrainingJob& job, RankGroup& group) {
  LoadWatch nobody;
  return prepare_run(job, group, nobody);
}

}  // namespace sftbench
