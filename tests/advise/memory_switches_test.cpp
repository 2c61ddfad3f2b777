// What makes a configuration fit: which switches there are, by hand, and what holds of any of them.
#include "sftbench/advise/memory_switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sftbench/space/space.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::Contains;
using testing::Not;

const std::string kFull = "finetune_full_benchmark-v1.0.0";

class MemorySwitchesTest : public testing::Test {
 protected:
  // Granite of 2 B on GPUs of 80 GB.
  std::vector<MemorySwitch> switches(int64_t gpus, int64_t batch, int64_t accumulation) {
    SpaceOptions options;
    options.experiment = experiment_;
    options.assignments = {"model_name=granite-3.1-2b",
                           "gpu_model=NVIDIA-A100-SXM4-80GB",
                           "model_max_length=4096",
                           "gradient_checkpointing=" + checkpointing_,
                           "number_gpus=" + std::to_string(gpus),
                           "batch_size=" + std::to_string(gpus * batch),
                           "gradient_accumulation_steps=" + std::to_string(accumulation),
                           "torch_dtype=" + dtype_};
    const Space space = space_from_assignments(Catalog::shipped(), options);
    request_ = make_request(space.entity(0), space.experiments.front());
    now_ = oracle_.predict(request_);
    return memory_switches(request_, now_, oracle_);
  }
  static std::vector<Json> changes(const std::vector<MemorySwitch>& switches) {
    std::vector<Json> all;
    for (const MemorySwitch& one : switches) all.push_back(one.changes);
    return all;
  }

  std::string experiment_ = kFull, dtype_ = "bfloat16", checkpointing_ = "false";
  MachineOverrides overrides_;
  Oracle oracle_{{}, {}, overrides_, Catalog::shipped()};
  MeasurementRequest request_;
  Prediction now_;
};

Json sharded(int64_t gpus, const Json& more = Json::object()) {
  Json changes = {{"number_gpus", gpus},
                  {"distributed_backend", "FSDP"},
                  {"fsdp_sharding_strategy", "FULL_SHARD"}};
  changes.update(more);
  return changes;
}

TEST_F(MemorySwitchesTest, AStepKeepsItsEntries) {
  const auto one = changes(switches(1, 16, 4));
  EXPECT_THAT(one, Contains(Json({{"gradient_checkpointing", true}})));
  EXPECT_THAT(one, Contains(Json({{"batch_size", 1}, {"gradient_accumulation_steps", 64}})));
  EXPECT_THAT(one, Contains(sharded(2)));
  EXPECT_THAT(one, Contains(Json({{"experiment", "finetune_lora_benchmark-v1.0.0"}})));
  for (const Json& change : one) EXPECT_FALSE(change.contains("context_parallel")) << "one GPU";
  // An odd batch cannot be halved, but accumulation can.
  EXPECT_THAT(changes(switches(1, 3, 4)),
              Contains(sharded(2, {{"batch_size", 6}, {"gradient_accumulation_steps", 2}})));
  for (const Json& change : changes(switches(1, 3, 3)))
    EXPECT_FALSE(change.contains("number_gpus"));
  const auto two = changes(switches(2, 16, 4));
  EXPECT_THAT(two, Contains(Json({{"batch_size", 2}, {"gradient_accumulation_steps", 64}})));
  EXPECT_THAT(
      two, Contains(Json(
               {{"context_parallel", 2}, {"batch_size", 16}, {"gradient_accumulation_steps", 8}})));
  EXPECT_THAT(two, Contains(sharded(4)));
  for (const Json& change : changes(switches(8, 16, 4)))
    EXPECT_FALSE(change.contains("number_gpus")) << "of a node";
  EXPECT_THAT(changes(switches(1, 1, 4)),
              Not(Contains(Json({{"batch_size", 1}, {"gradient_accumulation_steps", 4}}))));
}

TEST_F(MemorySwitchesTest, EachSavesAndThoseThatTrainAlikeStandFirst) {
  const std::vector<MemorySwitch> all = switches(1, 16, 4);
  bool otherwise = false;
  for (const MemorySwitch& one : all) {
    EXPECT_DOUBLE_EQ(one.saved_bytes, now_.needed_bytes - one.prediction.needed_bytes);
    EXPECT_GE(one.saved_bytes, 0.01 * now_.needed_bytes);
    const bool other = one.changes.contains("experiment") || one.changes.contains("optim") ||
                       one.changes.contains("torch_dtype") ||
                       one.changes.contains("model_max_length");
    EXPECT_EQ(one.trains_alike, !other) << one.words();
    EXPECT_FALSE(otherwise && one.trains_alike) << one.words();
    otherwise = otherwise || !one.trains_alike;
  }
  EXPECT_TRUE(otherwise);
  // Alone on the same GPUs, then on more, then otherwise; the least slowdown first.
  const auto rank = [](const MemorySwitch& one) {
    return !one.trains_alike ? 2 : one.changes.contains("number_gpus") ? 1 : 0;
  };
  for (size_t i = 1; i < all.size(); ++i) {
    const MemorySwitch &one = all[i - 1], &next = all[i];
    ASSERT_LE(rank(one), rank(next)) << next.words();
    if (rank(one) < rank(next) || !next.time_factor) continue;
    ASSERT_TRUE(one.time_factor) << next.words();
    EXPECT_LE(*one.time_factor, *next.time_factor) << next.words();
  }
  for (const MemorySwitch& one : all) {
    const std::string words = one.words();
    EXPECT_TRUE(one.time_factor) << words;
    EXPECT_TRUE(words.find("offload_optimizer") == std::string::npos || *one.time_factor > 1)
        << words;
  }
}

TEST_F(MemorySwitchesTest, EnoughOfThemFit) {
  const std::vector<MemorySwitch> all = switches(1, 16, 4);
  EXPECT_EQ(now_.fit, Fit::kDies);
  const auto enough = enough_switches(request_, now_, all, oracle_);
  ASSERT_TRUE(enough);
  EXPECT_EQ(enough->prediction.fit, Fit::kFits);
  for (const MemorySwitch& one : all) {
    if (one.trains_alike && one.prediction.fit == Fit::kFits &&
        !one.changes.contains("number_gpus")) {
      EXPECT_EQ(enough->changes, one.changes) << "the first that is enough alone";
      break;
    }
  }
  EXPECT_FALSE(enough_switches(request_, now_, {}, oracle_));
}

TEST_F(MemorySwitchesTest, SixteenBitsAreASwitchOfFloat32) {
  const Json half = {{"torch_dtype", "bfloat16"}};
  EXPECT_THAT(changes(switches(1, 16, 4)), Not(Contains(half)));
  dtype_ = "float32";
  EXPECT_THAT(changes(switches(1, 16, 4)), Contains(half));
}

TEST_F(MemorySwitchesTest, FreedGradientsAreASwitchOfTorchtune) {
  Json freed = {{"stack", "torchtune-in-backward"}};
  EXPECT_THAT(changes(switches(1, 1, 1)), Not(Contains(freed)));
  overrides_.stack = "torchtune";
  checkpointing_ = "true";  // else inputs of layers are more than gradients
  EXPECT_THAT(changes(switches(1, 1, 1)), Contains(freed));
  freed["gradient_accumulation_steps"] = 1;  // which trains something else
  EXPECT_THAT(changes(switches(1, 1, 4)), Contains(freed));
  request_.inputs["gradient_accumulation_steps"] = 4;
  EXPECT_THROW(oracle_.predict(request_, "torchtune-in-backward"), RunError);
}

TEST_F(MemorySwitchesTest, LigersLossIsASwitchOfProgramsThatHaveIt) {
  const Json liger = {{"stack", "transformers-liger"}};
  overrides_.stack = "transformers";
  const std::vector<MemorySwitch> all = switches(1, 16, 4);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const MemorySwitch& one) { return one.changes == liger; });
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->words(), "--stack transformers-liger");
  EXPECT_TRUE(found->trains_alike);
  // 11.5 of 12 bytes of 16 x 4096 x 49155 logits, and what fused norms keep less.
  EXPECT_GT(found->saved_bytes, 11.5 * 16 * 4096 * 49155);
  for (const MemorySwitch& one : all) EXPECT_FALSE(one.changes.contains("fast_kernels"));
  for (const char* other : {"transformers-trl", "transformers-liger", "torch"}) {
    overrides_.stack = other;
    for (const Json& change : changes(switches(1, 16, 4))) EXPECT_FALSE(change.contains("stack"));
  }
}

// As the command with these options is predicted.
TEST_F(MemorySwitchesTest, FourBitsOfTransformersAreThoseOfBitsandbytes) {
  overrides_.stack = "transformers";
  experiment_ = "finetune_lora_benchmark-v1.0.0";
  const Json qlora = {{"experiment", "finetune_qlora_benchmark-v1.0.0"}};
  const std::vector<MemorySwitch> all = switches(1, 16, 4);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const MemorySwitch& one) { return one.changes == qlora; });
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->prediction.machine.stack.name, "transformers-bitsandbytes");
}

TEST_F(MemorySwitchesTest, WordsAreOptionsOfTheProgram) {
  MemorySwitch one;
  one.changes = {{"batch_size", 2}, {"experiment", "e"}, {"stack", "s"}};
  EXPECT_EQ(one.words(), "--set batch_size=2 --experiment e --stack s");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
