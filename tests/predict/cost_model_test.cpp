// The cost model against figures that were computed by hand from the shapes of Llama 3.1 8B:
// 8,030,261,248 parameters, of which the embedding, the final norm and the output projection,
// 1,050,677,248, are the root unit. All sizes divide evenly, so nothing is padded.
#include "sftbench/predict/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "predict/layer_time.h"
#include "predict/model_work.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/predict/machine_catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

constexpr double kAll = 8030261248;
constexpr double kRoot = 1050677248;
constexpr double kLayer = (kAll - kRoot) / 32;

TrainingJob llama(const std::string& strategy, int64_t ranks, int64_t nodes = 1) {
  TrainingJob job;
  job.model.name = "llama3.1-8b";
  job.model.hf_config = Catalog::shipped().models.find("llama3.1-8b")->hf_config;
  job.data.model_max_length = 1024;
  job.batches.per_device_batch_size = 2;
  job.device.ranks = ranks;
  job.device.nodes = nodes;
  job.parallel.strategy = named<Strategy>(strategy);
  job.activations.gradient_checkpointing = false;
  return job;
}

// Communication takes time that can be told apart; computation takes a second for 1e15 FLOPs.
MachineModel machine() {
  return {1e15, 1e12, 80e9, {1e-6, 100e9}, {1e-5, 10e9}, true};
}

const CollectiveCost& collective(const StepCost& cost, const std::string& operation,
                                 const std::string& group) {
  for (const CollectiveCost& c : cost.collectives) {
    if (c.operation == operation && c.group == group) return c;
  }
  throw std::logic_error("no " + operation + " over " + group);
}

TEST(CostModelTest, MixedPrecisionOnEightRanksKeepsSixteenBytesOfAnEighthOfEachParameter) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.precision = {.torch_dtype = ParameterDtype::kFloat32, .autocast = Autocast::kBf16};
  const MemoryCost memory = predict_step(job, machine()).memory;
  EXPECT_DOUBLE_EQ(memory.parameters, 4 * kAll / 8);
  EXPECT_DOUBLE_EQ(memory.gradients, 4 * kAll / 8);
  EXPECT_DOUBLE_EQ(memory.optimizer_state, 8 * kAll / 8);
  EXPECT_NEAR(memory.parameters + memory.gradients + memory.optimizer_state, 16.06e9, 5e6);
  // The root, two layers, and as many gradients, all in bfloat16.
  EXPECT_DOUBLE_EQ(memory.gathered, 2 * 2 * (kRoot + 2 * kLayer));
}

TEST(CostModelTest, EveryStrategySendsWhatItsFormulaSays) {
  // bfloat16 throughout, a micro-batch, 7/8 of everything.
  const double share = 7.0 / 8;
  const StepCost full = predict_step(llama("FULL_SHARD", 8), machine());
  EXPECT_DOUBLE_EQ(collective(full, "all_gather", "world").sent_bytes,
                   share * 2 * (2 * kAll - kRoot));
  EXPECT_EQ(collective(full, "all_gather", "world").calls, 2 * 33 - 1);
  EXPECT_DOUBLE_EQ(collective(full, "reduce_scatter", "world").sent_bytes, share * 2 * kAll);
  EXPECT_EQ(collective(full, "reduce_scatter", "world").calls, 33);
  EXPECT_NEAR(full.sent_bytes() + share * 2 * kRoot, 42.2e9, 5e7) << "had the root been freed";

  const StepCost zero2 = predict_step(llama("SHARD_GRAD_OP", 8), machine());
  EXPECT_EQ(collective(zero2, "all_gather", "world").calls, 33);
  EXPECT_NEAR(zero2.sent_bytes(), 28.1e9, 5e7);
  EXPECT_DOUBLE_EQ(zero2.memory.gathered, 2 * (kAll + kRoot + kLayer))
      << "all parameters, gradients of the root and of the last layer; each further one takes a "
         "freed layer's place";

  const StepCost zero1 = predict_step(llama("SHARD_OPTIM", 8), machine());
  EXPECT_DOUBLE_EQ(collective(zero1, "all_gather", "world").sent_bytes, share * 2 * kAll);
  EXPECT_DOUBLE_EQ(collective(zero1, "reduce_scatter", "world").sent_bytes, share * 2 * kAll);
  EXPECT_EQ(zero1.collectives.size(), 2U);
  EXPECT_DOUBLE_EQ(zero1.memory.parameters, 2 * kAll);
  EXPECT_DOUBLE_EQ(zero1.memory.gradients, 2 * kAll);
  EXPECT_DOUBLE_EQ(zero1.memory.optimizer_state, 4 * kAll / 8);
  EXPECT_EQ(zero1.memory.gathered, 0);

  for (const char* replicated : {"DDP", "NO_SHARD"}) {
    const StepCost ddp = predict_step(llama(replicated, 8), machine());
    ASSERT_EQ(ddp.collectives.size(), 1u);
    EXPECT_DOUBLE_EQ(collective(ddp, "all_reduce", "world").sent_bytes, 2 * share * 2 * kAll);
    EXPECT_DOUBLE_EQ(ddp.memory.parameters, 2 * kAll);
    EXPECT_DOUBLE_EQ(ddp.memory.optimizer_state, 4 * kAll);
    EXPECT_EQ(ddp.memory.gathered, 0);
  }
  EXPECT_TRUE(predict_step(llama("FULL_SHARD", 1), machine()).collectives.empty());
}

TEST(CostModelTest, HybridStrategiesShardInsideANodeAndSumOverNodes) {
  for (const bool reshard : {true, false}) {
    const StepCost cost =
        predict_step(llama(reshard ? "HYBRID_SHARD" : "HYBRID_SHARD_ZERO2", 16, 2), machine());
    EXPECT_DOUBLE_EQ(cost.memory.parameters, 2 * kAll / 8);
    EXPECT_DOUBLE_EQ(collective(cost, "all_gather", "shards").sent_bytes,
                     7.0 / 8 * 2 * (reshard ? 2 * kAll - kRoot : kAll));
    EXPECT_DOUBLE_EQ(collective(cost, "reduce_scatter", "shards").sent_bytes, 7.0 / 8 * 2 * kAll);
    EXPECT_DOUBLE_EQ(collective(cost, "all_reduce", "replicas").sent_bytes, 2 * 0.5 * 2 * kAll / 8);
  }
}

TEST(CostModelTest, AccumulationReducesOnceOrEachTime) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.batches.gradient_accumulation_steps = 4;
  const StepCost last = predict_step(job, machine());
  job.parallel.gradient_sync = GradientSync::kEach;
  const StepCost each = predict_step(job, machine());
  EXPECT_EQ(collective(last, "all_gather", "world").calls, 4 * 65);
  EXPECT_EQ(collective(last, "reduce_scatter", "world").calls, 33);
  EXPECT_EQ(collective(each, "reduce_scatter", "world").calls, 4 * 33);
  EXPECT_DOUBLE_EQ(last.memory.gathered - each.memory.gathered, 2 * 30 * kLayer)
      << "gradients of all layers wait unsharded, instead of two layers'";

  job.parallel.strategy = Strategy::kShardGradOp;
  EXPECT_EQ(collective(predict_step(job, machine()), "all_gather", "world").calls, 4 * 33);
  job.parallel.gradient_sync = GradientSync::kLast;
  EXPECT_EQ(collective(predict_step(job, machine()), "all_gather", "world").calls, 33);
  job.parallel.strategy = Strategy::kHybridShard;
  job.parallel.gradient_sync = GradientSync::kEach;
  job.device.ranks = 16;
  job.device.nodes = 2;
  EXPECT_EQ(collective(predict_step(job, machine()), "all_reduce", "replicas").calls, 33)
      << "replicas are summed after the last micro-batch only";
}

// Gathers of what was updated run beside the forward pass, those of an all-reduce beside the
// backward pass: the step is never longer by more than the first of them.
TEST(CostModelTest, ShardsOfTheOptimizerAloneGatherOnceForAllMicroBatches) {
  TrainingJob job = llama("SHARD_OPTIM", 8);
  job.batches.gradient_accumulation_steps = 4;
  job.parallel.gradient_sync = GradientSync::kEach;  // no effect
  const StepCost zero1 = predict_step(job, machine());
  EXPECT_EQ(collective(zero1, "all_gather", "world").calls, 33);
  EXPECT_EQ(collective(zero1, "reduce_scatter", "world").calls, 33);
  job.parallel.strategy = Strategy::kDdp;
  const StepCost ddp = predict_step(job, machine());
  EXPECT_DOUBLE_EQ(zero1.sent_bytes(), ddp.sent_bytes());
  EXPECT_EQ(collective(ddp, "all_reduce", "world").calls, 33);
  EXPECT_DOUBLE_EQ(zero1.optimizer_s, ddp.optimizer_s / 8);
}

TEST(CostModelTest, CheckpointingGathersNothingMoreKeepsLessAndComputesAgainUpToTheLastProducts) {
  TrainingJob job = llama("FULL_SHARD", 8);
  const StepCost without = predict_step(job, machine());
  job.activations.gradient_checkpointing = true;
  const StepCost with = predict_step(job, machine());
  EXPECT_EQ(with.sent_bytes(), without.sent_bytes());
  EXPECT_LT(with.memory.activations, without.memory.activations / 5);
  // 31 layers again, the last is still there: 2 FLOPs for each weight of a linear and position, 2
  // for each query, key and channel of causal attention; without down_proj.
  const double positions = 2048;
  const double weights = kLayer - 2 * 4096 - 4096.0 * 14336;
  EXPECT_DOUBLE_EQ(with.flops - without.flops, 31 * positions * (2 * weights + 2 * 1024.0 * 4096));
}

// Gate, up and their product are 14336 values each. Two tiles: in the backward pass one of them has
// gate and up, the gradients of all three, and input and gradient of its own; beside it stand the
// gradients of all rows.
TEST(CostModelTest, TiledMlpsKeepTheirInputsAndComputeTheirFirstProductsAgain) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.data.model_max_length = 65536;
  job.batches.per_device_batch_size = 1;
  job.device.kind = "cuda";
  const StepCost whole = predict_step(job, machine());
  job.activations.mlp_tiles = 2;
  const StepCost tiled = predict_step(job, machine());
  constexpr double kPositions = 65536, kInner = 14336, kHidden = 4096;
  EXPECT_DOUBLE_EQ(tiled.flops - whole.flops, 32 * kPositions * 2 * 2 * kHidden * kInner);
  EXPECT_GT(tiled.compute_s, whole.compute_s);
  const double whole_backward = kHidden + 2 * kInner;
  const double tiled_backward = 2 * kHidden + (5 * kInner + 2 * kHidden) / 2;
  EXPECT_DOUBLE_EQ(whole.memory.activations - tiled.memory.activations,
                   2 * kPositions * (32 * 3 * kInner + whole_backward - tiled_backward));
  EXPECT_EQ(tiled.sent_bytes(), whole.sent_bytes());

  job.activations.gradient_checkpointing = true;
  const StepCost both = predict_step(job, machine());
  job.activations.mlp_tiles = 1;
  const StepCost checkpointed = predict_step(job, machine());
  EXPECT_EQ(both.flops, checkpointed.flops)
      << "a layer that runs again leaves its MLP to the tiles";
  EXPECT_LT(both.memory.activations, checkpointed.memory.activations);
}

// 2 bytes of each parameter and gradient, and 4 of its state, at 25 GB/s each way.
TEST(CostModelTest, CopiesToTheHostTakeTimeThatComputationDoesNotHide) {
  TrainingJob job = llama("DDP", 1);
  job.device.kind = "cuda";
  MachineModel gpu = machine();
  gpu.host_bytes_per_s = 25e9;
  EXPECT_EQ(predict_step(job, gpu).copies_s, 0);
  job.optimizer.offload_state = true;
  const StepCost state = predict_step(job, gpu);
  EXPECT_NEAR(state.copies_s, 4 * kAll / 25e9, 1e-9);
  EXPECT_NEAR(state.step_s, predict_step(job, machine()).step_s + state.copies_s, 1e-9);

  job = llama("FULL_SHARD", 8);
  job.device.kind = "cuda";
  job.parallel.offload = true;
  job.batches.gradient_accumulation_steps = 4;
  const StepCost shards = predict_step(job, gpu);
  const double beside_s = 4 * (2 * 2 + 2) * kAll / 8 / 25e9;
  EXPECT_NEAR(shards.copies_s,
              (4 + 4) * kAll / 8 / 25e9 + std::max(0.0, beside_s - shards.compute_s), 1e-9);

  job = llama("DDP", 1);
  job.device.kind = "cuda";
  job.activations = {.gradient_checkpointing = true, .offload = true};
  const StepCost hidden = predict_step(job, gpu);
  EXPECT_GT(hidden.memory.offloaded_activations, 0);
  EXPECT_EQ(hidden.copies_s, 0) << "checkpoints are few beside the products of a layer";
  gpu.host_bytes_per_s = 1e9;
  EXPECT_NEAR(predict_step(job, gpu).copies_s,
              2 * hidden.memory.offloaded_activations / 1e9 - hidden.compute_s, 1e-9);
}

TEST(CostModelTest, AGpusSlotIsThatOfItsArchitecture) {
  const auto rate = [](const char* gpu) {
    return machine_of(gpu, "bfloat16", Catalog::shipped().gpus, MachineCatalog::shipped())
        .host_bytes_per_s;
  };
  EXPECT_EQ(rate("NVIDIA-A100-SXM4-80GB"), 25.2e9);
  EXPECT_EQ(rate("NVIDIA-H100-80GB-HBM3"), 50.4e9);
}

// Of llama3.1-8b on one GPU: the embedding has 128256 x 4096 elements, and bfloat16 states of
// AdamW.
TEST(CostModelTest, OffloadedStatesVisitInTwoBuffersOfTheLargestTensor) {
  TrainingJob job = llama("DDP", 1);
  job.device.kind = "cuda";
  const StepCost without = predict_step(job, machine());
  job.optimizer.offload_state = true;
  const StepCost with = predict_step(job, machine());
  EXPECT_DOUBLE_EQ(with.memory.optimizer_state, 0);
  EXPECT_DOUBLE_EQ(with.memory.offloaded_state, without.memory.optimizer_state);
  EXPECT_DOUBLE_EQ(with.memory.update - without.memory.update, 2 * 2 * 2 * 128256.0 * 4096);
  EXPECT_DOUBLE_EQ(with.optimizer_s, without.optimizer_s);
  // Where tensors are small, a chunk of many has 4,194,304 elements.
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 64, .alpha = 16, .dropout = 0, .target_modules = {"q_proj"}};
  EXPECT_DOUBLE_EQ(predict_step(job, machine()).memory.update, 2 * 2 * 2 * 4194304.0);
  job.device.kind = "cpu";
  EXPECT_DOUBLE_EQ(predict_step(job, machine()).memory.offloaded_state, 0) << "has no other memory";
}

// FSDP of one rank: units are gathered from the host, and nothing is sent.
TEST(CostModelTest, OffloadedParametersAreOnTheDeviceUnitByUnit) {
  TrainingJob job = llama("FULL_SHARD", 1);
  job.device.kind = "cuda";
  job.parallel.offload = true;
  const StepCost alone = predict_step(job, machine());
  EXPECT_EQ(alone.memory.parameters, 0);
  EXPECT_EQ(alone.memory.optimizer_state, 0);
  EXPECT_DOUBLE_EQ(alone.memory.offloaded_parameters, 2 * 2 * kAll);
  EXPECT_DOUBLE_EQ(alone.memory.offloaded_state, 4 * kAll);
  EXPECT_DOUBLE_EQ(alone.memory.gathered, 2 * 2 * (kRoot + 2 * kLayer));
  EXPECT_DOUBLE_EQ(alone.memory.gradients, 2 * 2 * kRoot);
  EXPECT_DOUBLE_EQ(alone.memory.update - alone.memory.gathered, 2 * (2 + 2 + 4) * 128256.0 * 4096);
  EXPECT_EQ(alone.sent_bytes(), 0);
  job.device.ranks = 8;
  const StepCost eight = predict_step(job, machine());
  job.parallel.offload = false;
  EXPECT_EQ(eight.sent_bytes(), predict_step(job, machine()).sent_bytes());
  EXPECT_DOUBLE_EQ(eight.memory.offloaded_parameters, 2 * 2 * kAll / 8);
}

TEST(CostModelTest, OffloadedActivationsAreThreeInputsOnTheDevice) {
  TrainingJob job = llama("DDP", 1);
  job.device.kind = "cuda";
  job.activations.gradient_checkpointing = true;
  job.batches.gradient_accumulation_steps = 4;  // with one, gradients make the peak without
  const StepCost without = predict_step(job, machine());
  job.activations.offload = true;
  const StepCost with = predict_step(job, machine());
  const double input = 2048 * 2 * 4096.0;  // positions, bfloat16
  EXPECT_DOUBLE_EQ(with.memory.offloaded_activations, 29 * input);
  EXPECT_DOUBLE_EQ(without.memory.activations - with.memory.activations, 29 * input);
  EXPECT_EQ(with.flops, without.flops);
}

TEST(CostModelTest, TorchRecomputesEveryLayerUpToItsLastProductOrEveryOtherProduct) {
  const TrainingJob job = llama("FULL_SHARD", 8);
  const auto more = [&job](Recompute recompute) {
    return predict_step(job, machine(), recompute).flops - predict_step(job, machine()).flops;
  };
  const double positions = 2048;
  const double attention = 2 * 1024.0 * 4096;
  const double hidden = 4096, keys = 1024, inner = 14336;
  EXPECT_DOUBLE_EQ(more(Recompute::kTorchLayers),
                   32 * positions * (2 * hidden * (2 * hidden + 2 * keys + 2 * inner) + attention));
  EXPECT_DOUBLE_EQ(more(Recompute::kTorchEveryOtherProduct),
                   32 * positions * 2 * hidden * (keys + hidden + inner));
}

TEST(CostModelTest, GradientsAreReducedInTheDtypeThatIsAskedFor) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.parallel.reduce_dtype = "float32";
  EXPECT_DOUBLE_EQ(collective(predict_step(job, machine()), "reduce_scatter", "world").sent_bytes,
                   7.0 / 8 * 4 * kAll);
}

TEST(CostModelTest, AdaptersAreReducedAndFrozenWeightsAreOnlyGathered) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.tuning = TuningMethod::kLora;
  job.lora.target_modules = {"q_proj", "v_proj"};
  const StepCost cost = predict_step(job, machine());
  // Rank 4: 4 x (4096 + 4096) and 4 x (4096 + 1024) of each of 32 layers.
  const double trained = 32.0 * 4 * (8192 + 5120);
  EXPECT_DOUBLE_EQ(collective(cost, "reduce_scatter", "world").sent_bytes, 7.0 / 8 * 2 * trained);
  EXPECT_EQ(collective(cost, "reduce_scatter", "world").calls, 32) << "the root is frozen";
  EXPECT_DOUBLE_EQ(cost.memory.optimizer_state, 4 * trained / 8);
  EXPECT_DOUBLE_EQ(cost.memory.parameters, 2 * (kAll + trained) / 8);
}

TEST(CostModelTest, ShardsArePaddedToAlignedEqualParts) {
  const TrainedShape hundred = {"a", {10, 10}};
  EXPECT_EQ(flat_elements({hundred}, 4, 1), 128);
  EXPECT_EQ(flat_elements({hundred, hundred}, 4, 2), 256);  // the second begins at 128, ends at 228
  EXPECT_EQ(flat_elements({hundred, hundred}, 4, 3), 3 * 128);  // 228 / 3 = 76
  EXPECT_EQ(flat_elements({{"b", {1}}}, 2, 4), 4 * 128);
}

// The update reads parameters, gradients and states, and writes parameters and states: 2 bytes of
// each parameter and gradient and 4 of states, at 1 TB/s.
TEST(CostModelTest, AStepIsItsPassesItsUpdateAndWhatTheHostDoesOnce) {
  MachineModel slow = machine();
  slow.stack.step_s = 0.5;
  const StepCost cost = predict_step(llama("DDP", 1), slow);
  EXPECT_DOUBLE_EQ(cost.optimizer_s, (2 * 2 + 2 + 2 * 4) * kAll / 1e12);
  EXPECT_EQ(cost.host_s, 0.5);
  EXPECT_DOUBLE_EQ(cost.step_s, cost.compute_s + cost.optimizer_s + 0.5);
}

// Gradients of replicas stand in their buckets from the first on, those of shards once they are
// reduced, which micro-batches that add to them wait for.
TEST(CostModelTest, GradientsOfShardsComeLateUnlessMicroBatchesAddToThem) {
  const auto freed = [](const char* strategy, int64_t micro_batches, GradientSync sync) {
    TrainingJob job = llama(strategy, 8);
    job.batches.gradient_accumulation_steps = micro_batches;
    job.parallel.gradient_sync = sync;
    return predict_step(job, machine()).memory.freed_gradients;
  };
  EXPECT_EQ(freed("DDP", 1, GradientSync::kLast), 0);
  EXPECT_GT(freed("FULL_SHARD", 1, GradientSync::kLast), 0);
  EXPECT_GT(freed("FULL_SHARD", 1, GradientSync::kEach), 0);
  EXPECT_GT(freed("FULL_SHARD", 4, GradientSync::kLast), 0);
  EXPECT_EQ(freed("FULL_SHARD", 4, GradientSync::kEach), 0);
}

TEST(CostModelTest, ALinkToOtherNodesIsSharedByTheRingsOfANode) {
  // 16 ranks: on one node 100 GB/s; on two nodes each of 8 rings has 10 GB/s of its own.
  const double bytes =
      collective(predict_step(llama("SHARD_GRAD_OP", 16), machine()), "all_gather", "world")
          .sent_bytes;
  const auto seconds = [&](int64_t nodes) {
    return collective(predict_step(llama("SHARD_GRAD_OP", 16, nodes), machine()), "all_gather",
                      "world")
        .seconds;
  };
  EXPECT_NEAR(seconds(1), bytes / 100e9 + 33 * 15e-6, 1e-9);
  EXPECT_NEAR(seconds(2), bytes / 80e9 + 33 * (14e-6 + 1e-5), 1e-9);
}

// L40S: on twice the nodes a run took less time once, because fewer ranks shared a bus.
TEST(CostModelTest, ASharedBusIsNoFasterWhereItsRanksStandInSeveralNodes) {
  MachineModel shared = machine();
  shared.inside.shared = true;
  const auto seconds = [&](int64_t nodes) {
    return predict_step(llama("FULL_SHARD", 8, nodes), shared).step_s;
  };
  EXPECT_GE(seconds(2), seconds(1));
  EXPECT_GE(seconds(4), seconds(2));
}

// Scores are as many as the square of a row's length, and each is written and read several times.
TEST(CostModelTest, AttentionWithoutTilesTakesTimeForItsScores) {
  MachineModel with_elements = machine();
  with_elements.element_bytes_per_s = 1e12;
  const auto more_s = [&](int64_t length) {
    TrainingJob tiled = llama("DDP", 1);
    tiled.data.model_max_length = length;
    TrainingJob eager = tiled;
    eager.kernels.flash_attention = false;
    return predict_step(eager, with_elements).compute_s -
           predict_step(tiled, with_elements).compute_s;
  };
  EXPECT_GT(more_s(1024), 0);
  EXPECT_NEAR(more_s(4096) / more_s(1024), 16, 0.1);
}

TEST(CostModelTest, AttentionWithSinksOfThisProgramTakesNoTimeForScores) {
  MachineModel with_elements = machine();
  with_elements.element_bytes_per_s = 1e12;
  TrainingJob tiled = llama("DDP", 1);
  tiled.model.name = "gpt-oss-20b";
  tiled.model.hf_config = Catalog::shipped().models.find("gpt-oss-20b")->hf_config;
  TrainingJob eager = tiled;
  eager.kernels.flash_attention = false;
  EXPECT_EQ(predict_step(eager, with_elements).compute_s,
            predict_step(tiled, with_elements).compute_s);
}

// Layers of hybrids differ, and count as their mean.
TEST(CostModelTest, EveryModelOfTheCatalogHasItsParametersAndTakesTime) {
  for (const ModelFacts& model : Catalog::shipped().models.models()) {
    if (model.hf_config.is_null()) continue;
    TrainingJob job = llama("DDP", 1);
    job.model.name = model.name;
    job.model.hf_config = model.hf_config;
    const StepCost cost = predict_step(job, machine());
    const auto parameters = static_cast<double>(parameter_count(model.hf_config));
    EXPECT_NEAR(cost.memory.parameters / (2 * parameters), 1, 1e-3) << model.name;
    EXPECT_GT(cost.compute_s, 0) << model.name;
  }
}

TEST(CostModelTest, AWindowShortensTheAttentionOfTheLayersThatHaveOne) {
  const auto attention = [](const Json& changes) {
    TrainingJob job = llama("DDP", 1);
    job.model.hf_config = Catalog::shipped().models.find("mistral-7b-v0.1")->hf_config;
    job.model.hf_config.update(changes);
    job.model.name = "mistral" + std::to_string(changes.at("sliding_window").get<int>());
    return model_work(job, Recompute::kJob).attention_flops;
  };
  // Rows of 1024: a window of 256 sees 256 (1 - 1/8) of the 512 keys that all before it are.
  EXPECT_DOUBLE_EQ(attention({{"sliding_window", 256}}) / attention({{"sliding_window", 4096}}),
                   256 * 7.0 / 8 / 512);
}

TEST(CostModelTest, QuantizedWeightsTakeFourBitsAndPromptsARowMore) {
  TrainingJob job = llama("FULL_SHARD", 1);
  job.tuning = TuningMethod::kGptqLora;
  job.lora.target_modules = {"q_proj"};
  const double quantized = predict_step(job, machine()).memory.parameters;
  EXPECT_NEAR(quantized, 2 * kRoot + 32 * kLayer * (0.5 + 2.5 / 128), 1e-2 * quantized);
  job = llama("FULL_SHARD", 1);
  job.tuning = TuningMethod::kPrompt;
  job.prompt.virtual_tokens = 8;
  const StepCost prompted = predict_step(job, machine());
  EXPECT_DOUBLE_EQ(prompted.memory.gradients, 2 * 8 * 4096);
  EXPECT_EQ(prompted.positions, 2 * (1024 + 8));
}

TEST(CostModelTest, SmallProductsPayForTheLastWaveAndForTheHost) {
  MachineModel shaped = machine();
  shaped.multiprocessors = 100;
  EXPECT_DOUBLE_EQ(tail_of_product(128 * 50, 256 * 10, 100), 0.1);
  EXPECT_EQ(tail_of_product(1, 1, 0), 0);
  EXPECT_DOUBLE_EQ(tail_of_product(128, 256 * 20, 100), 1) << "tiles of 64 x 64 are enough";
  EXPECT_DOUBLE_EQ(tail_of_product(64, 64 * 10, 100), 10) << "a tenth of the GPU works";
  TrainingJob job = llama("DDP", 1);
  const double plain = predict_step(job, machine()).compute_s;
  EXPECT_GT(predict_step(job, shaped).compute_s, plain);
  shaped.stack.launches = {100, 200};
  shaped.stack.launch_s = 1;
  EXPECT_NEAR(predict_step(job, shaped).compute_s, 32 * 300, 1);
}

// Rows of 1024 positions on four ranks: chunks of 128, keys and values of 2 x 1024 values a
// position. A rank hands on 1.5 (N - 1) chunks a layer, in bfloat16, in both passes, and as many
// gradients in float32. 256 positions of each row are its own.
TEST(CostModelTest, OnACpuEachLaunchAddsItsTimeAndEverythingElseIsScaled) {
  TrainingJob job = llama("DDP", 1);
  job.device.kind = "cpu";
  MachineModel cpu = machine();
  cpu.launches_add = true;
  cpu.stack.launches = {30, 60};
  cpu.stack.adapter_launches = {4, 8};
  const double alone = predict_step(job, cpu).compute_s;
  cpu.stack.launch_s = 1e-3;
  EXPECT_NEAR(predict_step(job, cpu).compute_s, alone + 32 * 90 * 1e-3, 1e-9);
  cpu.compute_scale = 1.5;
  EXPECT_NEAR(predict_step(job, cpu).compute_s, 1.5 * alone + 32 * 90 * 1e-3, 1e-9);
  job.activations.gradient_checkpointing = true;  // all layers but the last forward again
  cpu.compute_scale = 0;
  EXPECT_NEAR(predict_step(job, cpu).compute_s, (32 * 90 + 31 * 30) * 1e-3, 1e-9);
  job.activations.gradient_checkpointing = false;
  job.tuning = TuningMethod::kLora;
  job.lora.target_modules = {"q_proj", "v_proj"};
  EXPECT_NEAR(predict_step(job, cpu).compute_s, 32 * (90 + 2 * 12) * 1e-3, 1e-9);
}

// bench/predict/probed.py: smollm2-135m on a row of 128 tokens held 1,029 MiB at most, and its
// parameters, gradients and moments are 1,026 MiB.
TEST(CostModelTest, OnOneCpuRankGradientsTakeThePlaceOfActivations) {
  TrainingJob job = llama("DDP", 1);
  job.device.kind = "cpu";
  job.batches.per_device_batch_size = 1;
  job.data.model_max_length = 64;
  const double between = 2 * kAll + 2 * kAll + 2 * 2 * kAll;
  EXPECT_NEAR(predict_step(job, machine()).memory.total(), between, 1e-4 * between)
      << "the first layer's backward pass comes with all gradients";
  job.batches.gradient_accumulation_steps = 2;  // the first micro-batch's gradients are there
  const MemoryCost several = predict_step(job, machine()).memory;
  EXPECT_DOUBLE_EQ(several.total(), between + several.activations + several.logits);
  EXPECT_GT(several.activations, 0);
  job.batches.gradient_accumulation_steps = 1;
  job.data.model_max_length = 8192;  // activations are more than what they wait for
  EXPECT_GT(predict_step(job, machine()).memory.total(), between);
}

TEST(CostModelTest, RowsOnSeveralRanksTravelByTheFormulasOfTheRing) {
  TrainingJob job = llama("FULL_SHARD", 8);
  const StepCost whole = predict_step(job, machine());
  job.parallel.context_ranks = 4;
  const StepCost divided = predict_step(job, machine());
  const double chunk = 2.0 * 2 * 128 * 1024;
  const double passes = 32 * 1.5 * 3;
  EXPECT_NEAR(collective(divided, "all_to_all", "context").sent_bytes, passes * chunk * (2 + 2 + 4),
              1);
  const CollectiveCost& ring = collective(divided, "all_to_all", "context");
  EXPECT_EQ(ring.calls, 2 * 32);
  EXPECT_NEAR(ring.seconds, ring.sent_bytes / 100e9 + 2 * 32 * 3 * 1e-6, 1e-9) << "three hops each";
  EXPECT_EQ(divided.positions, whole.positions / 4);
  EXPECT_NEAR(divided.flops, whole.flops / 4, 1e-6 * whole.flops);
}

// Of one row of 131072 on two ranks. The last layer's attention has its blocks in the backward
// pass: two of keys and values, results in float32, and five of gradients in float32. What the MLP
// kept is gone by then.
TEST(CostModelTest, BlocksOfDividedRowsStandBesideWhatAttentionKept) {
  TrainingJob job = llama("FULL_SHARD", 8);
  job.device.kind = "cuda";
  job.data.model_max_length = 131072;
  job.batches.per_device_batch_size = 1;
  job.parallel.context_ranks = 2;
  job.activations = {.gradient_checkpointing = true, .mlp_tiles = 16};
  job.model.hf_config["vocab_size"] = 1024;  // so that the loss holds less
  const MemoryCost memory = predict_step(job, machine()).memory;
  constexpr double kPositions = 65536, kHidden = 4096, kKeys = 1024;
  const double block = 2 * kPositions * kKeys;
  const double blocks = 2 * 2 * block + 4 * kPositions * kHidden + 5 * 4 * block;
  EXPECT_EQ(memory.logits, 0) << "they are gone";
  EXPECT_DOUBLE_EQ(memory.activations,
                   2 * kPositions * (32 * kHidden + 4 * kHidden + 2 * kKeys) + blocks);
}

TEST(CostModelTest, LinksThatEndInTheHostGetLessTheMoreThereAre) {
  LinkModel link{.latency_s = 0, .bytes_per_s = 10e9, .shared = true};
  EXPECT_DOUBLE_EQ(link.bytes_per_s_of(2), 10e9);
  EXPECT_NEAR(link.bytes_per_s_of(8) / link.bytes_per_s_of(4), 28.0 / 35, 2e-3);
  link.shared = false;
  EXPECT_DOUBLE_EQ(link.bytes_per_s_of(8), 10e9);
}

TEST(StackModelTest, ShippedProfilesAreReadAndAnUnknownOneIsRefused) {
  EXPECT_EQ(StackModel::names().front(), "sftbench");
  const StackModel fms = StackModel::named("fms-hf-tuning");
  EXPECT_EQ(fms.update_copies, 1);
  EXPECT_FALSE(fms.fused_by_default) << "only where it is asked to";
  EXPECT_TRUE(StackModel::named("unsloth").fused_by_default);
  EXPECT_DOUBLE_EQ(StackModel::named("sftbench").launch_s, 5e-6) << "launch_us";
  EXPECT_THROW(StackModel::named("fms"), InputError);
}

TEST(CostModelTest, WhatIsNotKnownIsRefusedByName) {
  const auto message = [](const TrainingJob& job) -> std::string {
    try {
      predict_step(job, machine());
    } catch (const RunError& error) {
      EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(message(llama("HYBRID_SHARD", 8)), HasSubstr("8 ranks on 1 node are not several"));
  TrainingJob job = llama("DDP", 2);
  job.parallel.expert_ranks = 2;
  EXPECT_THAT(message(job), HasSubstr("fast_moe 2: the cost of experts on several ranks is not"));
}

TEST(MachineCatalogTest, EveryGpuOfTheCatalogHasAMachine) {
  const GpuCatalog& gpus = Catalog::shipped().gpus;
  const MachineCatalog machines =
      MachineCatalog::read((resource_directory() / "config" / "machines.yaml").string(), gpus);
  for (const std::string& name : gpus.names()) EXPECT_NE(machines.find(name), nullptr) << name;
  const MachineModel h100 = machine_of("NVIDIA-H100-80GB-HBM3", "bfloat16", gpus, machines);
  EXPECT_DOUBLE_EQ(h100.flops_per_s, 989.4e12 * machines.find("NVIDIA-H100-80GB-HBM3")->reached);
  EXPECT_NEAR(h100.memory_bytes, 79.18 * (1 << 30), 1);
  EXPECT_EQ(h100.fp8_flops_per_s, 0);
  const MachineModel fp8 = machine_of("NVIDIA-H100-80GB-HBM3", "fp8", gpus, machines);
  EXPECT_DOUBLE_EQ(fp8.flops_per_s, h100.flops_per_s);
  EXPECT_DOUBLE_EQ(fp8.attention_flops_per_s, h100.attention_flops_per_s);
  EXPECT_DOUBLE_EQ(fp8.fp8_flops_per_s / fp8.flops_per_s, 1978.9 / 989.4);
}

// Published figures that no other constant explains (config/machines.yaml names them).
TEST(MachineCatalogTest, SlowBoardsAndLinksAreAsOthersMeasuredThem) {
  const GpuCatalog& gpus = Catalog::shipped().gpus;
  const MachineCatalog& machines = MachineCatalog::shipped();
  EXPECT_NEAR(machine_of("Tesla-T4", "float16", gpus, machines).flops_per_s, 24e12, 0.5e12);
  // llama-7b on two RTX 3090: each gathers half of 13.48 GB twice, which took 10.672 - 6.883 s.
  const LinkModel link = machine_of("NVIDIA-GeForce-RTX-3090", "bfloat16", gpus, machines).inside;
  EXPECT_NEAR(13.48e9 / link.bytes_per_s_of(2), 10.672 - 6.883, 0.5);
  for (const char* rented : {"L40S", "NVIDIA-A10G", "NVIDIA-L4", "Tesla-T4", "NVIDIA-H100-PCIe"})
    EXPECT_TRUE(machines.find(rented)->between.shared) << rented;
  EXPECT_FALSE(machines.find("NVIDIA-H100-80GB-HBM3")->between.shared);
}

TEST(MachineCatalogTest, ErrorsNameFileKeyAndWhatWasFound) {
  const std::string path = testing::TempDir() + "/machines_" + std::to_string(::getpid()) + ".yaml";
  write_file_atomic(path, R"(machines:
  - gpus: [NVIDIA-H1000]
    reached: 1.5
    inside: {latency_us: 3}
    between: {latency_us: 14, gb_per_s: 45, extra: 1}
    source: none
)");
  try {
    MachineCatalog::read(path, Catalog::shipped().gpus);
    FAIL() << "an error is expected";
  } catch (const InputError& error) {
    std::string all;
    for (const Diagnostic& diagnostic : error.diagnostics()) all += to_string(diagnostic) + "\n";
    EXPECT_THAT(all, HasSubstr("unknown GPU 'NVIDIA-H1000'"));
    EXPECT_THAT(all, HasSubstr("machines[0].reached"));
    EXPECT_THAT(all, HasSubstr("machines[0].inside.gb_per_s"));
    EXPECT_THAT(all, HasSubstr("extra"));
  }
  std::filesystem::remove(path);
}

// An entity of a space may name a GPU that cannot compute so, and the others are predicted.
TEST(MachineCatalogTest, AnUnknownGpuIsWrongInputAndOneWithoutTheDtypeUnsupported) {
  const GpuCatalog& gpus = Catalog::shipped().gpus;
  const MachineCatalog machines =
      MachineCatalog::read((resource_directory() / "config" / "machines.yaml").string(), gpus);
  EXPECT_THROW(machine_of("NVIDIA-H1000", "bfloat16", gpus, machines), InputError);
  try {
    machine_of("Tesla-T4", "bfloat16", gpus, machines);
    ADD_FAILURE() << "a T4 has no bfloat16";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
