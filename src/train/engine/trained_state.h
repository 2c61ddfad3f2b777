// What of a run goes into a checkpoint and comes out of it: the parts that have a state, and how
// far they have come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/optim/gradient_scaling.h"
#include "sftbench/optim/optimizer.h"
#include "sftbench/parallel/parallel_parameters.h"
#include "sftbench/parallel/process_mesh.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// The loss of an evaluation.
struct EvaluatedLoss {
  int64_t step = -1;  // optimization steps before it; -1: there was none
  double loss = 0;
};

// Optimization steps and, fewer where loss scaling skipped some, updates.
struct TrainingProgress {
  int64_t steps = 0;
  int64_t updates = 0;
  double epoch = 0;
  EvaluatedLoss best = {};          // the least one
  EvaluatedLoss last = {};          // of this run
  std::optional<double> loss = {};  // of the last step; none: this run did not make it
};

// All of them outlive who holds this.
struct TrainedState {
  CausalLm& model;
  ParallelParameters& parameters;
  Optimizer& optimizer;
  LossScaler& loss_scaler;
  ProcessMesh& mesh;
  RankGroup& group;
  Json peft_config;  // Tuning's; null where the model itself is trained
  bool adds_rows =
      false;  // texts have tokens that the base lacks: an adapter takes their rows along

  bool leads() const { return group.rank() == 0; }
  // Whether this rank helps to make parameters whole. Replicas hold the same bits, and one of them
  // suffices, unless all have experts in their group's other ranks.
  bool makes_whole() const { return mesh.replicas().rank() == 0 || mesh.shape().experts > 1; }
  bool has_adapters() const { return !peft_config.is_null(); }
  // Of the embedding that what is saved is loaded with.
  int64_t saved_rows() const {
    return has_adapters() && !adds_rows ? model.config().vocab_size : model.embedding().size(0);
  }
  // Whether a file of whole parameters has this one.
  bool saves(const ParameterInfo& info) const;
};

// "FULL", "SHARDED" or "LOCAL", as the job's fsdp_state_dict_type says; whole parameters have one
// form, FULL. RunError(kUnsupported) naming what there is.
std::string saved_format(const TrainingJob& job, const ParallelParameters& parameters);

// "model-rank-00001-of-00004.safetensors"
std::string rank_file_name(const std::string& stem, const RankGroup& group);

// Where the state `name` of a parameter stands in the files, and a number of it.
inline std::string state_key(const std::string& parameter, const std::string& name) {
  return parameter.empty() ? name : parameter + "/" + name;
}

// "signed8": how a quantized state's codes are to be read.
std::string map_name(ops::QuantMap map);
ops::QuantMap map_of_name(const std::string& name);

}  // namespace sftbench
