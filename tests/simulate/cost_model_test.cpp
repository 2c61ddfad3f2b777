// Costs of SmolLM2-135M, whose sizes and count of parameters its model card gives, by hand.
#include "simulate/cost_model.h"

#include <gtest/gtest.h>

#include "simulate/simulated_job.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr int64_t kParameters = 134515008, kVocabulary = 49152, kHidden = 576, kLayers = 30;
constexpr double kGib = 1 << 30, kMib = 1 << 20;

TrainingJob t4_job(int64_t ranks) {
  TrainingJob job = simulated_job();
  job.device.kind = "cuda";
  job.device.gpu_model = "Tesla-T4";
  job.device.ranks = ranks;
  job.precision.torch_dtype = ParameterDtype::kFloat16;
  return job;
}

// 2 rows of 512 tokens, of which 24 are a prompt.
TEST(SimulatedCostTest, EveryEntryHasAPromptThatBearsNoLoss) {
  TrainingJob job = simulated_job();
  EXPECT_EQ(cost_of(job).tokens.dataset, 2 * 512);
  EXPECT_EQ(cost_of(job).tokens.loss_bearing, 2 * (512 - 24));
  job.data.model_max_length = 24;
  EXPECT_EQ(cost_of(job).tokens.loss_bearing, 2) << "one token bears loss at least";
}

// Two copies of 16 bits each for weights and gradients, and two moments, divided among the ranks;
// per position 17 values of each layer, or one where the layer is computed again; logits in
// float32.
TEST(SimulatedCostTest, MemoryIsStateActivationsAndLogits) {
  TrainingJob job = simulated_job();
  job.device.ranks = 2;
  job.batches.gradient_accumulation_steps = 3;
  constexpr double kState = 4 * 2 * kParameters / 2.0;
  constexpr double kPositions = 2 * 512;  // of a micro-batch of one rank
  constexpr double kLogits = kPositions * kVocabulary * 4;
  job.activations.gradient_checkpointing = false;
  const JobCost kept = cost_of(job);
  EXPECT_DOUBLE_EQ(kept.device_bytes, kState + kPositions * kHidden * 17 * kLayers * 2 + kLogits);
  EXPECT_DOUBLE_EQ(kept.host_bytes, 2 * (kGib + kept.device_bytes));
  job.activations.gradient_checkpointing = true;
  EXPECT_DOUBLE_EQ(cost_of(job).device_bytes,
                   kState + kPositions * kHidden * (kLayers + 17) * 2 + kLogits);
  job.device.kind = "cuda";
  EXPECT_DOUBLE_EQ(cost_of(job).host_bytes, 2 * kGib);
  EXPECT_EQ(cost_of(job).device_limit_bytes, 0) << "nothing is known of a GPU without a name";
}

// A table that is only looked up is multiplied with nothing: the output projection stands for it.
TEST(SimulatedCostTest, AnEmbeddingOfItsOwnCostsParametersAndNoProducts) {
  TrainingJob job = simulated_job();
  const JobCost tied = cost_of(job);
  EXPECT_EQ(tied.begin.parameters_embedding, 0);
  job.model.hf_config["tie_word_embeddings"] = false;
  const JobCost untied = cost_of(job);
  EXPECT_EQ(untied.begin.parameters_embedding, kVocabulary * kHidden);
  EXPECT_EQ(untied.begin.parameters_total, kParameters + kVocabulary * kHidden);
  EXPECT_DOUBLE_EQ(untied.flops_per_device, tied.flops_per_device);
  job.model.hf_config.erase("tie_word_embeddings");
  EXPECT_EQ(cost_of(job).begin.parameters_embedding, kVocabulary * kHidden)
      << "LlamaConfig does not tie by default";
}

// Factors of rank r for two projections of each layer, from hidden to hidden: 2 * 2 * r * hidden.
TEST(SimulatedCostTest, AdaptersTrainTwoFactorsOfTwoProjectionsOfEachLayer) {
  TrainingJob job = simulated_job();
  job.tuning = TuningMethod::kLora;
  const auto trained = [&job] { return cost_of(job).begin.parameters_trainable; };
  EXPECT_EQ(trained(), 2 * 2 * 4 * kHidden * kLayers) << "rank 4 where the space has none";
  job.inputs["r"] = 16;
  EXPECT_EQ(trained(), 2 * 2 * 16 * kHidden * kLayers);
  job.inputs["r"] = 0;
  EXPECT_EQ(trained(), 2 * 2 * kHidden * kLayers);
  job.inputs["r"] = 1 << 20;
  EXPECT_EQ(trained(), kParameters);
  // Frozen weights have no gradients of their own: 2 N forward, 2 N backward per position.
  job.inputs["r"] = 16;
  const double trains = 2.0 * (2 * 2 * 16 * kHidden * kLayers) * 1024;
  job.activations.gradient_checkpointing = false;
  const double attention = 3 * 2.0 * 1024 * 512 * kHidden * kLayers;
  EXPECT_DOUBLE_EQ(cost_of(job).flops_per_device, 4.0 * kParameters * 1024 + attention + trains);
}

// Per row, causal attention takes 2 * length^2 * hidden FLOPs in each layer.
TEST(SimulatedCostTest, SizesHaveTheNamesOfTheirFamily) {
  TrainingJob job = simulated_job();
  job.model.hf_config = {{"model_type", "gpt_bigcode"},
                         {"vocab_size", 512},
                         {"n_embd", 64},
                         {"n_layer", 3},
                         {"n_head", 4},
                         {"n_positions", 512},
                         {"hidden_size", nullptr}};
  const JobCost cost = cost_of(job);
  EXPECT_EQ(cost.attention_flops, 2.0 * 2 * 512 * 512 * 64 * 3);
  EXPECT_EQ(cost.vocabulary, 512);
  EXPECT_EQ(cost.begin.parameters_embedding, 512 * 64) << "positions; GPTBigCodeConfig ties";
}

// config/gpus.yaml: programs may use 14.56 GiB of a T4. config/stacks.yaml: a process takes 500
// MiB, and 400 MiB more where there are others.
TEST(SimulatedCostTest, AGpuHasRoomForWhatItsProcessLeaves) {
  const double alone = 0.985 * 14.56 * kGib - 500 * kMib;
  EXPECT_NEAR(cost_of(t4_job(1)).device_limit_bytes, alone, 1);
  EXPECT_NEAR(cost_of(t4_job(2)).device_limit_bytes, alone - 400 * kMib, 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
