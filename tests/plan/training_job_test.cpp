#include "sftbench/plan/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// No field has the value that it starts with, so that a field that is not carried shows.
TrainingJob unusual_job() {
  TrainingJob job;
  job.experiment = "e";
  job.experiment_id = "A.e";
  job.entity_id = "x.1";
  job.inputs = {{"batch_size", 8}};
  job.tuning = TuningMethod::kLora;
  job.runs = 5;
  job.model = {"m", {{"model_type", "llama"}}, "/w", "/t"};
  job.data = {"d",        "/d.jsonl", true,
              "messages", "{{m}}",    ConversationMask::kFms,
              "{{a}}",    "in",       "out",
              "text",     "pictures", "\n### R:",
              77,         11,         Padding::kMaxLength,
              true,       "/cache",   {{"sets", {{{"path", "/a"}}}}},
              66};
  job.batches = {3, 5, 7, 2.0, 9.5, "WARMUP_60S_STABLE_120S_OR_10_STEPS", 1.5};
  job.precision = {ParameterDtype::kFloat32, Autocast::kBf16, true};
  job.optimizer = {OptimizerKind::kSgd, 1e-3, 0.1, {0.8, 0.95}, 1e-6, 2.0, "polynomial",
                   {{"power", 2.0}},    0.5,  9,   true};
  job.device = {"cuda", "L40S", 4, 2, 6};
  job.parallel = {Strategy::kHybridShard,
                  "LlamaDecoderLayer",
                  StateDictType::kLocal,
                  false,
                  GradientSync::kEach,
                  "float32",
                  2,
                  4,
                  true,
                  true,
                  5,
                  true};
  job.activations = {false, true, true};
  job.kernels = {false, false, false, false, true};
  job.activations.mlp_tiles = 3;
  job.lora = {2,    3.5,  0.25,        {"q_proj", "v_proj"}, "act from here on",
              true, true, {"lm_head"}, {{"q_proj", 8}},      {{"v_proj", 2.5}}};
  job.prompt = {5, "RANDOM", "a text"};
  job.evaluation = {"/held_out.json", 0.25, IntervalStrategy::kSteps, 50, 0.5, 3, true, 4, 77};
  job.save = {"/model",
              "/checkpoints",
              IntervalStrategy::kSteps,
              7,
              0.25,
              2,
              "/checkpoints/checkpoint-3",
              true,
              true,
              "/out",
              IntervalStrategy::kSteps,
              3,
              0.125};
  job.sample_period_s = 0.25;
  job.trace_path = "/trace.json";
  job.dashboard_url = "http://aim";
  job.seed = 18446744073709551615U;
  return job;
}

std::string error_of(const Json& json) {
  try {
    training_job_from_json(json, "job.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TrainingJobTest, ReadsBackEveryFieldThatItWrites) {
  const Json json = to_json(unusual_job());
  const Json again = to_json(training_job_from_json(Json::parse(json.dump()), "job.json"));
  EXPECT_EQ(again, json);
  const Json defaults = to_json(TrainingJob{});
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object() || key == "inputs") {
      EXPECT_NE(value, defaults[key]) << key;
      continue;
    }
    for (const auto& [inner, inner_value] : value.items())
      EXPECT_NE(inner_value, defaults[key][inner]) << inner;
  }
}

// Of every version: no field of the file, but an input, where it is not the default.
TEST(TrainingJobTest, TheBackendStandsAmongTheInputs) {
  Json json = to_json(unusual_job());
  EXPECT_FALSE(json.contains("backend"));
  EXPECT_EQ(training_job_from_json(json, "job.json").backend, kBackendLibtorch);
  json["inputs"]["backend"] = "simulate";
  EXPECT_EQ(training_job_from_json(json, "job.json").backend, kBackendSimulate);
  EXPECT_EQ(to_json(training_job_from_json(json, "job.json")), json);
  json["inputs"]["backend"] = "simulator";
  EXPECT_EQ(error_of(json),
            "job.json: inputs.backend: found \"simulator\"; expected libtorch or simulate");
  json["inputs"]["backend"] = 1;
  EXPECT_EQ(error_of(json), "job.json: inputs.backend: found 1; expected libtorch or simulate");
}

TEST(TrainingJobTest, AllThatIsWrongIsListedWithItsKey) {
  Json json = to_json(unusual_job());
  json["model"].erase("name");
  json["batches"]["max_steps"] = "eight";
  json["batches"]["max_step"] = 8;
  json["device"] = 3;
  json["seed"] = -1;
  json["kernels"]["fused_loss"] = 1;
  json["lora"]["target_modules"] = {"q_proj", 3};
  json["precision"]["torch_dtype"] = nullptr;
  json["inputs"] = Json::array();
  EXPECT_EQ(
      error_of(json),
      "job.json: seed: found -1; expected an integer of at least 0\n"
      "job.json: model.name: missing\n"
      "job.json: batches.max_steps: found \"eight\"; expected an integer\n"
      "job.json: batches.max_step: unknown key; expected one of per_device_batch_size, "
      "gradient_accumulation_steps, max_steps, num_train_epochs, stop_after_seconds, "
      "auto_stop_method, stop_when_known; did you "
      "mean 'max_steps'?\n"
      "job.json: precision.torch_dtype: found null; expected one of bfloat16, float16, float32\n"
      "job.json: device: found 3; expected an object\n"
      "job.json: kernels.fused_loss: found 1; expected true or false\n"
      "job.json: lora.target_modules: found [\"q_proj\",3]; expected a list of texts\n"
      "job.json: inputs: found []; expected an object");
}

TEST(TrainingJobTest, NamesThatThereAreNotAreRefusedWithTheNearest) {
  const struct {
    const char *section, *key, *name, *expected;
  } cases[] = {
      {"optimizer", "name", "adamw_torh", "; did you mean 'adamw_torch'?"},
      {"precision", "torch_dtype", "float8",
       "; expected one of bfloat16, float16, float32; did you mean 'float16'?"},
      {"precision", "autocast", "int8", "; expected one of bf16, fp16, fp8, no"},
      {"data", "padding", "longst",
       "; expected one of longest, max_length, none, packed; did you mean 'longest'?"},
      {"parallel", "strategy", "FULL_SHART",
       "; expected one of DDP, FULL_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, NO_SHARD, "
       "SHARD_GRAD_OP, SHARD_OPTIM; did you mean 'FULL_SHARD'?"},
      {"parallel", "gradient_sync", "lst", "; expected one of each, last; did you mean 'last'?"},
      {"save", "strategy", "step", "; expected one of epoch, no, steps; did you mean 'steps'?"},
  };
  for (const auto& c : cases) {
    Json json = to_json(unusual_job());
    json[c.section][c.key] = c.name;
    const std::string error = error_of(json);
    EXPECT_THAT(error, testing::StartsWith(std::string("job.json: ") + c.section + "." + c.key +
                                           ": found \"" + c.name + "\"; expected one of "));
    EXPECT_THAT(error, testing::EndsWith(c.expected));
  }
  Json json = to_json(unusual_job());
  json["tuning"] = "lroa";
  EXPECT_EQ(
      error_of(json),
      "job.json: tuning: found \"lroa\"; expected one of full, gptq-lora, lora, pt, qlora; did you "
      "mean 'lora'?");
}

TEST(TrainingJobTest, NumbersThatNoJobCanHaveAreRefused) {
  const struct {
    const char *section, *key;
    Json value;
    const char* expected;
  } cases[] = {
      {"data", "model_max_length", 0, "a number from 1 to 2147483647"},
      {"batches", "per_device_batch_size", -4, "a number from 1 to 2147483647"},
      {"batches", "gradient_accumulation_steps", 0, "a number from 1 to 2147483647"},
      {"batches", "max_steps", int64_t{1} << 40, "a number from -2147483647 to 2147483647"},
      {"batches", "per_device_batch_size", 9223372036854775807U, "a number from 1 to 2147483647"},
      {"batches", "per_device_batch_size", 9223372036854775808U, "an integer"},
      {"optimizer", "beta1", 1.5, "a number from 0.0 to 1.0"},
      {"device", "ranks", 1'000'000'000, "a number from 1 to 65536"},
      {"device", "threads", -5, "a number from 0 to 65536"},
      {"lora", "rank", 0, "a number from 1 to 2147483647"},
      {"save", "total_limit", -1, "a number from 0 to 2147483647"},
  };
  for (const auto& c : cases) {
    Json json = to_json(unusual_job());
    json[c.section][c.key] = c.value;
    EXPECT_EQ(error_of(json), std::string("job.json: ") + c.section + "." + c.key + ": found " +
                                  c.value.dump() + "; expected " + c.expected);
  }
}

TEST(TrainingJobTest, UnknownKeysWithoutEndAreCutOff) {
  Json json = to_json(unusual_job());
  auto& members = json["batches"].get_ref<Json::object_t&>();
  for (int i = 0; i < 100'000; ++i) members.emplace_back("key" + std::to_string(i), i);
  const std::string error = error_of(json);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 99);
}

TEST(TrainingJobTest, WhatIsNoObjectIsNoJob) {
  EXPECT_EQ(error_of(Json::array()), "job.json: not an object; expected a training job");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
