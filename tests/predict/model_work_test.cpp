#include "predict/model_work.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

// Hidden 8; 4 heads of 4 with a state of 5 in one group; a shared MLP of 16. in_proj gives z (16),
// x, b and c (16 + 5 + 5) and dt (4).
TEST(ModelWorkTest, AScanCountsSevenFlopsForEachValueOfItsState) {
  TrainingJob job;
  job.model.name = "hybrid";
  job.model.hf_config = {{"model_type", "granitemoehybrid"},
                         {"vocab_size", 10},
                         {"hidden_size", 8},
                         {"num_hidden_layers", 2},
                         {"num_attention_heads", 2},
                         {"num_key_value_heads", 1},
                         {"intermediate_size", 16},
                         {"shared_intermediate_size", 16},
                         {"num_local_experts", 0},
                         {"mamba_n_heads", 4},
                         {"mamba_d_head", 4},
                         {"mamba_d_state", 5},
                         {"mamba_expand", 2},
                         {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.batches.per_device_batch_size = 2;
  job.activations.gradient_checkpointing = false;
  constexpr double kPositions = 64;
  constexpr double kProducts = 2 * kPositions * (8 * 46 + 16 * 8 + 8 * 32 + 16 * 8);
  constexpr double kScan = 7 * kPositions * 4 * 4 * 5;
  const UnitFlops flops = model_work(job, Recompute::kJob).layer_flops;
  EXPECT_DOUBLE_EQ(flops.forward, kProducts + kScan);
  EXPECT_DOUBLE_EQ(flops.backward, 2 * kProducts + 2 * kScan);
}

// A model whose layers are half of one kind and half of another one has the mean of both, and the
// most of what is there once.
TEST(ModelWorkTest, LayersThatDifferCountAsTheirMean) {
  const auto work = [](const Json& types, bool checkpointing) {
    TrainingJob job;
    job.model.name = "hybrid" + types.dump();
    job.model.hf_config = {{"model_type", "granitemoehybrid"},
                           {"vocab_size", 10},
                           {"hidden_size", 8},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 2},
                           {"num_key_value_heads", 1},
                           {"intermediate_size", 16},
                           {"shared_intermediate_size", 16},
                           {"num_local_experts", 4},
                           {"num_experts_per_tok", 2},
                           {"mamba_n_heads", 4},
                           {"mamba_d_head", 4},
                           {"mamba_d_state", 5},
                           {"max_position_embeddings", 64},
                           {"position_embedding_type", "rope"},
                           {"layer_types", types}};
    job.data.model_max_length = 32;
    job.kernels.flash_attention = false;
    job.activations.gradient_checkpointing = checkpointing;
    return model_work(job, Recompute::kJob);
  };
  for (const bool checkpointing : {true, false}) {
    const ModelWork mamba = work({"mamba", "mamba"}, checkpointing);
    const ModelWork attention = work({"attention", "attention"}, checkpointing);
    const ModelWork mixed = work({"mamba", "attention"}, checkpointing);
    for (double UnitFlops::*pass :
         {&UnitFlops::forward, &UnitFlops::recomputed, &UnitFlops::backward})
      EXPECT_DOUBLE_EQ(mixed.layer_flops.*pass,
                       (mamba.layer_flops.*pass + attention.layer_flops.*pass) / 2);
    for (double ModelWork::*figure :
         {&ModelWork::kept_per_position, &ModelWork::kept_by_engine, &ModelWork::scores,
          &ModelWork::kept_when_recomputed, &ModelWork::attention_flops, &ModelWork::scan_flops,
          &ModelWork::rotated, &ModelWork::activated, &ModelWork::experts,
          &ModelWork::weight_elements})
      EXPECT_DOUBLE_EQ(mixed.*figure, (mamba.*figure + attention.*figure) / 2);
    for (double ModelWork::*figure :
         {&ModelWork::kept_at_most, &ModelWork::backward_values, &ModelWork::kept_by_mlp})
      EXPECT_EQ(mixed.*figure, std::max(mamba.*figure, attention.*figure));
    EXPECT_EQ(mixed.positions, mamba.positions);
    EXPECT_GT(mixed.scan_flops * mixed.attention_flops * mixed.scores, 0);
  }
}

// Hidden 8, an MLP of 16. Frozen, it keeps gate and up, which their product's gradient needs, and
// neither its input nor the product. In tiles it keeps its input alone.
TEST(ModelWorkTest, AFrozenMlpKeepsWhatItsProductNeedsAndOneInTilesItsInput) {
  TrainingJob job;
  job.model.name = "small";
  job.model.hf_config = {{"model_type", "llama"},    {"vocab_size", 10},
                         {"hidden_size", 8},         {"num_hidden_layers", 2},
                         {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                         {"intermediate_size", 16},  {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.activations.gradient_checkpointing = false;
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"q_proj"}};
  const auto kept = [&job](int64_t tiles) {
    job.activations.mlp_tiles = tiles;
    return model_work(job, Recompute::kJob);
  };
  const ModelWork whole = kept(1), tiled = kept(2);
  EXPECT_EQ(whole.activated, 16);
  EXPECT_EQ(whole.kept_by_engine - tiled.kept_by_engine, 2 * 16 - 8);
  // With the input of the MLP's norm, and what the norm makes of it.
  EXPECT_EQ(whole.kept_by_mlp, 8 + 2 * 16);
  EXPECT_EQ(tiled.kept_by_mlp, 2 * 8);
  job.lora.target_modules = {"q_proj", "down_proj"};
  EXPECT_EQ(kept(1).kept_by_engine - whole.kept_by_engine, 16) << "the product is down's input";
  EXPECT_EQ(kept(1).kept_by_mlp - whole.kept_by_mlp, 16);
  job.lora.target_modules = {"q_proj", "o_proj"};
  EXPECT_EQ(kept(1).kept_by_engine, whole.kept_by_engine) << "attention keeps its result anyway";
  job.lora.dropout = 0.1;
  EXPECT_EQ(kept(1).kept_by_engine, whole.kept_by_engine + 8) << "what dropout left of it, too";
}

// Of hidden 8 and an MLP of 16, rank 4, 64 positions. A magnitude keeps what it multiplies, and its
// dropout has a product of its own. Norms are one product of the factors for all positions.
TEST(ModelWorkTest, MagnitudesOfDoraKeepTheirOutputsAndMultiplyTwiceUnderDropout) {
  TrainingJob job;
  job.model.name = "small";
  job.model.hf_config = {{"model_type", "llama"},    {"vocab_size", 10},
                         {"hidden_size", 8},         {"num_hidden_layers", 2},
                         {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                         {"intermediate_size", 16},  {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.batches.per_device_batch_size = 2;
  job.activations.gradient_checkpointing = true;
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"up_proj"}};
  const auto work = [&job](bool dora, double dropout) {
    job.lora.use_dora = dora;
    job.lora.dropout = dropout;
    return model_work(job, Recompute::kJob);
  };
  constexpr double kProduct = 2 * 64 * 8 * 16, kNorms = 2 * 4 * 8 * 16;
  const ModelWork lora = work(false, 0), dora = work(true, 0), dropped = work(true, 0.1);
  EXPECT_EQ(dora.kept_by_engine - lora.kept_by_engine, 16);
  EXPECT_EQ(dora.layer.trained.size() - lora.layer.trained.size(), 1u);
  EXPECT_EQ(dora.layer.trained.back().sizes, std::vector<int64_t>{16});
  EXPECT_DOUBLE_EQ(dora.layer_flops.forward - lora.layer_flops.forward, kNorms);
  EXPECT_DOUBLE_EQ(dropped.layer_flops.forward - dora.layer_flops.forward, kProduct);
  EXPECT_DOUBLE_EQ(dropped.layer_flops.backward - dora.layer_flops.backward, kProduct);
  EXPECT_DOUBLE_EQ(dora.layer_flops.recomputed - lora.layer_flops.recomputed, kNorms);
  job.lora.target_modules = {"down_proj"};
  EXPECT_DOUBLE_EQ(work(true, 0).layer_flops.recomputed, work(true, 0).layer_flops.forward)
      << "a recomputation has the layer's last product, whose output the magnitude multiplies";
}

// 10 tokens, hidden 8, 2 layers; 32 positions. Ranks of a layer are those of the mean layer.
TEST(ModelWorkTest, AdaptersOfTokensAndOfSeveralRanksAreCounted) {
  TrainingJob job;
  job.model.name = "small";
  job.model.hf_config = {{"model_type", "llama"},    {"vocab_size", 10},
                         {"hidden_size", 8},         {"num_hidden_layers", 2},
                         {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                         {"intermediate_size", 16},  {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"q_proj"}};
  const ModelWork plain = model_work(job, Recompute::kJob);
  EXPECT_DOUBLE_EQ(plain.head_flops.forward, 2 * 10 * 8 * 32);
  job.lora.rank = 8;
  const ModelWork wide = model_work(job, Recompute::kJob);
  constexpr double kFourMore = 2 * 4 * (8 + 8) * 32;
  EXPECT_DOUBLE_EQ(wide.layer_flops.forward - plain.layer_flops.forward, kFourMore);
  EXPECT_DOUBLE_EQ(wide.layer_flops.backward - plain.layer_flops.backward, 2 * kFourMore);
  job.lora.rank = 4;
  job.lora.target_modules = {"q_proj", "embed_tokens", "lm_head"};
  job.lora.rank_pattern = {{"layers.0.self_attn.q_proj", 2}, {"lm_head", 3}};
  const ModelWork work = model_work(job, Recompute::kJob);
  const auto& trained = work.root.trained;
  ASSERT_EQ(trained.size(), 4u);
  EXPECT_EQ(trained[0].sizes, (std::vector<int64_t>{4, 10})) << "A of the embedding";
  EXPECT_EQ(trained[1].sizes, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(trained[2].sizes, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(trained[3].sizes, (std::vector<int64_t>{10, 3}));
  EXPECT_EQ(work.layer.trained[0].sizes, (std::vector<int64_t>{3, 8})) << "of 2 and 4";
  constexpr double kAdapter = 2 * 3 * (8 + 10) * 32;
  EXPECT_DOUBLE_EQ(work.head_flops.forward - plain.head_flops.forward, kAdapter);
  EXPECT_DOUBLE_EQ(work.head_flops.backward - plain.head_flops.backward, 2 * kAdapter);
}

// 10 tokens, hidden 8. A tied output projection is a matrix of its own beside an embedding that
// trains.
TEST(ModelWorkTest, ModulesThatTrainWholeAreOfTheModelsDtype) {
  TrainingJob job;
  job.model.name = "small";
  job.model.hf_config = {{"model_type", "llama"},      {"vocab_size", 10},
                         {"hidden_size", 8},           {"num_hidden_layers", 2},
                         {"num_attention_heads", 2},   {"num_key_value_heads", 1},
                         {"intermediate_size", 16},    {"max_position_embeddings", 64},
                         {"tie_word_embeddings", true}};
  job.data.model_max_length = 32;
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"q_proj", "down_proj"}};
  const auto work = [&job](std::vector<std::string> modules) {
    job.lora.modules_to_save = std::move(modules);
    return model_work(job, Recompute::kJob);
  };
  const ModelWork none = work({}), embedding = work({"embed_tokens"}), head = work({"lm_head"});
  const ModelWork both = work({"embed_tokens", "lm_head"}), down = work({"down_proj"});
  EXPECT_EQ(none.root.trained.size(), 0u);
  for (const auto& [one, frozen] : {std::pair{&embedding, 2u}, {&head, 2u}, {&both, 1u}}) {
    EXPECT_EQ(one->root.frozen.size(), frozen) << "the final norm, and what does not train";
    EXPECT_EQ(one->root.trained.size(), 3 - frozen);
    EXPECT_EQ(one->root.trained.back().sizes, (std::vector<int64_t>{10, 8}));
  }
  EXPECT_EQ(embedding.head_flops.backward, none.head_flops.backward);
  EXPECT_EQ(head.head_flops.backward, 2 * none.head_flops.backward);
  ASSERT_EQ(none.layer.trained.size(), 4u);
  ASSERT_EQ(down.layer.trained.size(), 3u) << "a whole matrix, and one adapter";
  EXPECT_EQ(down.kept_by_engine, none.kept_by_engine);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
