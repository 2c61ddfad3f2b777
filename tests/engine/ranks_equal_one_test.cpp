// N ranks equal one: the same entries in as many micro-batches, on one rank and on several, give
// the same losses and the same parameters; and what a rank keeps and sends is what theory says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/host_memory.h"
#include "engine/prepare_parallel.h"
#include "engine/ranks_fixture.h"
#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(RanksEqualOne, EveryStrategyOnTwoThreeAndFourRanks) {
  for (const char* strategy : {"DDP", "NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    for (const int ranks : {2, 3, 4}) {
      expect_ranks_equal_one({.strategy = strategy, .ranks = ranks});
    }
  }
}

TEST(RanksEqualOne, HybridMeshesOfSeveralShapes) {
  for (const char* strategy : {"HYBRID_SHARD", "HYBRID_SHARD_ZERO2"}) {
    expect_ranks_equal_one({.strategy = strategy, .ranks = 4, .nodes = 2});
    expect_ranks_equal_one({.strategy = strategy, .ranks = 6, .nodes = 2, .accumulation = 1});
    expect_ranks_equal_one({.strategy = strategy, .ranks = 2, .nodes = 1});
  }
}

TEST(RanksEqualOne, ModelsWithTiedUntiedAndOptionalParts) {
  for (const char* model : {"llama_all", "granite", "mistral"}) {
    expect_ranks_equal_one({.model = model, .ranks = 3});
    expect_ranks_equal_one({.model = model, .strategy = "DDP", .ranks = 3});
    expect_ranks_equal_one({.model = model, .strategy = "SHARD_OPTIM", .ranks = 3});
  }
}

// Experts without tokens, states of Mamba-2, and an auxiliary loss that all layers share.
TEST(RanksEqualOne, FamiliesWithOtherLayers) {
  for (const char* model :
       {"bloom", "gpt_bigcode", "gpt_oss-balanced", "granitemoe-balanced",
        "granitemoehybrid-balanced", "granitemoeshared", "mixtral-balanced", "qwen3"}) {
    expect_ranks_equal_one({.model = model, .checkpointing = true});
    expect_ranks_equal_one({.model = model, .strategy = "DDP", .accumulation = 2});
    expect_ranks_equal_one({.model = model, .strategy = "SHARD_OPTIM", .accumulation = 2});
  }
}

TEST(RanksEqualOne, FamiliesWithDrawnWeights) {
  for (const std::string& model : drawn_models()) {
    expect_ranks_equal_one({.model = model, .checkpointing = true});
    expect_ranks_equal_one({.model = model, .strategy = "DDP", .accumulation = 2});
    expect_ranks_equal_one({.model = model, .strategy = "SHARD_OPTIM", .accumulation = 2});
  }
}

// The copies are made on CPUs, too, from host to host.
class OffloadOnCpus {
 public:
  OffloadOnCpus() { copy_on_cpus(true); }
  ~OffloadOnCpus() { copy_on_cpus(false); }
};

TEST(RanksEqualOne, MixturesThatOffload) {
  const OffloadOnCpus copied;
  const std::pair<const char*, const char*> cases[] = {
      {"gpt_oss-balanced", "HYBRID_SHARD"},
      {"granitemoe-balanced", "HYBRID_SHARD_ZERO2"},
      {"granitemoehybrid-balanced", "HYBRID_SHARD"},
      {"granitemoeshared", "HYBRID_SHARD_ZERO2"},
      {"mixtral-balanced", "HYBRID_SHARD"}};
  for (const auto& [model, strategy] : cases) {
    expect_ranks_equal_one({.model = model,
                            .strategy = strategy,
                            .ranks = 4,
                            .nodes = 2,
                            .accumulation = 2,
                            .offload = true});
    expect_ranks_equal_one({.model = model,
                            .strategy = "SHARD_OPTIM",
                            .ranks = 3,
                            .checkpointing = true,
                            .offload = true});
  }
  // Divided experts keep their parameters, and their states may leave.
  for (const char* strategy : {"DDP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one({.model = "granitemoe",
                            .strategy = strategy,
                            .ranks = 4,
                            .expert_ranks = 2,
                            .offload = true});
  }
}

TEST(RanksEqualOne, ParametersOnTheHostUnderEveryStrategyThatShards) {
  const OffloadOnCpus copied;
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
    expect_ranks_equal_one({.strategy = strategy, .ranks = 3, .offload = true});
    expect_ranks_equal_one({.strategy = strategy,
                            .accumulation = 3,
                            .gradient_sync = "each",
                            .checkpointing = true,
                            .offload = true});
    for (const char* tuning : {"lora", "pt"})
      expect_ranks_equal_one({.strategy = strategy, .tuning = tuning, .offload = true});
  }
}

// Whatever holds the experts: stacked matrices, transposed ones, or tensors of their own.
TEST(RanksEqualOne, ExpertsOnSeveralRanksInEveryFamily) {
  for (const char* model : {"gpt_oss-balanced", "granitemoe-balanced", "granitemoehybrid-balanced",
                            "granitemoeshared", "mixtral-balanced"}) {
    expect_ranks_equal_one({.model = model, .expert_ranks = 2});
    expect_ranks_equal_one({.model = model, .strategy = "DDP", .ranks = 4, .expert_ranks = 2});
  }
}

TEST(RanksEqualOne, ExpertsOnSeveralRanksUnderEveryStrategy) {
  for (const char* strategy : {"DDP", "NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one({.model = "granitemoeshared",
                            .strategy = strategy,
                            .ranks = 4,
                            .accumulation = 2,
                            .checkpointing = true,
                            .expert_ranks = 4});
    expect_ranks_equal_one({.model = "mixtral",
                            .strategy = strategy,
                            .ranks = 4,
                            .accumulation = 2,
                            .checkpointing = true,
                            .reentrant = true,
                            .expert_ranks = 2});
  }
  for (const int64_t expert_ranks : {2, 4}) {
    expect_ranks_equal_one({.model = "granitemoe",
                            .strategy = "HYBRID_SHARD",
                            .ranks = 4,
                            .nodes = 2,
                            .expert_ranks = expert_ranks});
  }
  expect_ranks_equal_one(
      {.model = "granitemoe", .accumulation = 2, .gradient_sync = "each", .expert_ranks = 2});
}

TEST(RanksEqualOne, FrozenExpertsOnSeveralRanks) {
  for (const char* strategy : {"DDP", "FULL_SHARD"}) {
    expect_ranks_equal_one(
        {.model = "mixtral", .strategy = strategy, .tuning = "lora", .expert_ranks = 2});
    expect_ranks_equal_one({.model = "granitemoe",
                            .strategy = strategy,
                            .tuning = "pt",
                            .checkpointing = true,
                            .expert_ranks = 2});
  }
}

TEST(RanksEqualOne, ExpertsOnSeveralRanksWithoutPadding) {
  expect_ranks_equal_one({.model = "granitemoe", .expert_ranks = 2, .padding = "none"});
}

TEST(RanksEqualOne, GradientsOfSeveralMicroBatches) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one({.strategy = strategy, .accumulation = 3});
  }
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
    expect_ranks_equal_one({.strategy = strategy, .accumulation = 3, .gradient_sync = "each"});
  }
  expect_ranks_equal_one({.strategy = "HYBRID_SHARD",
                          .ranks = 4,
                          .nodes = 2,
                          .accumulation = 2,
                          .gradient_sync = "each"});
}

TEST(RanksEqualOne, RecomputedLayers) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    for (const bool reentrant : {false, true}) {
      expect_ranks_equal_one(
          {.strategy = strategy, .accumulation = 2, .checkpointing = true, .reentrant = reentrant});
    }
  }
}

TEST(RanksEqualOne, FrozenAndTrainedParametersInOneUnit) {
  for (const char* tuning : {"lora", "pt"}) {
    for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
      expect_ranks_equal_one({.strategy = strategy, .accumulation = 2, .tuning = tuning});
      expect_ranks_equal_one({.strategy = strategy, .tuning = tuning, .checkpointing = true});
    }
  }
}

// Magnitudes start from whole rows of weights, of which a rank keeps parts.
TEST(RanksEqualOne, MagnitudesOfShardedWeights) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one({.strategy = strategy,
                            .ranks = 3,
                            .accumulation = 2,
                            .tuning = "lora",
                            .checkpointing = true,
                            .dora = true});
  }
  expect_ranks_equal_one({.model = "mixtral", .tuning = "lora", .expert_ranks = 2, .dora = true});
}

// A tied output projection that trains, or an embedding beside it, becomes a parameter of its own.
TEST(RanksEqualOne, ModulesThatTrainWholeAndAdaptersOfTokens) {
  for (const char* model : {"llama", "llama_all"}) {
    for (const char* strategy : {"FULL_SHARD", "DDP", "SHARD_OPTIM"}) {
      expect_ranks_equal_one({.model = model,
                              .strategy = strategy,
                              .accumulation = 2,
                              .tuning = "lora",
                              .saved = {"embed_tokens", "lm_head"}});
    }
  }
  expect_ranks_equal_one(
      {.tuning = "lora", .checkpointing = true, .saved = {"norm", "mlp.down_proj"}});
  for (const char* strategy : {"FULL_SHARD", "DDP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one({.strategy = strategy,
                            .accumulation = 2,
                            .tuning = "lora",
                            .targets = {"embed_tokens", "lm_head", "q_proj", "v_proj"},
                            .rank_pattern = {{"q_proj", 5}, {"lm_head", 2}}});
  }
}

// --- what a rank keeps and sends -----------------------------------------------------------------

// A model whose tensors need no padding on 2 or 4 ranks, so that theory's formulas hold to the
// byte.
constexpr int64_t kHidden = 256, kIntermediate = 512, kLayers = 4, kVocabulary = 1024;

TrainingJob even_job(const std::string& strategy, int ranks, int nodes) {
  TrainingJob job = small_job("llama");
  job.model.weights_directory.clear();
  Json& config = job.model.hf_config;
  config["hidden_size"] = kHidden;
  config["intermediate_size"] = kIntermediate;
  config["num_hidden_layers"] = kLayers;
  config["num_attention_heads"] = 4;
  config["num_key_value_heads"] = 4;
  config["head_dim"] = kHidden / 4;
  config["vocab_size"] = kVocabulary;
  job.device.ranks = ranks;
  job.device.nodes = nodes;
  job.parallel.strategy = named<Strategy>(strategy);
  return job;
}

// Bytes in float32: of the root unit, of a layer, of everything.
struct Sizes {
  int64_t root = 4 * (kVocabulary * kHidden + kHidden);
  int64_t layer = 4 * (4 * kHidden * kHidden + 3 * kHidden * kIntermediate + 2 * kHidden);
  int64_t all = root + kLayers * layer;
};

// Of a ring, over all steps.
int64_t ring(int64_t bytes, int64_t ranks) {
  return kSteps * bytes / ranks * (ranks - 1);
}

struct Theory {
  int64_t all_gather, reduce_scatter;  // bytes that a rank sends in all steps
  int64_t gathered_peak;
};

Theory theory_of(const std::string& strategy, int64_t shards, int64_t accumulation = 1,
                 bool each = false) {
  const Sizes sizes;
  const bool whole_gradients = accumulation > 1 && !each;
  const int64_t reductions = each ? accumulation : 1;
  if (strategy.ends_with("ZERO2") || strategy == "SHARD_GRAD_OP") {
    // Each layer that the backward pass leaves gives its parameters' memory to the next one's
    // gradients.
    const int64_t gradients = whole_gradients ? sizes.all : sizes.root + sizes.layer;
    return {ring(reductions * sizes.all, shards), ring(reductions * sizes.all, shards),
            sizes.all + gradients};
  }
  const int64_t gradients = whole_gradients ? sizes.all : sizes.root + 2 * sizes.layer;
  return {ring(accumulation * (2 * sizes.all - sizes.root), shards),
          ring(reductions * sizes.all, shards), sizes.root + 2 * sizes.layer + gradients};
}

void expect_theory(const TrainingJob& job, const Theory& theory, int64_t shards, RankGroup& group) {
  const Sizes sizes;
  const bool on_gpu = job.device.kind == "cuda";
  const int64_t before_bytes = on_gpu ? 0 : host_memory_statistics().allocated_bytes;
  TrainingRun run = prepare_run(job, group);
  Recorder recorder;
  train_steps(run, group, {&recorder}, [] { return false; });
  const RankReport& report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
  EXPECT_EQ(sent_bytes(report, "all_gather"), theory.all_gather);
  EXPECT_EQ(sent_bytes(report, "reduce_scatter"), theory.reduce_scatter);
  EXPECT_EQ(report.parameter_bytes, sizes.all / shards);
  EXPECT_EQ(report.gradient_bytes, sizes.all / shards);
  EXPECT_EQ(report.optimizer_state_bytes, 2 * sizes.all / shards);
  EXPECT_EQ(report.gathered_peak_bytes, theory.gathered_peak);
  // What the process really holds between steps: shards, moments and the buffers for gathered
  // units.
  const auto kept = static_cast<double>(3 * sizes.all / shards + theory.gathered_peak);
  const auto held = static_cast<double>(run.device->allocated_bytes() - before_bytes);
  EXPECT_NEAR(held, kept, 0.02 * kept);
}

TEST(RanksAndTheory, BytesKeptAndSentByEveryShardingStrategy) {
  for (const int ranks : {2, 4}) {
    for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
      SCOPED_TRACE(std::string(strategy) + " on " + std::to_string(ranks));
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        expect_theory(even_job(strategy, ranks, 1), theory_of(strategy, ranks), ranks, group);
      });
    }
  }
}

TEST(RanksAndTheory, RecomputationGathersNothingMore) {
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    TrainingJob job = even_job("FULL_SHARD", 2, 1);
    job.activations.gradient_checkpointing = true;
    expect_theory(job, theory_of("FULL_SHARD", 2), 2, group);
  });
}

TEST(RanksAndTheory, SeveralMicroBatchesCostMemoryOrTraffic) {
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
    for (const bool each : {false, true}) {
      SCOPED_TRACE(std::string(strategy) + (each ? " each" : " last"));
      run_ranks({.ranks = 2}, [&](RankGroup& group) {
        TrainingJob job = even_job(strategy, 2, 1);
        job.batches.gradient_accumulation_steps = 3;
        job.parallel.gradient_sync = each ? GradientSync::kEach : GradientSync::kLast;
        expect_theory(job, theory_of(strategy, 2, 3, each), 2, group);
      });
    }
  }
}

TEST(RanksAndTheory, OnlyAShareOfGradientsCrossesNodesInHybridMeshes) {
  for (const char* strategy : {"HYBRID_SHARD", "HYBRID_SHARD_ZERO2"}) {
    SCOPED_TRACE(strategy);
    run_ranks({.ranks = 4, .nodes = 2}, [&](RankGroup& group) {
      TrainingRun run = prepare_run(even_job(strategy, 4, 2), group);
      Recorder recorder;
      train_steps(run, group, {&recorder}, [] { return false; });
      const RankReport& report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
      const Theory theory = theory_of(strategy, 2);
      EXPECT_EQ(sent_bytes(report, "all_gather", "shards"), theory.all_gather);
      EXPECT_EQ(sent_bytes(report, "reduce_scatter", "shards"), theory.reduce_scatter);
      EXPECT_EQ(sent_bytes(report, "all_reduce", "replicas"), 2 * ring(Sizes().all / 2, 2));
    });
  }
}

// Every position goes to every expert, and all rows have the model's length: a rank sends each
// other one its rows for their experts, and their results back.
TEST(RanksAndTheory, ExpertsAreKeptOnceAndRowsTravelToThem) {
  constexpr int64_t kExperts = 4, kLength = 32;
  for (const bool checkpointing : {false, true}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::to_string(ranks) + (checkpointing ? " with checkpointing" : ""));
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        TrainingJob job = small_job("granitemoe");
        job.model.weights_directory.clear();
        Json& config = job.model.hf_config;
        config["num_experts_per_tok"] = kExperts;
        config["hidden_size"] = 64;
        config["intermediate_size"] = 128;
        config["num_attention_heads"] = 4;
        config["num_key_value_heads"] = 4;
        config["vocab_size"] = kVocabulary;
        job.data.model_max_length = kLength;
        job.data.padding = Padding::kMaxLength;
        job.device.ranks = ranks;
        job.parallel.strategy = Strategy::kFullShard;
        job.parallel.expert_ranks = ranks;
        job.activations.gradient_checkpointing = checkpointing;
        ASSERT_EQ(config["num_local_experts"], kExperts);
        TrainingRun run = prepare_run(job, group);
        Recorder recorder;
        train_steps(run, group, {&recorder}, [] { return false; });
        const RankReport& report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
        const ExpertLoad& load = recorder.ends.at(0).experts;
        EXPECT_EQ(load.ranks, ranks);
        EXPECT_EQ(load.rank_imbalance, std::vector<double>(kSteps, 1));
        EXPECT_EQ(load.busiest_share, std::vector<double>(kSteps, 1.0 / kExperts));

        const int64_t layers = config["num_hidden_layers"].get<int64_t>();
        const int64_t others = ranks - 1;
        const int64_t rows =
            job.batches.per_device_batch_size * kLength * kExperts / ranks * others;
        const int64_t counts = 8 * kExperts / ranks * others;
        // Twice forward, twice backward. The last layer is not computed again.
        const int64_t again = checkpointing ? layers - 1 : 0;
        const int64_t sent =
            layers * (counts + 4 * rows * 64 * 4) + again * (counts + 2 * rows * 64 * 4);
        EXPECT_EQ(sent_bytes(report, "all_to_all", "experts"), kSteps * sent);
        EXPECT_EQ(sent_bytes(report, "all_reduce", "expert_replicas"), 0);

        const int64_t experts = layers * kExperts * 3 * 64 * 128 * 4;
        int64_t shard = 0;
        for (const OwnedTensor& owned : run.parameters->owned()) {
          const bool expert = owned.name.find("_linear") != std::string::npos;
          if (!expert) shard += owned.tensor.numel() * 4;
        }
        int64_t all = 0;
        for (const ParameterInfo& info : run.parameters->inventory()) {
          int64_t elements = 1;
          for (const int64_t size : info.shape) elements *= size;
          all += 4 * elements;
        }
        EXPECT_EQ(all, 4 * run.begin.parameters_total);
        EXPECT_EQ(report.optimizer_state_bytes, 2 * (shard + experts / ranks));
        // Shards are padded.
        const int64_t padded = report.parameter_bytes - experts / ranks;
        EXPECT_GE(padded, shard);
        EXPECT_LE(padded, shard + (layers + 1) * 4096);
        EXPECT_EQ(report.gradient_bytes, report.parameter_bytes);
      });
    }
  }
}

TEST(RanksAndTheory, ReplicasSendEveryGradientOnce) {
  for (const char* strategy : {"DDP", "NO_SHARD"}) {
    SCOPED_TRACE(strategy);
    run_ranks({.ranks = 2}, [&](RankGroup& group) {
      TrainingJob job = even_job(strategy, 2, 1);
      job.batches.gradient_accumulation_steps = 2;
      TrainingRun run = prepare_run(job, group);
      Recorder recorder;
      train_steps(run, group, {&recorder}, [] { return false; });
      const RankReport& report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
      // Beside them, per step: counts of the batch (7 float64), the loss, and the wish to stop.
      const int64_t small = kSteps * (7 * 8 + 4 + 8);
      EXPECT_EQ(sent_bytes(report, "all_reduce"), 2 * ring(Sizes().all, 2) + small);
      EXPECT_EQ(report.parameter_bytes, Sizes().all);
      EXPECT_EQ(report.gradient_bytes, Sizes().all);
    });
  }
}

// The halves of the all-reduce that replicas need: whatever the number of micro-batches is.
TEST(RanksAndTheory, ShardsOfTheOptimizerAloneSendNoMoreThanReplicas) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    run_ranks({.ranks = ranks}, [&](RankGroup& group) {
      TrainingJob job = even_job("SHARD_OPTIM", ranks, 1);
      job.batches.gradient_accumulation_steps = 2;
      job.parallel.gradient_sync = GradientSync::kEach;
      const bool on_gpu = job.device.kind == "cuda";
      const int64_t before_bytes = on_gpu ? 0 : host_memory_statistics().allocated_bytes;
      TrainingRun run = prepare_run(job, group);
      EXPECT_THAT(run.begin.warnings,
                  ::testing::Contains(::testing::HasSubstr("no effect under SHARD_OPTIM")));
      Recorder recorder;
      train_steps(run, group, {&recorder}, [] { return false; });
      const RankReport& report = recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
      const int64_t all = Sizes().all;
      EXPECT_EQ(sent_bytes(report, "all_gather", "world"), ring(all, ranks));
      EXPECT_EQ(sent_bytes(report, "reduce_scatter", "world"), ring(all, ranks));
      EXPECT_EQ(report.parameter_bytes, all);
      EXPECT_EQ(report.gradient_bytes, all);
      EXPECT_EQ(report.optimizer_state_bytes, 2 * all / ranks);
      EXPECT_EQ(report.gathered_peak_bytes, 0);
      const auto kept = static_cast<double>(2 * all + 2 * all / ranks);
      const auto held = static_cast<double>(run.device->allocated_bytes() - before_bytes);
      EXPECT_NEAR(held, kept, 0.02 * kept);
    });
  }
}

// A rank that is given no part of any parameter still takes part.
TEST(RanksEqualOne, MoreRanksThanPartsOfATinyAdapter) {
  expect_ranks_equal_one({.strategy = "SHARD_OPTIM", .ranks = 6, .tuning = "pt"});
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
