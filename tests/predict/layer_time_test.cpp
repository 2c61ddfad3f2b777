// Seconds against arithmetic by hand: 10 positions, a device of 1000 FLOP/s and, where element-wise
// kernels count, of 100 bytes/s.
#include "predict/layer_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sftbench {
namespace SFTBENCH_FILE {

MachineModel machine() {
  MachineModel machine;
  machine.flops_per_s = 1000;
  return machine;
}

ModelWork work_of(std::vector<LinearWork> linears) {
  ModelWork work;
  work.positions = 10;
  work.vocabulary = 7;
  work.head_flops = {600, 0, 1200};
  work.linears = std::move(linears);
  return work;
}

TrainingJob plain_job() {
  TrainingJob job;
  job.activations.gradient_checkpointing = false;
  return job;
}

PassSeconds layer(const ModelWork& work, const MachineModel& machine,
                  const TrainingJob& job = plain_job()) {
  return work_seconds(job, work, machine, Recompute::kJob).layer;
}

TEST(LayerTimeTest, ATrainedLinearHasThreeProductsAFrozenOneTwoAndItsAdapterThrice) {
  // Two products of 5 rows, 3 x 5: 2 x 2 x 5 x 15 FLOPs.
  const PassSeconds trained =
      layer(work_of({{.in = 3, .out = 5, .count = 2, .share_of_positions = 0.5, .trained = true}}),
            machine());
  EXPECT_DOUBLE_EQ(trained.forward, 0.3);
  EXPECT_DOUBLE_EQ(trained.backward, 0.6);
  EXPECT_EQ(trained.recomputed, 0);
  // 2 x 10 x 15 FLOPs, and 2 x 4 x (3 + 5) x 10 of the adapter.
  const ModelWork adapted = work_of({{.in = 3, .out = 5, .adapter_rank = 4}});
  EXPECT_DOUBLE_EQ(layer(adapted, machine()).forward, 0.3 + 0.64);
  EXPECT_DOUBLE_EQ(layer(adapted, machine()).backward, 0.3 + 2 * 0.64);
  MachineModel slow = machine();
  slow.stack.adapter_slowdown = 2;
  EXPECT_DOUBLE_EQ(layer(adapted, slow).forward, 0.3 + 2 * 0.64);
  TrainingJob autocast = plain_job();
  autocast.precision.autocast = Autocast::kBf16;
  EXPECT_DOUBLE_EQ(layer(adapted, slow, autocast).forward, 0.3 + 0.64);
}

TEST(LayerTimeTest, AttentionHasItsOwnRateAndSmallHeadsASlowerOne) {
  ModelWork work = work_of({});
  work.attention_flops = 1000;
  work.scan_flops = 500;
  work.head_size = 256;
  EXPECT_DOUBLE_EQ(layer(work, machine()).forward, 1 + 0.5);
  EXPECT_DOUBLE_EQ(layer(work, machine()).backward, 2.5 * 1 + 2 * 0.5);
  MachineModel fast = machine();
  fast.attention_flops_per_s = 8000;
  fast.stack.attention_scale = 0.25;
  EXPECT_DOUBLE_EQ(layer(work, fast).forward, 0.5 + 0.5);
  work.head_size = 64;
  EXPECT_DOUBLE_EQ(layer(work, fast).forward, 0.5 * std::pow(2, 0.15) + 0.5);
}

// Without flash kernels the mask hides half of what is multiplied, and the scores are written.
TEST(LayerTimeTest, EagerAttentionMultipliesWhatIsMaskedAndWritesItsScores) {
  ModelWork work = work_of({});
  work.attention_flops = 1000;
  work.scores = 100;
  MachineModel eager = machine();
  eager.stack.logit_bytes = 12;
  EXPECT_DOUBLE_EQ(layer(work, eager).forward, 2 * 1);
  EXPECT_DOUBLE_EQ(layer(work, eager).backward, 2 * 2 * 1);
  eager.element_bytes_per_s = 2400;
  EXPECT_DOUBLE_EQ(layer(work, eager).forward, 2 * 1 + 1);
  EXPECT_DOUBLE_EQ(layer(work, eager).backward, 2 * 2 * 1 + 1);
}

TEST(LayerTimeTest, DoraMultipliesWhatIsDroppedOnceMore) {
  const ModelWork work =
      work_of({{.in = 3, .out = 5, .count = 2, .adapter_rank = 4, .has_magnitude = true}});
  TrainingJob job = plain_job();
  job.lora.dropout = 0;
  const PassSeconds kept = layer(work, machine(), job);
  job.lora.dropout = 0.1;
  const PassSeconds dropped = layer(work, machine(), job);
  // 2 x 10 x 15 FLOPs of two linears.
  EXPECT_DOUBLE_EQ(dropped.forward - kept.forward, 0.6);
  EXPECT_DOUBLE_EQ(dropped.backward - kept.backward, 0.6);
}

TEST(LayerTimeTest, ElementWiseKernelsTakeTheirBytes) {
  MachineModel with_elements = machine();
  with_elements.flops_per_s = INFINITY;
  with_elements.element_bytes_per_s = 100;
  StackModel& stack = with_elements.stack;
  stack.norm_fused = {1, 2};
  stack.norm = {11, 12};
  stack.residual = {3, 4};
  stack.rope_fused = {5, 6};
  stack.rope = {15, 16};
  stack.activation = {7, 8};
  stack.adapter_in = {1, 2};
  stack.adapter_out = {3, 4};
  ModelWork work =
      work_of({{.in = 30, .out = 50},
               {.in = 3, .out = 5, .count = 4, .share_of_positions = 0.25, .adapter_rank = 1}});
  work.hidden = 4;
  work.rotated = 2;
  work.activated = 3;
  // 10 positions of 2 bytes a value: norms and residuals, rotations, activations, adapters.
  EXPECT_DOUBLE_EQ(layer(work, with_elements).forward, 0.2 * (8 * 4 + 2 * 5 + 3 * 7 + 3 + 15));
  EXPECT_DOUBLE_EQ(layer(work, with_elements).backward, 0.2 * (8 * 6 + 2 * 6 + 3 * 8 + 6 + 20));
  TrainingJob plain = plain_job();
  plain.kernels.fused_rms_norm = plain.kernels.fused_rope = false;
  plain.precision.torch_dtype = ParameterDtype::kFloat32;
  EXPECT_DOUBLE_EQ(layer(work, with_elements, plain).forward,
                   0.4 * (8 * 14 + 2 * 15 + 3 * 7 + 3 + 15));
  work.layer_norm = true;  // has a kernel of its own anyway
  EXPECT_DOUBLE_EQ(layer(work, with_elements, plain).forward,
                   0.4 * (8 * 4 + 2 * 15 + 3 * 7 + 3 + 15));
}

// 4.5 bytes of each quantized weight, twice, and 6 of each that autocast casts, in both passes.
TEST(LayerTimeTest, WeightsThatAreNotUsedAsTheyAreKeptTakeTimeInBothPasses) {
  MachineModel with_elements = machine();
  with_elements.element_bytes_per_s = 100;
  with_elements.stack.dequantize = {2, 2};
  ModelWork work = work_of({});
  work.quantized_elements = 20;
  work.weight_elements = 50;
  EXPECT_DOUBLE_EQ(layer(work, with_elements).forward, 1.8);
  TrainingJob mixed = plain_job();
  mixed.precision = {.torch_dtype = ParameterDtype::kFloat32, .autocast = Autocast::kBf16};
  EXPECT_DOUBLE_EQ(layer(work, with_elements, mixed).forward, 1.8 + 3);
  EXPECT_DOUBLE_EQ(layer(work, with_elements, mixed).backward, 1.8 + 3);
  mixed.precision.torch_dtype = ParameterDtype::kBfloat16;
  EXPECT_DOUBLE_EQ(layer(work, with_elements, mixed).forward, 1.8);
}

// Of integers: no weight is expanded forward; 10 x (3 x 8 + 5 x 9) values of 2 bytes are cast.
TEST(LayerTimeTest, IntegersAreMultipliedForwardAndExpandedBackward) {
  MachineModel int8 = machine();
  int8.element_bytes_per_s = 100;
  int8.stack.quantized_bytes = 1;
  int8.stack.dequantize = {0, 1.4};
  int8.stack.quantized_in = {8, 0};
  int8.stack.quantized_out = {9, 0};
  ModelWork work = work_of({{.in = 3, .out = 5}});
  EXPECT_DOUBLE_EQ(layer(work, int8).forward, 0.3) << "nothing is quantized";
  work.quantized_elements = 15;
  EXPECT_DOUBLE_EQ(layer(work, int8).forward, 0.3 + 13.8);
  EXPECT_DOUBLE_EQ(layer(work, int8).backward, 0.3 + 15 * 1.4 * 5 / 100);
}

TEST(LayerTimeTest, ALayerIsRecomputedUpToItsLastProductATileToItsFirstProducts) {
  ModelWork work = work_of({{.in = 3, .out = 5}});
  work.layer_flops.recomputed = 250;
  work.last_product = 5;
  EXPECT_DOUBLE_EQ(layer(work, machine()).recomputed, 0.25);
  TrainingJob checkpointed = plain_job();
  checkpointed.activations.gradient_checkpointing = true;
  EXPECT_DOUBLE_EQ(layer(work, machine(), checkpointed).recomputed, 0.3 - 0.1);
  EXPECT_DOUBLE_EQ(work_seconds(checkpointed, work, machine(), Recompute::kTorchEveryOtherProduct)
                       .layer.recomputed,
                   0.25);
}

// 100 and 200 kernels, and 2 x 5 of the experts, of 10 ms each.
TEST(LayerTimeTest, APassOnAGpuTakesNoLessThanItsLaunches) {
  MachineModel launched = machine();
  launched.stack.launches = {100, 200};
  launched.stack.expert_launches = 5;
  launched.stack.launch_s = 0.01;
  launched.stack.unit_s = 0.5;
  ModelWork work = work_of({{.in = 3, .out = 5}});
  work.experts = 2;
  EXPECT_DOUBLE_EQ(layer(work, launched).forward, 1.1);
  EXPECT_DOUBLE_EQ(layer(work, launched).backward, 2.1);
  TrainingJob sharded = plain_job();
  sharded.device.ranks = 2;
  sharded.parallel.strategy = Strategy::kDdp;
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).forward, 1.1) << "DDP shards nothing";
  sharded.parallel.strategy = Strategy::kFullShard;
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).forward, 1.1 + 0.5);
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).backward, 2.1 + 0.5);
  work.layer_flops.recomputed = 250;  // 0.25 s and the 0.3 s of the backward pass hide some
  EXPECT_DOUBLE_EQ(layer(work, launched).backward, 0.3 + (3.2 - 0.55));
  launched.flops_per_s = 100;  // 3 s in each pass, and 2.5 s again: long enough
  EXPECT_DOUBLE_EQ(layer(work, launched).forward, 3);
  EXPECT_DOUBLE_EQ(layer(work, launched).backward, 3);
  launched.flops_per_s = 1000;
  TrainingJob graph = plain_job();
  graph.kernels.step_graph = true;
  EXPECT_DOUBLE_EQ(layer(work, launched, graph).forward, 0.3);
}

// Kernels of 10 ms: 100 and 200 of the layer, 10 and 20 of each of two adapters; 0.25 s of each of
// three linears.
TEST(LayerTimeTest, AdaptersAndFourBitLinearsTakeTimeOfTheHost) {
  MachineModel launched = machine();
  launched.flops_per_s = INFINITY;
  launched.stack.launches = {100, 200};
  launched.stack.adapter_launches = {10, 20};
  launched.stack.launch_s = 0.01;
  launched.stack.quantized_s = 0.25;
  launched.stack.adapter_unit_s = 0.5;
  ModelWork work =
      work_of({{.in = 3, .out = 5, .count = 2, .adapter_rank = 1}, {.in = 3, .out = 5}});
  EXPECT_DOUBLE_EQ(layer(work, launched).forward, 1 + 0.2);
  work.quantized_elements = 1;
  EXPECT_DOUBLE_EQ(layer(work, launched).forward, 1 + 0.2 + 0.75);
  EXPECT_DOUBLE_EQ(layer(work, launched).backward, 2 + 0.4 + 0.75);
  TrainingJob sharded = plain_job();
  sharded.device.ranks = 2;
  sharded.parallel.strategy = Strategy::kFullShard;
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).forward, 1.95) << "fused kernels wrap none";
  sharded.kernels.fused_rms_norm = false;  // both matrices of two adapters are units
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).forward, 1.95 + 2);
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).backward, 3.15 + 2);
  sharded.parallel.strategy = Strategy::kShardGradOp;
  EXPECT_DOUBLE_EQ(layer(work, launched, sharded).forward, 1.95) << "gathered once";
}

TEST(LayerTimeTest, OnlyWeightsAreMultipliedInFloat8AndTheirOperandsAreCast) {
  MachineModel fp8 = machine();
  fp8.fp8_flops_per_s = 2000;
  fp8.element_bytes_per_s = 100;
  fp8.stack.fp8_bytes = 7;
  ModelWork work = work_of({{.in = 3, .out = 5, .trained = true}});
  // 300 FLOPs a product; 10 x 3 inputs and 3 x 5 weights, then 10 x 5 gradients, of 7 bytes.
  EXPECT_DOUBLE_EQ(layer(work, fp8).forward, 0.15 + 3.15);
  EXPECT_DOUBLE_EQ(layer(work, fp8).backward, 0.3 + 3.5);
  work.attention_flops = 1000;
  EXPECT_DOUBLE_EQ(layer(work, fp8).forward, 0.15 + 3.15 + 1);
  EXPECT_DOUBLE_EQ(work_seconds(plain_job(), work, fp8, Recompute::kJob).head.forward, 0.6);
}

TEST(LayerTimeTest, TheHeadIsAProductAndTheLossOfItsLogits) {
  const auto head = [](const MachineModel& machine, const TrainingJob& job) {
    return work_seconds(job, work_of({}), machine, Recompute::kJob).head;
  };
  MachineModel with_elements = machine();
  with_elements.element_bytes_per_s = 100;
  with_elements.compute_scale = 2;
  with_elements.stack.loss_fused = {1, 2};
  with_elements.stack.loss = {3, 4};
  TrainingJob plain = plain_job();
  plain.kernels.fused_loss = false;
  // 10 x 7 logits of 2 bytes.
  EXPECT_DOUBLE_EQ(head(with_elements, plain_job()).forward, 2 * (0.6 + 1.4));
  EXPECT_DOUBLE_EQ(head(with_elements, plain_job()).backward, 2 * (1.2 + 2.8));
  EXPECT_DOUBLE_EQ(head(with_elements, plain).forward, 2 * (0.6 + 3 * 1.4));
  MachineModel tiled = with_elements;
  tiled.stack.logit_tile_rows = 4;
  EXPECT_DOUBLE_EQ(head(tiled, plain_job()).forward, 2 * (0.6 + 1.4));
  EXPECT_DOUBLE_EQ(head(tiled, plain_job()).backward, 2 * (0.6 + 1.2 + 2.8)) << "the product again";
  MachineModel known = with_elements;
  known.head_flops_per_s = 300;
  EXPECT_DOUBLE_EQ(head(known, plain_job()).forward, 2 * 600 / 300.0);
  EXPECT_DOUBLE_EQ(head(known, plain_job()).backward, 2 * 1200 / 300.0);
  MachineModel waves = machine();
  waves.multiprocessors = 100;  // half a wave of one tile
  EXPECT_DOUBLE_EQ(head(waves, plain_job()).forward, 0.6 * (1 + 50));
}

TEST(LayerTimeTest, ProductsOfMeasuredShapesTakeTheRatesOfNearOnes) {
  MachineModel measured = machine();
  measured.products = {{.rows = 10, .out = 5, .in = 3, .flops_per_s = 600}};
  EXPECT_DOUBLE_EQ(layer(work_of({{.in = 3, .out = 5}}), measured).forward, 0.5);
  // As far from one as from the other: the geometric mean. At one of them that one weighs 400, and
  // one that is a doubling away 1 / 1.05 squared.
  measured.products = {{.rows = 8, .out = 4, .in = 4, .flops_per_s = 100},
                       {.rows = 32, .out = 4, .in = 4, .flops_per_s = 10000}};
  EXPECT_NEAR(rate_of_product(measured, 16, 4, 4), 1000, 1e-9);
  const double near = 400, far = 1 / (1.05 * 1.05);
  for (const auto& [rows, out, in] :
       {std::array{16.0, 4.0, 4.0}, std::array{8.0, 8.0, 4.0}, std::array{8.0, 4.0, 2.0}}) {
    measured.products[1] = {.rows = rows, .out = out, .in = in, .flops_per_s = 10000};
    EXPECT_NEAR(std::log10(rate_of_product(measured, 8, 4, 4)), (2 * near + 4 * far) / (near + far),
                1e-9);
  }
}

TEST(LayerTimeTest, OnMultiprocessorsTilesBeginAndEndAndTheLastWaveIsHalfFull) {
  MachineModel waves = machine();
  waves.multiprocessors = 2;
  // 256 x 256 results over 3: a depth of 3 + 128, two tiles.
  ModelWork work = work_of({{.in = 3, .out = 256}});
  work.positions = 256;
  EXPECT_DOUBLE_EQ(layer(work, waves).forward, 2 * 256 * 256 * 131 / 1000.0 * (1 + 0.5));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
