// Rows that ranks divide: N ranks equal one, and send what theory says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ranks_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Each row on 2, 3 or 4 ranks; rows of few tokens, so that chunks are shorter than windows and than
// the convolution of Mamba-2.
TEST(RanksAndRows, RowsOnSeveralRanks) {
  for (const int ranks : {2, 3, 4}) {
    expect_ranks_equal_one({.ranks = ranks, .context_ranks = ranks});
    expect_ranks_equal_one({.ranks = ranks, .padding = "none", .context_ranks = ranks, .batch = 3});
  }
}

TEST(RanksAndRows, RowsOnSeveralRanksInEveryFamily) {
  for (const char* model : {"bloom", "gpt_bigcode", "gpt_oss-balanced", "granite",
                            "granitemoe-balanced", "granitemoehybrid-balanced", "granitemoeshared",
                            "llama_all", "mixtral-balanced", "qwen3"}) {
    for (const int ranks : {2, 4}) {
      expect_ranks_equal_one({.model = model,
                              .ranks = ranks,
                              .checkpointing = ranks == 4,
                              .context_ranks = ranks,
                              .batch = 2});
    }
  }
}

TEST(RanksAndRows, RowsOnSeveralRanksOfDrawnFamilies) {
  for (const std::string& model : drawn_models()) {
    for (const int ranks : {2, 4}) {
      expect_ranks_equal_one({.model = model,
                              .ranks = ranks,
                              .checkpointing = ranks == 4,
                              .context_ranks = ranks,
                              .batch = 2});
    }
  }
}

TEST(RanksAndRows, PackedRowsOfHybridsOnSeveralRanks) {
  for (const int ranks : {2, 3, 4}) {
    expect_ranks_equal_one({.model = "granitemoehybrid-balanced",
                            .ranks = ranks,
                            .padding = "none",
                            .context_ranks = ranks,
                            .batch = 3});
  }
}

TEST(RanksAndRows, WindowsOfRowsOnSeveralRanks) {
  for (const int64_t window : {1, 3, 9, 40}) {
    expect_ranks_equal_one({.model = "mistral", .ranks = 4, .context_ranks = 4, .window = window});
  }
  expect_ranks_equal_one({.model = "mistral",
                          .ranks = 3,
                          .padding = "none",
                          .context_ranks = 3,
                          .window = 5,
                          .batch = 3});
}

TEST(RanksAndRows, RowsBesideDataAndExpertsUnderEveryStrategy) {
  for (const char* strategy : {"DDP", "NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "SHARD_OPTIM"}) {
    expect_ranks_equal_one(
        {.strategy = strategy, .ranks = 4, .accumulation = 2, .context_ranks = 2});
    expect_ranks_equal_one({.model = "granitemoe-balanced",
                            .strategy = strategy,
                            .ranks = 4,
                            .checkpointing = true,
                            .expert_ranks = 2,
                            .context_ranks = 2});
  }
  for (const int64_t context_ranks : {2, 4}) {
    expect_ranks_equal_one(
        {.strategy = "HYBRID_SHARD", .ranks = 4, .nodes = 2, .context_ranks = context_ranks});
  }
  expect_ranks_equal_one(
      {.model = "granitemoehybrid-balanced", .ranks = 4, .expert_ranks = 4, .context_ranks = 2});
}

TEST(RanksAndRows, AdaptersOnRowsOfSeveralRanks) {
  for (const bool reentrant : {false, true}) {
    expect_ranks_equal_one({.ranks = 2,
                            .tuning = "lora",
                            .checkpointing = true,
                            .reentrant = reentrant,
                            .context_ranks = 2});
  }
}

TEST(RanksAndRows, EvaluateAsOneRank) {
  for (const char* padding : {"longest", "none"}) {
    SCOPED_TRACE(padding);
    TrainingJob job = job_of(RanksCase{
        .model = "granitemoe-balanced", .ranks = 4, .padding = padding, .context_ranks = 2});
    job.evaluation.split = 0.3;
    job.evaluation.strategy = IntervalStrategy::kEpoch;
    job.evaluation.per_device_batch_size = 2;
    run_ranks({.ranks = 4}, [&](RankGroup& group) {
      const auto evaluated = [](const TrainingJob& of, RankGroup& ranks) {
        TrainingRun run = prepare_run(of, ranks);
        Recorder recorder;
        train_steps(run, ranks, {&recorder}, [] { return false; });
        return recorder.evaluations.at(0);
      };
      const EvaluationEvent several = evaluated(job, group);
      const EvaluationEvent one = evaluated(on_one_rank(job), alone());
      EXPECT_EQ(several.entries, one.entries);
      EXPECT_EQ(several.tokens, one.tokens);
      EXPECT_NEAR(several.loss, one.loss, 1e-5);
      EXPECT_NEAR(several.token_loss, one.token_loss, 1e-5);
    });
  }
}

// Trainer's own losses and norms, from a run on one process.
TEST(RanksAndRows, TrainAsTrainerDoes) {
  for (const char* name : {"llama-float32", "mistral-float32", "gpt_oss-float32",
                           "granitemoe-balanced-float32", "granitemoehybrid-float32"}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(::testing::Message() << name << " on " << ranks);
      const Json golden = golden_run(name);
      TrainingJob job = job_of(golden);
      job.device.ranks = job.parallel.context_ranks = ranks;
      job.parallel.strategy = Strategy::kFullShard;
      job.device.threads = 1;
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        TrainingRun run = prepare_run(job, group);
        Recorder recorder;
        train_steps(run, group, {&recorder}, [] { return false; });
        ASSERT_EQ(recorder.steps.size(), golden["steps"].size());
        for (size_t i = 0; i < recorder.steps.size(); ++i) {
          const double loss = golden["steps"][i]["loss"], norm = golden["steps"][i]["grad_norm"];
          EXPECT_NEAR(recorder.steps[i].loss, loss, 1e-4) << "step " << i + 1;
          EXPECT_NEAR(recorder.steps[i].grad_norm, norm, 1e-3 * norm) << "step " << i + 1;
        }
      });
    }
  }
}

// Of what a step counts, ranks have parts: all of them are what one rank counts.
TEST(RanksAndRows, CountEntriesOnce) {
  run_ranks({.ranks = 4}, [&](RankGroup& group) {
    const TrainingJob job = job_of(RanksCase{.ranks = 4, .context_ranks = 2});
    const auto first_step = [](const TrainingJob& of, RankGroup& ranks) {
      TrainingRun run = prepare_run(of, ranks);
      Recorder recorder;
      train_steps(run, ranks, {&recorder}, [] { return false; });
      return recorder.steps.at(0);
    };
    const StepEvent several = first_step(job, group), one = first_step(on_one_rank(job), alone());
    EXPECT_EQ(several.samples, one.samples);
    EXPECT_EQ(several.tokens.dataset, one.tokens.dataset);
    EXPECT_EQ(several.tokens.loss_bearing, one.tokens.loss_bearing);
    EXPECT_EQ(several.tokens.padded - several.tokens.padding,
              one.tokens.padded - one.tokens.padding);
    EXPECT_NEAR(several.attention_flops, one.attention_flops, 1e-6 * one.attention_flops);
  });
}

// --- what a rank sends ---------------------------------------------------------------------------

constexpr int64_t kLength = 48, kHeads = 2, kHeadDim = 16, kBatch = 2;

// Rows of one length, which 2, 3 and 4 ranks divide.
TrainingJob even_rows(const std::string& model, int ranks) {
  TrainingJob job = job_of(RanksCase{.model = model,
                                     .ranks = ranks,
                                     .padding = "max_length",
                                     .context_ranks = ranks,
                                     .batch = kBatch});
  job.model.weights_directory.clear();
  Json& config = job.model.hf_config;
  config["num_attention_heads"] = 2 * kHeads;
  config["num_key_value_heads"] = kHeads;
  config["hidden_size"] = 2 * kHeads * kHeadDim;
  config["head_dim"] = kHeadDim;
  job.data.model_max_length = kLength;
  return job;
}

RankReport report_of(const TrainingJob& job, RankGroup& group) {
  TrainingRun run = prepare_run(job, group);
  Recorder recorder;
  train_steps(run, group, {&recorder}, [] { return false; });
  return recorder.ends.at(0).ranks.at(static_cast<size_t>(group.rank()));
}

// Keys and values of a chunk, float32.
int64_t chunk_bytes(int64_t ranks) {
  return 2 * kBatch * kLength / (2 * ranks) * kHeads * kHeadDim * 4;
}

// In the ring early chunks go to all other ranks. Late ones go to the ranks before theirs, which
// have later ones: rank r hands on those of the N - r ranks from its own on, and rank 0 none.
// Gradients come back from where a chunk was: rank r gives some to those of the N - 1 - r ranks
// behind it.
TEST(RanksAndRowsInTheory, KeysAndTheirGradientsTravelOnceToEachRank) {
  for (const bool checkpointing : {false, true}) {
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(std::to_string(ranks) + (checkpointing ? " with checkpointing" : ""));
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        TrainingJob job = even_rows("llama", ranks);
        job.activations.gradient_checkpointing = checkpointing;
        const int64_t layers = job.model.hf_config["num_hidden_layers"].get<int64_t>();
        const int64_t rank = group.rank();
        const int64_t keys = ranks - 1 + (rank > 0 ? ranks - rank : 0);
        const int64_t gradients = ranks - 1 + ranks - 1 - rank;
        // The last layer is not recomputed.
        const int64_t passes = 2 * layers + (checkpointing ? layers - 1 : 0);
        EXPECT_EQ(sent_bytes(report_of(job, group), "all_to_all", "context"),
                  kSteps * chunk_bytes(ranks) * (passes * keys + layers * gradients));
      });
    }
  }
}

// A window of one chunk's length reaches into the chunk before, and no further. Its holder is a
// neighbor, or, in the middle of the row, the same rank.
TEST(RanksAndRowsInTheory, WindowsLeaveChunksWhereNobodyNeedsThem) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    run_ranks({.ranks = ranks}, [&](RankGroup& group) {
      TrainingJob job = even_rows("mistral", ranks);
      job.model.hf_config["sliding_window"] = kLength / (2 * ranks);
      const int64_t own = sent_bytes(report_of(job, group), "all_to_all", "context");
      int64_t all = 0;
      for (const std::string& text : group.all_gather(std::to_string(own))) all += std::stoll(text);
      const int64_t layers = job.model.hf_config["num_hidden_layers"].get<int64_t>();
      // Forward, backward, and gradients.
      EXPECT_EQ(all, 3 * kSteps * layers * chunk_bytes(ranks) * 2 * (ranks - 1));
    });
  }
}

// Mamba-2 gathers the last positions of each chunk and what it adds to the state, and sums
// gradients of both.
TEST(RanksAndRowsInTheory, StatesOfChunksAreGathered) {
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(ranks);
    run_ranks({.ranks = ranks}, [&](RankGroup& group) {
      TrainingJob job = job_of(RanksCase{.model = "granitemoehybrid",
                                         .ranks = ranks,
                                         .padding = "max_length",
                                         .context_ranks = ranks,
                                         .batch = kBatch});
      job.data.model_max_length = kLength;
      const Json& config = job.model.hf_config;
      const auto number = [&](const char* key) { return config.at(key).get<int64_t>(); };
      int64_t layers = 0;
      for (const Json& type : config.at("layer_types")) layers += type == "linear_attention";
      const int64_t heads = number("mamba_n_heads"), head_dim = number("mamba_d_head");
      const int64_t state = number("mamba_d_state");
      const int64_t channels = heads * head_dim + 2 * number("mamba_n_groups") * state;
      const int64_t ends = kBatch * 2 * (number("mamba_d_conv") - 1) * channels;
      const int64_t states = 2 * kBatch * (heads * head_dim * state + heads);
      const RankReport report = report_of(job, group);
      const int64_t once = kSteps * layers * (ranks - 1) * 4 * (ends + states);
      EXPECT_GT(layers, 0);
      EXPECT_EQ(sent_bytes(report, "all_gather", "context"), once);
      EXPECT_EQ(sent_bytes(report, "reduce_scatter", "context"), once);
    });
  }
}

// --- what a device holds -------------------------------------------------------------------------

// Nothing grows with the square of a row, nor with the vocabulary times it: what twice the
// positions take more is twice what the first ones do. On one rank, and on two, which have half of
// it each.
TEST(RanksAndRowsInTheory, MemoryIsLinearInTheLengthOfARow) {
  if (test_device().is_cuda()) GTEST_SKIP() << "predict --exact counts there";
  constexpr int64_t kShort = 2048;
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    run_ranks({.ranks = ranks}, [&](RankGroup& group) {
      const auto peak_bytes = [&](int64_t length) {
        TrainingJob job = even_rows("llama", ranks);
        job.batches.per_device_batch_size = 1;
        job.batches.max_steps = 1;
        job.data.model_max_length = length;
        job.activations.gradient_checkpointing = true;
        job.model.hf_config["vocab_size"] = 32768;
        job.model.hf_config["max_position_embeddings"] = length;
        return report_of(job, group).host_peak_tensor_bytes;
      };
      const int64_t once = peak_bytes(kShort), twice = peak_bytes(2 * kShort);
      const int64_t four = peak_bytes(4 * kShort);
      const auto first = static_cast<double>(twice - once);
      // What is quadratic would be four times the first difference. The peak of a part of the
      // shortest row lies elsewhere in the step than those of longer ones.
      EXPECT_NEAR(static_cast<double>(four - twice), 2 * first, 0.25 * first);
    });
  }
}

// --- what cannot be done -------------------------------------------------------------------------

TEST(RanksAndRows, RefuseWhatStandsInWholeRows) {
  run_ranks({.ranks = 2}, [&](RankGroup& group) {
    const TrainingJob job = job_of(RanksCase{.tuning = "pt", .context_ranks = 2});
    try {
      prepare_run(job, group);
      ADD_FAILURE() << "no refusal";
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("context_parallel 2: virtual tokens stand in "
                                                     "front of whole rows"));
    }
  });
}

// As a job file may say it.
TEST(RanksAndRows, RefuseGroupsThatDoNotFit) {
  TrainingJob job = small_job("llama");
  job.parallel.context_ranks = 2;
  try {
    prepare_run(job, alone());
    ADD_FAILURE() << "no refusal";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("context_parallel 2: 1 rank cannot be divided "
                                                   "evenly into groups of 2"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
