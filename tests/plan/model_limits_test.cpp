// What a model's config.json decides before a job starts: precision, dropout in graphs, and what
// divided rows cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sftbench/base/json.h"
#include "sftbench/plan/base_precision.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/plan/step_graph_limits.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 4 heads of 16, 2 of keys and values, 2 layers.
TrainingJob job_with(const Json& fields = Json::object()) {
  TrainingJob job;
  job.model.name = "m";
  job.model.hf_config = {{"model_type", "mistral"},  {"vocab_size", 100},
                         {"hidden_size", 64},        {"intermediate_size", 128},
                         {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                         {"num_key_value_heads", 2}, {"sliding_window", nullptr}};
  job.model.hf_config.update(fields);
  return job;
}

Json nf4(const Json& more = Json::object()) {
  Json config = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  config.update(more);
  return {{"model_type", "llama"}, {"quantization_config", config}};
}

TEST(BasePrecisionTest, EachFormOfWeightsHasItsMethod) {
  const auto refusal = [](const Json& fields, TuningMethod tuning) {
    return weights_refusal(job_with(fields).model, tuning);
  };
  EXPECT_EQ(refusal(Json::object(), TuningMethod::kFull), "");
  EXPECT_EQ(refusal(Json::object(), TuningMethod::kLora), "");
  EXPECT_THAT(refusal(Json::object(), TuningMethod::kGptqLora),
              HasSubstr("the weights of m are not quantized: "));
  EXPECT_EQ(refusal(nf4(), TuningMethod::kQlora), "");
  EXPECT_THAT(refusal(nf4(), TuningMethod::kLora),
              HasSubstr("are quantized (NF4), and tuning lora trains"));
  EXPECT_THAT(refusal(nf4(), TuningMethod::kGptqLora), HasSubstr("are quantized (NF4)"));
}

TEST(BasePrecisionTest, LinearsThatFilesHoldDenseAreNamed) {
  const auto refusal = [](const Json& skipped) {
    return weights_refusal(job_with(nf4({{"llm_int8_skip_modules", skipped}})).model,
                           TuningMethod::kQlora);
  };
  for (const char* module : {"lm_head", "proj", "model.layers.7", "o_pro", "self_attn.o"})
    EXPECT_EQ(refusal({module}), "") << module;
  EXPECT_EQ(refusal({3}), "");
  EXPECT_EQ(refusal("o_proj"), "");
  for (const char* module : {"o_proj", "self_attn.o_proj", "model.layers.0.self_attn.o_proj"})
    EXPECT_THAT(refusal({"lm_head", module}),
                HasSubstr("leave model.layers.0.self_attn.o_proj dense"))
        << module;
  EXPECT_THAT(refusal({"mlp"}), HasSubstr("leave model.layers.0.mlp."));
  EXPECT_THAT(refusal({"model.layers.1"}),
              HasSubstr("leave model.layers.1.self_attn.q_proj dense"));
}

TEST(BasePrecisionTest, Float16LosesTheRangeOfBfloat16Alone) {
  TrainingJob job = job_with({{"torch_dtype", "bfloat16"}});
  job.model.weights_directory = "/m";
  const auto warning = [&](ParameterDtype dtype, Autocast autocast) {
    job.precision.torch_dtype = dtype;
    job.precision.autocast = autocast;
    return narrower_range_warning(job);
  };
  EXPECT_THAT(warning(ParameterDtype::kFloat16, Autocast::kNo),
              HasSubstr("torch_dtype float16 over a model"));
  EXPECT_THAT(warning(ParameterDtype::kFloat32, Autocast::kFp16),
              HasSubstr("mixed_precision fp16, which computes"));
  EXPECT_EQ(warning(ParameterDtype::kFloat32, Autocast::kNo), "");
  EXPECT_EQ(warning(ParameterDtype::kBfloat16, Autocast::kBf16), "");
  const auto of_float16 = [&] { return warning(ParameterDtype::kFloat16, Autocast::kNo); };
  job.model.weights_directory.clear();
  EXPECT_EQ(of_float16(), "") << "random weights";
  job.model.weights_directory = "/m";
  job.tuning = TuningMethod::kGptqLora;
  EXPECT_EQ(of_float16(), "") << "float16 by rule";
  job.tuning = TuningMethod::kFull;
  job.model.hf_config["torch_dtype"] = "float32";
  EXPECT_EQ(of_float16(), "");
  job.model.hf_config = {{"model_type", "unknown"}, {"torch_dtype", "bfloat16"}};
  EXPECT_EQ(of_float16(), "") << "the engine's to say";
}

TEST(StepGraphTest, EveryDropoutOfAModelIsRefused) {
  for (double ModelConfig::*share :
       {&ModelConfig::embedding_dropout, &ModelConfig::residual_dropout}) {
    ModelConfig model;
    model.*share = 0.1;
    EXPECT_THAT(step_graph_refusals({.model = &model}),
                ElementsAre(HasSubstr("drops other values of this model")));
  }
  ModelConfig model;
  EXPECT_THAT(step_graph_refusals({.model = &model}), IsEmpty());
  model.attention.dropout = 0.1;
  EXPECT_THAT(step_graph_refusals({.model = &model}),
              ElementsAre(HasSubstr("drops other values of this model")));
}

TEST(StepGraphTest, EachReasonIsSaid) {
  for (const auto& [step, found] : std::vector<std::pair<GraphedStep, const char*>>{
           {{.distributed = true}, "collective operations"},
           {{.autocast = Autocast::kFp16}, "reads the scales"},
           {{.autocast = Autocast::kFp8}, "reads the scales"},
           {{.padding = Padding::kPacked}, "divides each row otherwise"},
           {{.lora_dropout = 0.1}, "lora_dropout 0 works"},
           {{.offloads = true}, "waits on the host"},
           {{.fused_loss = false}, "the fused loss"},
           {{.traced = true}, "--trace"},
           {{.images = true}, "images have other sizes"}})
    EXPECT_THAT(step_graph_refusals(step), ElementsAre(HasSubstr(found)));
  EXPECT_THAT(step_graph_refusals({.autocast = Autocast::kBf16}), IsEmpty());
}

// Rows of 8 of 3 entries on 2 ranks: 4 chunks of 2 positions, of which a rank has the first and the
// last, or those between. A chunk's keys and values in a batch are 2 * 3 * 2 * 32 = 384 values, a
// rank's queries 3 * 4 * 64 = 768.
TrainingJob divided(const Json& fields = Json::object()) {
  TrainingJob job = job_with(fields);
  job.data.model_max_length = 8;
  job.batches.per_device_batch_size = 3;
  job.parallel.context_ranks = 2;
  return job;
}

// All chunks but the last are somebody else's past: three hops among two ranks.
TEST(ContextCostTest, ARingHandsOnWhatIsNeeded) {
  const ContextCost cost = context_cost(divided(), 2);
  EXPECT_DOUBLE_EQ(cost.forward_bytes, 1.5 * 384 * 2);
  EXPECT_DOUBLE_EQ(cost.backward_bytes, 1.5 * 384 * (2 + 4));
  EXPECT_DOUBLE_EQ(cost.forward_buffers, 2 * 768 * 2 + 768 * 4);
  EXPECT_DOUBLE_EQ(cost.backward_buffers, 2 * 768 * 2 + 768 * 4 + 5 * 768 * 4);
  EXPECT_EQ(cost.ranks, 2);
  EXPECT_DOUBLE_EQ(cost.attention_flops, 4 * 768 * 4) << "half of a row is seen";
  EXPECT_DOUBLE_EQ(context_cost(divided({{"sliding_window", 4}}), 2).attention_flops, 4 * 768 * 3)
      << "a window of 4, but for the first rows: 4 - 4 * 4 / 2 / 8";
  EXPECT_DOUBLE_EQ(context_cost(divided({{"sliding_window", 8}}), 2).attention_flops, 4 * 768 * 4);
  EXPECT_DOUBLE_EQ(context_cost(job_with(), 2).forward_bytes, 0) << "whole rows";
}

// A layer of Mamba-2 hands on 2 positions of 48 values at each of 2 ends and 32 * 8 + 4 values of
// state in float32; the one of attention has 2 heads of 4.
TEST(ContextCostTest, MambaHandsOnEndsAndStates) {
  TrainingJob job = divided();
  job.model.hf_config =
      read_json_file(SFTBENCH_TEST_DATA "/models/granitemoehybrid_plain/config.json");
  const ContextCost cost = context_cost(job, 2);
  const double mamba = 3 * 2 * (2 * 48 * 2 + 260 * 4), hops = 1.5 * (2 * 3 * 2 * 8);
  EXPECT_DOUBLE_EQ(cost.forward_bytes, (mamba + hops * 2) / 2);
  EXPECT_DOUBLE_EQ(cost.backward_bytes, (mamba + hops * 6) / 2);
}

TEST(ContextCostTest, RowsAreDividedIntoEqualParts) {
  EXPECT_EQ(divided_rows_refusal(4, 2), "");
  EXPECT_THAT(divided_rows_refusal(3, 2),
              HasSubstr("3 of them cannot be divided evenly into groups of 2"));
  EXPECT_EQ(own_length(9, divided()), 6) << "9 positions are padded to 12, two chunks of 3 each";
  EXPECT_EQ(own_length(9, job_with()), 9);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
