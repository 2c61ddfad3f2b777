// Keys of other programs at their libraries' own defaults (tests/reference/argument_files.py): each
// is taken, alone and beside all others, and no key of transformers, trl and accelerate is unknown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/translate/argument_file.h"
#include "translate/argument_names.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Json argument_defaults() {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/argument_files/defaults.json");
}

class ArgumentDefaultsTest : public OwnTrainingTest {
 protected:
  std::string written(const Json& arguments) const {
    write("arguments.json", arguments.dump());
    return (folder_ / "arguments.json").string();
  }
  ProgramResult dry_run(const Json& arguments, std::vector<std::string> more = {}) const {
    write("texts.json", R"([{"text": "a b"}, {"text": "c d"}])");
    write("arguments.json", arguments.dump());
    more.insert(more.begin(), {"--arguments", "arguments.json", "--model", "my-llama", "--data",
                               "texts.json", "--dry-run"});
    return program(more);
  }
};

TEST_F(ArgumentDefaultsTest, EachKeyIsKnownAndTakenAlone) {
  size_t keys = 0;
  const Json golden = argument_defaults();
  for (const auto& [program, arguments] : golden["arguments"].items()) {
    for (const auto& [key, value] : arguments.items()) {
      EXPECT_TRUE(find_argument(key) != nullptr || is_section(key)) << program << ": " << key;
      EXPECT_NO_THROW((void)read_argument_files({written({{key, value}})}))
          << program << ": " << key << " " << value;
      ++keys;
    }
  }
  EXPECT_GE(keys, 114u + 135u + 19u + 6u);
}

TEST_F(ArgumentDefaultsTest, AllOfTransformersTogetherAreItsTraining) {
  Json arguments = argument_defaults()["arguments"]["TrainingArguments"];
  EXPECT_EQ(arguments.size(), 114u);
  const ProgramResult result = dry_run(arguments, {"--text-field", "text"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json job = Json::parse(result.out);
  EXPECT_EQ(job["optimizer"]["learning_rate"], 5e-5);
  EXPECT_EQ(job["optimizer"]["schedule"], "linear");
  EXPECT_EQ(job["optimizer"]["warmup_ratio"], 0.0) << "warmup_steps 0 is no warm-up";
  EXPECT_EQ(job["optimizer"]["name"], "adamw_torch_fused");
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 8);
  EXPECT_EQ(job["batches"]["num_train_epochs"], 3.0);
  EXPECT_EQ(job["batches"]["gradient_accumulation_steps"], 1);
  EXPECT_EQ(job["evaluation"]["strategy"], "no");
  EXPECT_EQ(job["tuning"], "full");
  EXPECT_THAT(result.err, Not(HasSubstr("no effect here"))) << "nobody has chosen any of them";
}

TEST_F(ArgumentDefaultsTest, AllOfTrlTogetherAreItsTraining) {
  Json arguments = argument_defaults()["arguments"]["SFTConfig"];
  arguments.update(argument_defaults()["arguments"]["ModelConfig"]);
  arguments.update(argument_defaults()["arguments"]["ScriptArguments"]);
  const ProgramResult result = dry_run(arguments, {"--set", "model_max_length=64"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json job = Json::parse(result.out);
  EXPECT_EQ(job["optimizer"]["learning_rate"], 2e-5);
  EXPECT_EQ(job["activations"]["gradient_checkpointing"], true);
  EXPECT_EQ(job["precision"]["torch_dtype"], "float32");
  EXPECT_EQ(job["data"]["text_field"], "text");
  EXPECT_EQ(job["data"]["padding"], "longest");
  EXPECT_EQ(job["tuning"], "full") << "use_peft is false, whatever lora_r says";
  arguments["use_peft"] = true;
  const ProgramResult lora = dry_run(arguments, {"--set", "model_max_length=64"});
  ASSERT_EQ(lora.status, 0) << lora.err;
  EXPECT_EQ(Json::parse(lora.out)["lora"]["rank"], 16);
}

TEST_F(ArgumentDefaultsTest, WhatAccelerateConfigWritesIsTaken) {
  const std::map<std::string, std::string> strategies = {{"FSDP 1", "FULL_SHARD"},
                                                         {"FSDP 2", "FULL_SHARD"},
                                                         {"GPUs", "DDP"},
                                                         {"CPUs", "DDP"},
                                                         {"DeepSpeed, stage 2", "SHARD_GRAD_OP"},
                                                         {"DeepSpeed, stage 3", "FULL_SHARD"}};
  const Json golden = argument_defaults();
  for (const auto& [kind, written] : golden["accelerate config"].items()) {
    Json arguments = written;
    arguments["use_cpu"] = true;
    const ProgramResult result =
        dry_run(arguments, {"--text-field", "text", "--set", "batch_size=2"});
    ASSERT_EQ(result.status, 0) << kind << ": " << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("no effect here"))) << kind;
    const Json job = Json::parse(result.out);
    const auto strategy = strategies.find(kind);
    EXPECT_EQ(job["device"]["ranks"], strategy == strategies.end() ? 1 : 2) << kind;
    if (strategy != strategies.end()) {
      EXPECT_EQ(job["parallel"]["strategy"], strategy->second) << kind;
    }
  }
}

TEST_F(ArgumentDefaultsTest, DeepspeedsOwnDefaultsAreTaken) {
  const std::map<std::string, std::string> strategies = {{"stage 0", "DDP"},
                                                         {"stage 1", "SHARD_OPTIM"},
                                                         {"stage 2", "SHARD_GRAD_OP"},
                                                         {"stage 3", "FULL_SHARD"},
                                                         {"offload", "FULL_SHARD"}};
  const Json golden = argument_defaults();
  for (const auto& [kind, configuration] : golden["deepspeed"].items()) {
    write("ds.json", configuration.dump());
    const ProgramResult result =
        dry_run({{"use_cpu", true}, {"num_processes", 2}},
                {"--deepspeed", "ds.json", "--text-field", "text", "--set", "batch_size=2"});
    ASSERT_EQ(result.status, 0) << kind << ": " << result.err;
    const Json job = Json::parse(result.out);
    const auto strategy = strategies.find(kind);
    EXPECT_EQ(job["parallel"]["strategy"], strategy == strategies.end() ? "DDP" : strategy->second)
        << kind;
    if (kind == "fp16 enabled") {
      EXPECT_EQ(job["precision"]["autocast"], "fp16");
      EXPECT_THAT(result.err, HasSubstr("the scale of float16 begins and grows as torch's does: "
                                        "fp16.hysteresis, fp16.loss_scale_window, "
                                        "fp16.min_loss_scale"));
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
