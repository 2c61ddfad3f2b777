// Memory of other programs (config/stacks.yaml), against figures by hand from the shapes of
// Llama 3.1 8B, and against rows of bench/truth/published.csv.
#include <gtest/gtest.h>

#include "sftbench/base/cpu_instructions.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr double kLayers = 32, kHidden = 4096, kVocabulary = 128256;
// Four values of the hidden width, queries and their mix, keys and values, three of the inner
// width.
constexpr double kKept = 4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336;

TrainingJob job_of(const std::string& model, TuningMethod tuning) {
  TrainingJob job;
  job.model.name = model;
  job.model.hf_config = Catalog::shipped().models.find(model)->hf_config;
  job.tuning = tuning;
  job.device.kind = "cuda";
  job.lora.rank = 16;
  job.lora.target_modules = {"q_proj"};
  job.precision.torch_dtype = ParameterDtype::kBfloat16;
  job.data.model_max_length = 1024;
  job.batches.per_device_batch_size = 2;
  job.kernels.fused_loss = job.kernels.fused_rms_norm = job.kernels.fused_rope = false;
  return job;
}

TrainingJob llama(bool checkpointing) {
  TrainingJob job = job_of("llama3.1-8b", TuningMethod::kLora);
  job.activations.gradient_checkpointing = checkpointing;
  return job;
}

MemoryCost memory_of(const TrainingJob& job, const std::string& stack = "fms-hf-tuning") {
  MachineModel machine = {1e15, 1e12, 80e9, {1e-6, 100e9}, {1e-5, 10e9}, true};
  machine.stack = StackModel::named(stack);
  return predict_step(job, machine).memory;
}

TEST(StackMemoryTest, AdaptersAreInFloat32BesideAModelInBfloat16) {
  constexpr double kElements = kLayers * 16 * (kHidden + kHidden);
  const MemoryCost other = memory_of(llama(true));
  const MemoryCost own = memory_of(llama(true), "sftbench");
  EXPECT_DOUBLE_EQ(other.parameters - own.parameters, 2 * kElements);
  EXPECT_DOUBLE_EQ(other.gradients, 4 * kElements);
  EXPECT_DOUBLE_EQ(other.optimizer_state, 8 * kElements);
}

TEST(StackMemoryTest, TheLossHoldsThreeFloat32ValuesOfALogitButInGptBigCode) {
  EXPECT_DOUBLE_EQ(memory_of(llama(true)).logits, 12.0 * 2048 * kVocabulary);
  TrainingJob narrow = job_of("granite-20b-v2", TuningMethod::kFull);
  EXPECT_DOUBLE_EQ(memory_of(narrow).logits, 8.0 * 2048 * 49152);
}

// All but the inputs of the MLP's products, which have no trained weight.
TEST(StackMemoryTest, LayersThatWaitKeepNoGradients) {
  const MemoryCost memory = memory_of(llama(false));
  const double value = 2.0 * 2048;
  EXPECT_DOUBLE_EQ(memory.activations,
                   kLayers * value * 1.75 * (kKept - kHidden - 14336) + 2 * value * kHidden);
}

TEST(StackMemoryTest, EagerAttentionHoldsTheScoresOfEveryLayerOrOfOne) {
  constexpr double kScores = 2.0 * 1024 * 1024 * 32;
  TrainingJob all = llama(false);
  const MemoryCost tiles = memory_of(all);
  all.kernels.flash_attention = false;
  EXPECT_DOUBLE_EQ(memory_of(all).activations - tiles.activations, kLayers * 6 * kScores);

  TrainingJob one = llama(true);
  one.kernels.flash_attention = false;
  one.data.model_max_length = 8192;
  one.batches.per_device_batch_size = 1;
  const MemoryCost memory = memory_of(one);
  const double inputs = kLayers * 2 * 8192 * kHidden;
  EXPECT_DOUBLE_EQ(memory.activations + memory.logits - inputs,
                   2.0 * 8192 * 2 * kKept + (6 + 8) * 32.0 * 8192 * 8192)
      << "more than the loss";

  one.parallel.context_ranks = 2;
  one.device.ranks = 2;
  EXPECT_LT(memory_of(one).activations, 10e9) << "rows that ranks divide have tiles";
}

TEST(StackMemoryTest, DividedRowsHoldTheBlocksOfTheRingBesideHalfOfThem) {
  TrainingJob half = llama(false);
  half.device.ranks = 2;
  half.parallel.strategy = Strategy::kDdp;
  half.data.model_max_length = 512;
  TrainingJob divided = half;
  divided.data.model_max_length = 1024;
  divided.parallel.context_ranks = 2;
  const double blocks = context_cost(divided, 2).backward_buffers;
  EXPECT_GT(blocks, 0);
  EXPECT_DOUBLE_EQ(memory_of(divided).activations - memory_of(half).activations, blocks);
}

TEST(StackMemoryTest, AttentionWithSinksHasTilesInThisProgramAlone) {
  TrainingJob job = job_of("gpt-oss-20b", TuningMethod::kLora);
  job.activations.gradient_checkpointing = false;
  TrainingJob eager = job;
  eager.kernels.flash_attention = false;
  EXPECT_EQ(memory_of(eager, "sftbench").total(), memory_of(job, "sftbench").total());
  EXPECT_LT(memory_of(job).total(), memory_of(eager).total());
}

// host_peak_tensors of two steps of SmolLM2 135M on processors, LoRA, 2 x 512: 2026-11-28, and with
// AMX, whose chunks of logits are larger, 2026-12-01.
TEST(StackMemoryTest, EagerAttentionOfThisProgramIsWhatWasMeasured) {
  TrainingJob job = job_of("smollm2-135m", TuningMethod::kLora);
  job.device.kind = "cpu";
  job.lora.rank = 4;
  job.lora.target_modules = {"q_proj", "v_proj"};
  job.data.model_max_length = 512;
  job.kernels = {};
  job.kernels.flash_attention = false;
  const auto expect_measured = [&](bool checkpointing, double without_amx, double with_amx) {
    job.activations.gradient_checkpointing = checkpointing;
    const double measured = cpu_instructions() == CpuInstructions::kAmx ? with_amx : without_amx;
    EXPECT_NEAR(memory_of(job, "sftbench").total(), measured, 0.01 * measured) << checkpointing;
  };
  expect_measured(true, 385307904, 449205504);
  expect_measured(false, 1559373056, 1623270656);
}

TEST(StackMemoryTest, BitsandbytesWidensTheStreamWhereNothingIsSharded) {
  TrainingJob job = llama(true);
  job.tuning = TuningMethod::kGptqLora;
  job.precision.torch_dtype = ParameterDtype::kFloat16;
  EXPECT_DOUBLE_EQ(memory_of(job, "transformers-bitsandbytes").activations -
                       memory_of(job, "transformers").activations,
                   2 * kLayers * 2048 * kHidden);
  job.device.ranks = 8;
  job.parallel.strategy = Strategy::kFullShard;
  EXPECT_EQ(memory_of(job, "transformers-bitsandbytes").activations,
            memory_of(job, "transformers").activations);
}

// Bytes of Llama 3.1 8B's 8,030,261,248 parameters: 2 of a weight, 4 of its master, 8 of AdamW's
// states, 2 of a gradient.
class ZeroMemoryTest : public testing::Test {
 protected:
  static constexpr double kParameters = 8'030'261'248, kBucket = 2 * 5e8;

  static MemoryCost memory(Strategy strategy, int64_t ranks, bool offloads = false) {
    TrainingJob job = job_of("llama3.1-8b", TuningMethod::kFull);
    job.device.ranks = ranks;
    job.parallel.strategy = strategy;
    job.optimizer.offload_state = offloads;
    return memory_of(job, "deepspeed");
  }
};

TEST_F(ZeroMemoryTest, OneGpuHoldsSixteenBytesOfAParameter) {
  const MemoryCost memory = ZeroMemoryTest::memory(Strategy::kDdp, 1);
  EXPECT_DOUBLE_EQ(memory.parameters, 2 * kParameters);
  EXPECT_DOUBLE_EQ(memory.optimizer_state, 12 * kParameters);
  EXPECT_DOUBLE_EQ(memory.gradients, 2 * kParameters);
  EXPECT_DOUBLE_EQ(memory.update, 8 * kParameters) << "a gradient in float32, and a root";
  EXPECT_DOUBLE_EQ(memory.gathered, kBucket);
}

TEST_F(ZeroMemoryTest, Stage1DividesStatesAndStage2GradientsToo) {
  const MemoryCost first = memory(Strategy::kShardOptim, 8),
                   second = memory(Strategy::kShardGradOp, 8);
  for (const MemoryCost& stage : {first, second}) {
    EXPECT_DOUBLE_EQ(stage.parameters, 2 * kParameters);
    EXPECT_DOUBLE_EQ(stage.optimizer_state, 12 * kParameters / 8);
    EXPECT_DOUBLE_EQ(stage.update, 8 * kParameters / 8);
    EXPECT_DOUBLE_EQ(stage.gathered, kBucket);
  }
  EXPECT_DOUBLE_EQ(first.gradients, 2 * kParameters);
  EXPECT_DOUBLE_EQ(second.gradients, 2 * kParameters / 8);
}

// Shards are padded to whole ranks and 256 bytes.
TEST_F(ZeroMemoryTest, Stage3DividesWeightsToo) {
  const MemoryCost third = memory(Strategy::kFullShard, 8);
  EXPECT_NEAR(third.parameters, 2 * kParameters / 8, 1e6);
  EXPECT_NEAR(third.optimizer_state, 12 * kParameters / 8, 1e6);
  EXPECT_NEAR(third.gradients, 2 * kParameters / 8, 1e6);
  EXPECT_EQ(third.freed_gradients, 0) << "one buffer holds all of them";
  EXPECT_GE(third.gathered, 2e9 + kBucket) << "a billion live parameters";
  EXPECT_DOUBLE_EQ(memory(Strategy::kFullShard, 2).update, 8e9) << "a billion elements at a time";
}

// One backward pass may free each gradient once it is used, several add to it.
TEST_F(ZeroMemoryTest, GradientsAreFreedWhereNoFurtherMicroBatchAddsToThem) {
  TrainingJob job = job_of("llama3.1-8b", TuningMethod::kFull);
  const MemoryCost one = memory_of(job, "transformers");
  job.batches.gradient_accumulation_steps = 2;
  EXPECT_EQ(memory_of(job, "transformers").freed_gradients, 0);
  EXPECT_EQ(one.freed_gradients, one.gradients);
}

// GPT-BigCode has LayerNorm, which has a kernel of its own anyway.
// torch.optim's foreach takes the square root of all second moments at once. bitsandbytes and fused
// kernels update tensor by tensor.
TEST(StackMemoryTest, OnlyForeachHoldsCopiesOfWhatItUpdates) {
  const auto update = [](OptimizerKind kind) {
    TrainingJob job = job_of("llama3.1-8b", TuningMethod::kFull);
    job.optimizer.kind = kind;
    return memory_of(job, "transformers").update;
  };
  EXPECT_DOUBLE_EQ(update(OptimizerKind::kAdamwTorch), 2 * 8030261248.0);
  EXPECT_DOUBLE_EQ(update(OptimizerKind::kRmsprop), 2 * 8030261248.0);
  EXPECT_EQ(update(OptimizerKind::kAdamwTorchFused), 0);
  EXPECT_EQ(update(OptimizerKind::kAdamwBnb8bit), 0);
}

// The first row of torchtune in published.csv: 18.9 GiB allocated with a compiled model, whose
// layers keep less.
TEST(StackMemoryTest, TorchtuneFreesEachGradientInTheBackwardPass) {
  TrainingJob job = job_of("llama3.1-8b", TuningMethod::kFull);
  job.optimizer.kind = OptimizerKind::kPagedAdamw8bit;
  job.data.model_max_length = 2048;
  job.activations.gradient_checkpointing = true;
  const MemoryCost memory = memory_of(job, "torchtune-in-backward");
  EXPECT_DOUBLE_EQ(memory.gradients, 2 * kVocabulary * kHidden) << "that of the head waits";
  const double all = memory_of(job, "torchtune").gradients;
  EXPECT_DOUBLE_EQ(all, 2 * 8030261248.0);
  EXPECT_EQ(memory.update, 0);
}

TEST(StackMemoryTest, FusedNormsChangeNothingWhereThereIsNoRmsNorm) {
  for (const bool checkpointing : {true, false}) {
    for (const auto& [model, alike] :
         {std::pair("granite-20b-v2", true), std::pair("llama3.1-8b", false)}) {
      TrainingJob job = job_of(model, TuningMethod::kLora);
      job.lora.target_modules = {alike ? "c_attn" : "q_proj"};
      job.activations.gradient_checkpointing = checkpointing;
      job.data.model_max_length = 128;
      job.kernels.flash_attention = false;
      const double plain = memory_of(job, "transformers").activations;
      job.kernels.fused_rms_norm = true;
      EXPECT_EQ(memory_of(job, "transformers").activations == plain, alike || checkpointing)
          << model << checkpointing;
    }
  }
}

TEST_F(ZeroMemoryTest, TheHostTakesMastersStatesAndGradients) {
  const MemoryCost offloaded = memory(Strategy::kShardGradOp, 8, /*offloads=*/true);
  EXPECT_DOUBLE_EQ(offloaded.parameters, 2 * kParameters);
  EXPECT_EQ(offloaded.optimizer_state, 0);
  EXPECT_EQ(offloaded.update, 0);
  EXPECT_DOUBLE_EQ(offloaded.offloaded_state, 14 * kParameters / 8);
  constexpr double kRoot = 1'050'677'248;
  EXPECT_DOUBLE_EQ(offloaded.gradients, 2 * 2 * kRoot / 8) << "a unit that leaves, and the next";
}

TEST(StackMemoryTest, UnslothsLossWritesItsGradientOverTheLogits) {
  EXPECT_DOUBLE_EQ(memory_of(llama(true), "unsloth").logits, 4.0 * 2048 * kVocabulary);
}

// 4096 positions by 32768 words at most. bench/predict/trl_head.py finds the same in trl's code.
TEST(StackMemoryTest, TrlHoldsATileOfLogitsAndGradientsInFloat32) {
  const MemoryCost memory = memory_of(llama(true), "transformers-trl");
  EXPECT_DOUBLE_EQ(memory.logits, 2.0 * 2048 * 32768 + 8.0 * 2048 * kHidden);
  TrainingJob longer = job_of("llama3.1-8b", TuningMethod::kFull);
  longer.activations.gradient_checkpointing = true;
  longer.data.model_max_length = 4096;
  EXPECT_DOUBLE_EQ(memory_of(longer, "transformers-trl").logits,
                   2.0 * 4096 * 32768 + 8.0 * 8192 * kHidden + 6.0 * kVocabulary * kHidden);
  EXPECT_DOUBLE_EQ(memory_of(longer, "transformers").logits, 12.0 * 8192 * kVocabulary);
}

// Whole over two micro-batches: of blocks, with what of them is frozen, and no shards beside them.
TEST(StackMemoryTest, LitgptsBlocksHaveGradientsOfAllTheirParameters) {
  TrainingJob job = llama(true);
  job.device.ranks = 2;
  job.parallel.strategy = Strategy::kFullShard;
  job.batches.gradient_accumulation_steps = 2;
  const MemoryCost torch = memory_of(job, "torch"), litgpt = memory_of(job, "litgpt");
  constexpr double kBlocks =
      kLayers * (2 * kHidden * kHidden + 2 * kHidden * 1024 + 3 * kHidden * 14336 + 2 * kHidden);
  EXPECT_NEAR(litgpt.gathered - torch.gathered, 2 * kBlocks, 0.01 * kBlocks);
  EXPECT_DOUBLE_EQ(litgpt.freed_gradients, litgpt.gradients);
  EXPECT_NEAR(litgpt.total() - torch.total(), 2 * kBlocks, 0.01 * kBlocks);
  job.batches.gradient_accumulation_steps = 1;
  EXPECT_LT(memory_of(job, "litgpt").total(), litgpt.total() - kBlocks);
}

// Rows of litgpt on A100 of 40 GB in published.csv, GiB: Llama 7B on two, 13B on four.
TEST(StackMemoryTest, LitgptsRowsUnderFsdpAreNearWhatWasPublished) {
  struct Row {
    const char* model;
    int64_t gpus, batch;
    double gib;
  };
  for (const Row& row : {Row{"llama-7b", 2, 1, 20.6567}, Row{"llama-7b", 2, 4, 21.7836},
                         Row{"llama-13b", 4, 1, 33.1271}}) {
    TrainingJob job = job_of(row.model, TuningMethod::kLora);
    job.lora.rank = 8;
    job.lora.target_modules = {"q_proj", "v_proj"};
    job.activations.gradient_checkpointing = true;
    job.device.ranks = row.gpus;
    job.parallel.strategy = Strategy::kFullShard;
    job.data.model_max_length = 1304;
    job.batches.per_device_batch_size = row.batch;
    job.batches.gradient_accumulation_steps = 128 / row.gpus / row.batch;
    const double gib = row.gib * (1 << 30);
    EXPECT_NEAR(memory_of(job, "litgpt").total(), gib, 0.1 * gib) << row.model << row.batch;
  }
}

TEST(StackMemoryTest, FreeBlocksAreBesideTheTotal) {
  const MemoryCost memory = memory_of(llama(true), "transformers");
  EXPECT_DOUBLE_EQ(memory.fragmentation, 1.16 * (memory.activations + memory.logits));
  EXPECT_EQ(memory.total(), memory_of(llama(true)).total());
  EXPECT_EQ(memory_of(llama(true), "sftbench").fragmentation, 0);
}

// fms-acceleration's rows of bitsandbytes on one A100 in published.csv, GiB.
TEST(StackMemoryTest, FourBitRowsAreNearWhatWasPublished) {
  struct Row {
    const char* model;
    const char* stack;
    int64_t batch;
    double gib;
  };
  for (const Row& row : {Row{"mistral-7b-v0.1", "transformers-bitsandbytes", 4, 19.2498},
                         Row{"mistral-7b-v0.1", "transformers-bitsandbytes", 8, 34.4614},
                         Row{"mistral-7b-v0.1", "fms-hf-tuning", 4, 15.2493},
                         Row{"mistral-7b-v0.1", "fms-hf-tuning", 8, 26.4609},
                         Row{"llama2-70b", "fms-hf-tuning", 4, 63.4476}}) {
    TrainingJob job = job_of(row.model, TuningMethod::kGptqLora);
    job.precision.torch_dtype = ParameterDtype::kFloat16;
    job.lora.target_modules = {"q_proj", "k_proj", "v_proj", "o_proj"};
    job.data.model_max_length = 4096;
    job.batches.per_device_batch_size = row.batch;
    job.activations.gradient_checkpointing = true;
    EXPECT_NEAR(memory_of(job, row.stack).total() / (1 << 30), row.gib, 0.09 * row.gib)
        << row.model << " " << row.stack << " " << row.batch;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
