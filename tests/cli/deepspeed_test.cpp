// --deepspeed and the key deepspeed of argument files, as a user types them: the job that follows
// from published configurations, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Of the document "Distributed SFT Part 2".
constexpr const char* kDocumentsOwn = R"({
    "fp16": {"enabled": false},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                              "weight_decay": "auto"}},
    "zero_optimization": {"stage": 2, "overlap_comm": false, "allgather_bucket_size": 5e8,
        "reduce_bucket_size": "auto", "allgather_partitions": true, "reduce_scatter": true,
        "contiguous_gradients": true, "round_robin_gradients": true},
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": false
})";

// Of transformers' documentation of DeepSpeed: ZeRO-3 with offload.
constexpr const char* kZero3 = R"({
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000,
             "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 2e-5, "betas": [0.8, 0.95], "eps": 1e-7,
                                              "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                                 "warmup_num_steps": 3}},
    "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu", "pin_memory": true},
        "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
        "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
        "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": false},
    "activation_checkpointing": {"cpu_checkpointing": true, "partition_activations": false},
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 0.5,
    "steps_per_print": 2000,
    "train_batch_size": 32,
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": false
})";

class DeepspeedTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  ProgramResult program(std::vector<std::string> words) const {
    const std::vector<std::string> always = {"run",
                                             "--experiment",
                                             "finetune_full_benchmark-v1.0.0",
                                             "--set",
                                             "model_name=smollm2-135m",
                                             "--set",
                                             "number_gpus=0",
                                             "--set",
                                             "model_max_length=64",
                                             "--weights",
                                             "random",
                                             "--dry-run",
                                             "--ranks",
                                             "2"};
    words.insert(words.begin(), always.begin(), always.end());
    return run_program(words, {{"CUDA_VISIBLE_DEVICES", ""}}, folder_);
  }
  Json job(const std::string& text, std::vector<std::string> more = {}) const {
    write("ds.json", text);
    more.insert(more.begin(), {"--deepspeed", "ds.json"});
    const ProgramResult result = program(more);
    if (result.status != 0) throw std::runtime_error(result.err);
    return Json::parse(result.out);
  }
  std::string refusal(const std::string& text, std::vector<std::string> more = {}) const {
    write("ds.json", text);
    more.insert(more.begin(), {"--deepspeed", "ds.json"});
    const ProgramResult result = program(more);
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    return result.err;
  }

  fs::path folder_ =
      fs::canonical(fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(DeepspeedTest, StagesAreStrategies) {
  for (const auto& [stage, strategy] :
       {std::pair{0, "DDP"}, {1, "SHARD_OPTIM"}, {2, "SHARD_GRAD_OP"}, {3, "FULL_SHARD"}}) {
    const Json job = this->job(R"({"zero_optimization": {"stage": )" + std::to_string(stage) + "}}",
                               {"--set", "batch_size=2"});
    EXPECT_EQ(job["parallel"]["strategy"], strategy);
  }
  EXPECT_EQ(job("{}", {"--set", "batch_size=2"})["parallel"]["strategy"], "DDP");
}

TEST_F(DeepspeedTest, TheDocumentsConfigurationLeavesTheRestToTheArguments) {
  const Json job = this->job(kDocumentsOwn, {"--set", "batch_size=4", "--learning-rate", "3e-4",
                                             "--set", "gradient_accumulation_steps=2"});
  EXPECT_EQ(job["parallel"]["strategy"], "SHARD_GRAD_OP");
  EXPECT_EQ(job["optimizer"]["learning_rate"], 3e-4);
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 2);
  EXPECT_EQ(job["batches"]["gradient_accumulation_steps"], 2);
  EXPECT_EQ(job["precision"]["autocast"], "no");
  EXPECT_EQ(job["optimizer"]["max_grad_norm"], 1.0) << "the default of the arguments";
}

TEST_F(DeepspeedTest, EveryBlockReachesTheJob) {
  const Json job = this->job(kZero3);
  EXPECT_EQ(job["parallel"]["strategy"], "FULL_SHARD");
  EXPECT_EQ(job["parallel"]["state_dict_type"], "SHARDED_STATE_DICT");
  EXPECT_EQ(job["precision"]["autocast"], "bf16");
  const Json& optimizer = job["optimizer"];
  EXPECT_EQ(optimizer["name"], "adamw_torch");
  EXPECT_EQ(optimizer["learning_rate"], 2e-5);
  EXPECT_EQ(optimizer["beta1"], 0.8);
  EXPECT_EQ(optimizer["beta2"], 0.95);
  EXPECT_EQ(optimizer["epsilon"], 1e-7);
  EXPECT_EQ(optimizer["weight_decay"], 0.1);
  EXPECT_EQ(optimizer["max_grad_norm"], 0.5);
  EXPECT_EQ(optimizer["schedule"], "constant_with_warmup");
  EXPECT_EQ(optimizer["warmup_steps"], 3);
  EXPECT_EQ(optimizer["offload_state"], true);
  EXPECT_EQ(job["activations"]["offload"], true);
  EXPECT_EQ(job["parallel"]["offload"], true);
  EXPECT_EQ(job["batches"]["gradient_accumulation_steps"], 4);
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 4) << "32 / 4 / 2 ranks";
}

TEST_F(DeepspeedTest, TwoOfThreeSizesGiveTheThird) {
  const Json by_micro = job(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3})");
  EXPECT_EQ(by_micro["batches"]["gradient_accumulation_steps"], 4);
  EXPECT_EQ(by_micro["batches"]["per_device_batch_size"], 3);
  const Json alone = job(R"({"train_batch_size": 24})");
  EXPECT_EQ(alone["batches"]["gradient_accumulation_steps"], 1);
  EXPECT_EQ(alone["batches"]["per_device_batch_size"], 12);
  EXPECT_THAT(refusal(R"({"train_batch_size": 25, "train_micro_batch_size_per_gpu": 3})"),
              HasSubstr("train_batch_size: found 25; expected \"auto\", or micro-batch x ranks x "
                        "gradient_accumulation_steps, a multiple of 6"));
  EXPECT_THAT(refusal(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3,
                          "gradient_accumulation_steps": 2})"),
              HasSubstr("a multiple of 12"));
}

TEST_F(DeepspeedTest, AnArgumentFileNamesItAsTransformersAndLlmforgeDo) {
  write("zero.json", R"({"zero_optimization": {"stage": 1}})");
  for (const char* key : {"deepspeed: zero.json\n", "deepspeed:\n  config_path: zero.json\n"}) {
    write("arguments.yaml", std::string(key) + "per_device_train_batch_size: 3\n");
    const ProgramResult result = program({"--arguments", "arguments.yaml"});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json job = Json::parse(result.out);
    EXPECT_EQ(job["parallel"]["strategy"], "SHARD_OPTIM");
    EXPECT_EQ(job["batches"]["per_device_batch_size"], 3);
    EXPECT_TRUE(job["inputs"].contains("fsdp_sharding_strategy"));
  }
}

TEST_F(DeepspeedTest, WhatMeansNothingHereIsToldAndWhatHasNoEqualIsRefusedAllAtOnce) {
  write("ds.json", R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}})");
  const ProgramResult told = program({"--deepspeed", "ds.json", "--set", "batch_size=2"});
  EXPECT_THAT(told.err, HasSubstr("ds.json: no effect here, where buffers follow from the layers: "
                                  "zero_optimization.reduce_bucket_size"));
  const std::string refused = refusal(R"({
    "zero_optimization": {"stage": 4, "offload_param": {"device": "nvme", "nvme_path": "/x"},
                          "offload_optimizer": {"device": "gpu"}, "mics_shard_size": 8,
                          "overlap_com": true, "zero_quantized_weights": true},
    "optimizer": {"type": "OneBitAdam", "params": {"betas": 1}},
    "train_micro_batch_size_per_gpu": 0,
    "communication_data_type": "fp32",
    "fp16": {"enabled": true, "hysteresis": 3},
    "aio": {"block_size": 1}})");
  for (const char* finding :
       {"ds.json:2: zero_optimization.stage: found 4; expected 0 (DDP), 1, 2 or 3",
        "zero_optimization.offload_param.device: found 'nvme', which has no equal here; expected",
        "zero_optimization.offload_param.nvme_path: has no equal here; expected device: cpu",
        "zero_optimization.offload_optimizer.device: found 'gpu', which has no equal here; "
        "expected "
        "cpu or none",
        "zero_optimization.mics_shard_size: found 8, which has no equal here; expected "
        "fsdp_sharding_strategy HYBRID_SHARD, or -1",
        "zero_optimization.overlap_com: has no equal here; did you mean "
        "'zero_optimization.overlap_comm'?",
        "zero_optimization.zero_quantized_weights: found true, which has no equal here; expected "
        "false",
        "optimizer.type: found 'OneBitAdam', which has no equal here; expected Adam or AdamW or "
        "Lion",
        "optimizer.params.betas: found 1; expected two numbers, or \"auto\"",
        "train_micro_batch_size_per_gpu: found 0; expected an integer of at least 1, or \"auto\"",
        "communication_data_type: has no equal here; expected --reduce-dtype float32",
        "fp16.hysteresis: found 3, which has no equal here; expected 1 or 2",
        "aio: has no equal here; expected device: cpu"}) {
    EXPECT_THAT(refused, HasSubstr(finding));
  }
  EXPECT_THAT(refusal("[1]"), HasSubstr("ds.json:1: found a list of 1"));
  EXPECT_THAT(refusal("{\"a\": "), HasSubstr("ds.json:"));
  EXPECT_THAT(refusal(R"({"gradient_clipping": "much"})", {"--set", "batch_size=2"}),
              HasSubstr("ds.json:1: gradient_clipping: 'much' is no value of max_grad_norm"));
}

// With the beginning and without, as DeepSpeed's classes and its documentation have it.
TEST_F(DeepspeedTest, BothSpellingsOfStageThreeAreOne) {
  for (const char* beginning : {"", "stage3_"}) {
    const std::string configuration = R"({"zero_optimization": {"stage": 3, ")" +
                                      std::string(beginning) + R"(max_live_parameters": 1e9, ")" +
                                      beginning + R"(gather_16bit_weights_on_model_save": true}})";
    const Json job = this->job(configuration, {"--set", "batch_size=2"});
    EXPECT_EQ(job["parallel"]["strategy"], "FULL_SHARD");
    EXPECT_EQ(job["parallel"]["state_dict_type"], "FULL_STATE_DICT") << beginning;
  }
}

TEST_F(DeepspeedTest, BlocksThatAreOffSayNothing) {
  const Json job = this->job(
      R"({"autotuning": {"enabled": false, "fast": true}, "tensorboard": {"enabled": false},
          "elasticity": {}, "aio": {}, "compression_training": {"enabled": false, "x": {"y": 1}}})",
      {"--set", "batch_size=2"});
  EXPECT_EQ(job["parallel"]["strategy"], "DDP");
  EXPECT_THAT(refusal(R"({"autotuning": {"enabled": true}})", {"--set", "batch_size=2"}),
              HasSubstr("ds.json:1: autotuning: has no equal here; expected no such block"));
}

TEST_F(DeepspeedTest, JsonWithTabsIsJson) {
  EXPECT_EQ(job("{\n\t\"zero_optimization\": {\n\t\t\"stage\": 2\n\t}\n}\n",
                {"--set", "batch_size=2"})["parallel"]["strategy"],
            "SHARD_GRAD_OP");
}

TEST_F(DeepspeedTest, TwoFilesThatDisagreeAreRefused) {
  write("arguments.yaml", "learning_rate: 1e-4\nper_device_train_batch_size: 3\n");
  const std::string refused = refusal(
      R"({"optimizer": {"type": "AdamW", "params": {"lr": 2e-4}},
          "train_micro_batch_size_per_gpu": 2})",
      {"--arguments", "arguments.yaml"});
  EXPECT_THAT(refused,
              AllOf(HasSubstr("ds.json:1: optimizer.params.lr: says '2e-4', where "
                              "arguments.yaml:1: learning_rate says '1e-4'; expected one of "
                              "them"),
                    HasSubstr("ds.json: train_micro_batch_size_per_gpu: found 2; expected "
                              "what arguments.yaml:2: per_device_train_batch_size says, 3, or "
                              "\"auto\"")));
  EXPECT_EQ(job(R"({"optimizer": {"type": "AdamW", "params": {"lr": 2e-4}}})",
                {"--set", "batch_size=2", "--learning-rate", "1e-3"})["optimizer"]["learning_rate"],
            1e-3)
      << "options come first";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
