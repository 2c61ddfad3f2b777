// Training on several ranks and on one, and what to compare.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/text.h"
#include "sftbench/base/torch.h"

namespace sftbench {

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> values;
  RankReport report;
  ExpertLoad experts;
  int64_t graph_launches = 0;
};

inline Outcome train_to_the_end(const TrainingJob& job, RankGroup& group) {
  TrainingRun run = prepare_run(job, group);
  run.step_graph = make_step_graph(job, run);
  Recorder recorder;
  train_steps(run, group, {&recorder}, [] { return false; });
  Outcome outcome;
  outcome.losses = recorder.losses();
  outcome.norms = recorder.norms();
  run.parameters->visit_whole([&](const std::string& name, const torch::Tensor& values) {
    outcome.values[name] = values.detach().clone();
  });
  outcome.report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
  outcome.experts = recorder.ends.at(0).experts;
  if (run.step_graph) outcome.graph_launches = run.step_graph->launches();
  return outcome;
}

// Few enough that they lie within one epoch, whose entries any number of ranks takes in the same
// order.
inline constexpr int64_t kSteps = 3;

inline TrainingJob small_job(const std::string& model) {
  TrainingJob job = job_of(golden_run(model + "-float32"));
  job.batches = BatchPlan();
  job.batches.max_steps = kSteps;
  job.optimizer.max_grad_norm = 0.1;
  // Adam divides by |g|: without this, rounding would decide where a gradient is nearly zero.
  job.optimizer.epsilon = 1e-5;
  job.device.threads = 1;
  return job;
}

struct RanksCase {
  std::string model = "llama";
  std::string strategy = "FULL_SHARD";
  int ranks = 2;
  int nodes = 1;
  int64_t accumulation = 1;
  std::string gradient_sync = "last";
  std::string tuning = "full";
  bool checkpointing = false;
  bool reentrant = false;
  int64_t expert_ranks = 1;
  std::string padding = "longest";
  int64_t context_ranks = 1;
  int64_t window = 0;  // of attention, where the model has one
  int64_t batch = 1;
  bool dora = false;
  std::vector<std::string> saved = {};  // modules that train whole
  std::vector<std::string> targets = {"q_proj", "v_proj"};
  Json rank_pattern = Json::object();
  bool offload = false;  // parameters where they are sharded, else the optimizer's state
};

inline std::string name_of(const RanksCase& c) {
  return c.model + " " + (c.tuning == "lora" ? join(c.targets) + " " : "") + c.strategy + " on " +
         std::to_string(c.ranks) + " ranks, accumulation " + std::to_string(c.accumulation) + " " +
         c.gradient_sync + ", " + c.tuning +
         (c.checkpointing ? c.reentrant ? ", reentrant" : ", checkpointing" : "") +
         (c.expert_ranks > 1 ? ", experts on " + std::to_string(c.expert_ranks) : "") +
         (c.context_ranks > 1 ? ", rows on " + std::to_string(c.context_ranks) + " " + c.padding
                              : "") +
         (c.dora ? ", DoRA" : "") + (c.saved.empty() ? "" : ", whole " + join(c.saved)) +
         (c.offload ? ", offload" : "");
}

inline TrainingJob job_of(const RanksCase& c) {
  TrainingJob job = small_job(c.model);
  job.tuning = named<TuningMethod>(c.tuning);
  job.lora = {.rank = 3, .alpha = 16, .dropout = 0, .target_modules = c.targets};
  job.lora.use_dora = c.dora;
  job.lora.modules_to_save = c.saved;
  job.lora.rank_pattern = c.rank_pattern;
  job.prompt = {.virtual_tokens = 3, .init = "TEXT", .init_text = "Classify"};
  job.activations = {.gradient_checkpointing = c.checkpointing, .use_reentrant = c.reentrant};
  job.batches.gradient_accumulation_steps = c.accumulation;
  job.device.ranks = c.ranks;
  job.device.nodes = c.nodes;
  job.parallel.strategy = named<Strategy>(c.strategy);
  job.parallel.gradient_sync = named<GradientSync>(c.gradient_sync);
  job.parallel.expert_ranks = c.expert_ranks;
  job.parallel.context_ranks = c.context_ranks;
  job.data.padding = named<Padding>(c.padding);
  job.parallel.offload = c.offload && row_of(job.parallel.strategy).shards();
  job.optimizer.offload_state = c.offload;
  job.batches.per_device_batch_size = c.batch;
  if (c.window > 0) job.model.hf_config["sliding_window"] = c.window;
  return job;
}

// The same micro-batches, one after the other.
inline TrainingJob on_one_rank(TrainingJob job) {
  job.batches.gradient_accumulation_steps *= data_ranks(job);
  job.device.ranks = 1;
  job.parallel.context_ranks = 1;
  job.device.nodes = 1;
  job.parallel.expert_ranks = 1;
  job.parallel.offload = job.optimizer.offload_state = false;
  return job;
}

inline void expect_equal(const Outcome& several, const Outcome& one) {
  ASSERT_EQ(several.losses.size(), one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(several.losses[i], one.losses[i], 1e-5) << "step " << i + 1;
    EXPECT_NEAR(several.norms[i], one.norms[i], 1e-5 * one.norms[i]) << "step " << i + 1;
  }
  ASSERT_EQ(several.values.size(), one.values.size());
  for (const auto& [name, values] : one.values) {
    const auto found = several.values.find(name);
    ASSERT_NE(found, several.values.end()) << name;
    EXPECT_LE((found->second - values).abs().max().item<double>(), 1e-5) << name;
  }
}

inline void expect_ranks_equal_one(const RanksCase& c) {
  SCOPED_TRACE(name_of(c));
  const TrainingJob job = job_of(c);
  run_ranks({.ranks = c.ranks, .nodes = c.nodes}, [&](RankGroup& group) {
    const Outcome several = train_to_the_end(job, group);
    const Outcome one = train_to_the_end(on_one_rank(job), alone());
    expect_equal(several, one);
    // Experts count padding, and rows that ranks divide are padded further.
    if (c.context_ranks > 1) return;
    EXPECT_EQ(several.experts.tokens_by_layer, one.experts.tokens_by_layer);
    EXPECT_EQ(several.experts.busiest_share, one.experts.busiest_share);
  });
}

inline int64_t sent_bytes(const RankReport& report, const std::string& operation,
                          const std::string& group = "") {
  int64_t bytes = 0;
  for (const CollectiveReport& collective : report.collectives) {
    if (collective.operation != operation) continue;
    if (group.empty() || collective.group == group) bytes += collective.sent_bytes;
  }
  return bytes;
}

}  // namespace sftbench
