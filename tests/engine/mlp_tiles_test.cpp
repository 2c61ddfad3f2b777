// MLPs in tiles train as whole ones do, and hold less.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/activation_checkpoint.h"
#include "engine/ranks_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TrainingJob tiled(TrainingJob job, int64_t tiles) {
  job.activations.mlp_tiles = tiles;
  return job;
}

// In two tiles, and in seven, which rows do not divide.
void expect_tiles_equal_whole(const TrainingJob& job) {
  const Outcome whole = train_to_the_end(job, alone());
  for (const int64_t tiles : {2, 7}) {
    SCOPED_TRACE(tiles);
    expect_equal(train_to_the_end(tiled(job, tiles), alone()), whole);
  }
}

TEST(MlpTiles, TrainEveryFamilyAsWholeMlpsDo) {
  for (const char* model :
       {"llama", "llama_all", "mistral", "granite", "qwen2", "qwen3", "bloom", "gpt_bigcode"}) {
    SCOPED_TRACE(model);
    expect_tiles_equal_whole(job_of(RanksCase{.model = model, .ranks = 1}));
  }
}

TEST(MlpTiles, TrainDrawnFamiliesAsWholeMlpsDo) {
  for (const std::string& model : drawn_models()) {
    SCOPED_TRACE(model);
    TrainingJob job = job_of(RanksCase{.model = model, .ranks = 1});
    if (parse_model_config(job.model.hf_config).experts) continue;
    expect_tiles_equal_whole(job);
    job.activations.gradient_checkpointing = true;
    expect_tiles_equal_whole(job);
  }
}

// Granite-4.0-h without experts: a shared MLP, behind Mamba-2 and attention.
TEST(MlpTiles, TrainHybridsWithoutExpertsAsWholeMlpsDo) {
  TrainingJob job = job_of(RanksCase{.model = "granitemoehybrid", .ranks = 1});
  job.model.weights_directory.clear();
  job.model.hf_config.update({{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  expect_tiles_equal_whole(job);
}

TEST(MlpTiles, TrainAsWholeMlpsDoUnderEveryCheckpointing) {
  for (const char* model : {"llama", "gpt_bigcode"}) {
    for (const bool reentrant : {false, true}) {
      SCOPED_TRACE(std::string(model) + (reentrant ? " reentrant" : ""));
      expect_tiles_equal_whole(job_of(RanksCase{.model = model,
                                                .ranks = 1,
                                                .accumulation = 2,
                                                .checkpointing = true,
                                                .reentrant = reentrant}));
    }
  }
}

TEST(MlpTiles, TrainAdaptersAsWholeMlpsDo) {
  for (const bool checkpointing : {false, true}) {
    TrainingJob job = job_of(
        RanksCase{.ranks = 1, .tuning = "lora", .checkpointing = checkpointing, .reentrant = true});
    // Of the MLP alone: in the first layer nothing before it needs a gradient.
    job.lora.target_modules = {"gate_proj", "down_proj"};
    expect_tiles_equal_whole(job);
    job.lora.target_modules = {"all-linear"};
    expect_tiles_equal_whole(job);
  }
  expect_tiles_equal_whole(job_of(RanksCase{.ranks = 1, .tuning = "pt", .checkpointing = true}));
}

// Tiles draw apart, and each draws the same when it runs again: with and without checkpoints the
// forward passes are the same, and so must be everything after them.
TEST(MlpTiles, DrawADropoutOfTheirOwn) {
  TrainingJob job = job_of(RanksCase{.ranks = 1, .tuning = "lora"});
  job.lora.target_modules = {"gate_proj", "down_proj"};
  job.lora.dropout = 0.5;
  job.optimizer.learning_rate = 0.05;  // B starts at zero: dropout is seen from the second step on
  const Outcome kept = train_to_the_end(tiled(job, 3), alone());
  job.activations.gradient_checkpointing = true;
  expect_equal(train_to_the_end(tiled(job, 3), alone()), kept);
  EXPECT_NE(train_to_the_end(job, alone()).losses.back(), kept.losses.back());
}

// Each tile's gradient is one summand: an optimizer that updates as soon as a gradient is there
// waits for the last of them.
TEST(MlpTiles, AreUpdatedOnceByOptimizersThatUpdateInTheBackward) {
  for (const char* optimizer : {"lomo", "adalomo"}) {
    for (const bool checkpointing : {false, true}) {
      SCOPED_TRACE(optimizer);
      TrainingJob job = job_of(RanksCase{.ranks = 1, .checkpointing = checkpointing});
      job.optimizer.kind = named<OptimizerKind>(optimizer);
      job.optimizer.learning_rate = 0.1;
      job.optimizer.max_grad_norm = 0;
      expect_tiles_equal_whole(job);
    }
  }
}

TEST(MlpTiles, TrainUnderAutocastAsWholeMlpsDo) {
  TrainingJob job = job_of(golden_run("llama-autocast_bf16"));
  job.batches.max_steps = kSteps;
  const Outcome whole = train_to_the_end(job, alone());
  const Outcome tiles = train_to_the_end(tiled(job, 3), alone());
  ASSERT_EQ(tiles.losses.size(), whole.losses.size());
  // Products of other shapes round bfloat16 elsewhere.
  for (size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(tiles.losses[i], whole.losses[i], 2e-3 * whole.losses[i]);
}

TEST(RanksAndMlpTiles, TrainAsOneRank) {
  for (const char* strategy : {"DDP", "FULL_SHARD", "SHARD_GRAD_OP"}) {
    for (const bool checkpointing : {false, true}) {
      const RanksCase c = {.strategy = strategy,
                           .ranks = 4,
                           .accumulation = 2,
                           .checkpointing = checkpointing,
                           .context_ranks = 2};
      SCOPED_TRACE(name_of(c));
      const TrainingJob job = job_of(c);
      run_ranks({.ranks = c.ranks}, [&](RankGroup& group) {
        expect_equal(train_to_the_end(tiled(job, 3), group),
                     train_to_the_end(on_one_rank(job), alone()));
      });
    }
  }
}

// Whole MLPs keep gate, up and their product for every layer. Of the last layer's backward pass two
// gradients of that width come on top; tiles need a sixteenth of that, and twice the residual
// stream.
TEST(MlpTiles, HoldWhatIsInsideAnMlpForOneTile) {
  if (test_device().is_cuda()) GTEST_SKIP() << "predict --exact counts there";
  TrainingJob job = job_of(RanksCase{.ranks = 1, .padding = "max_length"});
  constexpr int64_t kLength = 2048, kInner = 2048;
  job.model.weights_directory.clear();
  job.model.hf_config["intermediate_size"] = kInner;
  job.model.hf_config["max_position_embeddings"] = kLength;
  job.data.model_max_length = kLength;
  job.batches.max_steps = 1;
  const auto peak_bytes = [](const TrainingJob& of) {
    return train_to_the_end(of, alone()).report.host_peak_tensor_bytes;
  };
  const double value = 4 * kLength * kInner;
  const auto layers = job.model.hf_config["num_hidden_layers"].get<double>();
  const auto less = static_cast<double>(peak_bytes(job) - peak_bytes(tiled(job, 16)));
  const double expected = (3 * layers + 2 - 5.0 / 16) * value;
  EXPECT_NEAR(less, expected, 0.05 * expected);
  job.activations.gradient_checkpointing = true;
  const auto less_of_one = static_cast<double>(peak_bytes(job) - peak_bytes(tiled(job, 16)));
  const double of_one = (5 - 5.0 / 16) * value;
  EXPECT_NEAR(less_of_one, of_one, 0.05 * of_one);
}

TEST(MlpTiles, AreRefusedForMixtures) {
  try {
    train_to_the_end(tiled(job_of(RanksCase{.model = "granitemoe", .ranks = 1}), 2), alone());
    FAIL() << "no exception";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_STREQ(error.what(),
                 "mlp_tiles 2: a mixture of experts sorts all positions; mlp_tiles 1 works");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
