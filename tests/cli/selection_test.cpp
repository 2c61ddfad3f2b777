#include "cli/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kTwelve = SFTBENCH_SOURCE_DIR "/experiments/spaces/cpu_smoke.yaml";
const std::string kTwoExperiments = SFTBENCH_SOURCE_DIR "/experiments/spaces/gpu_batch_sizes.yaml";

// The request that a command line chooses; its id or the error.
std::string chosen(std::vector<std::string> arguments) {
  CLI::App app;
  Selection selection;
  add_selection_options(app, selection);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  try {
    const LoadedSpace loaded = load_space(selection);
    resolve_options(loaded, selection);
    return choose_request(loaded.space, selection).entity_id;
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(SelectionTest, SeveralEntitiesNeedAChoiceThatIsShown) {
  EXPECT_EQ(chosen({kTwelve}),
            "the space has 12 entities and one is measured; expected a choice:\n"
            "  --entity 0  "
            "(batch_size.1-gradient_checkpointing.0-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0)\n"
            "  --entity 1  "
            "(batch_size.1-gradient_checkpointing.1-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0)\n"
            "  --entity 2  "
            "(batch_size.3-gradient_checkpointing.0-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0)\n"
            "  --entity 3  "
            "(batch_size.3-gradient_checkpointing.1-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0)\n"
            "  --entity 4  "
            "(batch_size.5-gradient_checkpointing.0-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0)\n"
            "  ... all of them: sftbench expand " +
                kTwelve);
}

TEST(SelectionTest, AnEntityIsChosenByIndexOrId) {
  const std::string third =
      "batch_size.3-gradient_checkpointing.0-model_max_length.256-model_name.smollm2-135m-"
      "number_gpus.0";
  const std::string third_of_17 =
      "model_name.smollm2-135m-number_gpus.0-model_max_length.256-batch_size.3.0-gradient_"
      "checkpointing.0";
  EXPECT_EQ(chosen({kTwelve, "--entity", "2"}), third);
  EXPECT_EQ(chosen({kTwelve, "--entity", third}), third);
  EXPECT_EQ(chosen({kTwelve, "--entity", third_of_17}), third);
  EXPECT_EQ(chosen({kTwelve, "--entity", third, "--ado-ids", "1.7"}), third_of_17);
  EXPECT_EQ(chosen({kTwelve, "--entity", third_of_17, "--ado-ids", "1.8"}), third);
  EXPECT_EQ(chosen({kTwelve, "--entity", "12"}),
            "--entity: there is no entity 12; expected 0 to 11");
  EXPECT_EQ(chosen({kTwelve, "--entity=-1"}), "--entity: there is no entity -1; expected 0 to 11");
  EXPECT_THAT(
      chosen({kTwelve, "--entity", "model_name.x"}),
      HasSubstr("--entity: no entity has the id 'model_name.x'; expected one of\n  --entity 0  ("));
}

TEST(SelectionTest, SettingEveryDimensionToOneValueIsAChoice) {
  EXPECT_EQ(chosen({kTwelve, "--set", "batch_size=3", "--set", "model_max_length=256", "--set",
                    "gradient_checkpointing=false"}),
            "batch_size.3-gradient_checkpointing.0-model_max_length.256-model_name.smollm2-135m-"
            "number_gpus.0");
}

TEST(SelectionTest, SeveralExperimentsNeedAChoiceThatIsShown) {
  const std::string id =
      "SFTTrainer.finetune_full_benchmark-v1.0.0-auto_stop_method.WARMUP_60S_STABLE_120S_OR_10_"
      "STEPS";
  EXPECT_THAT(
      chosen({kTwoExperiments, "--entity", "0"}),
      HasSubstr("the space has 2 experiments and one is measured; expected a choice:\n"
                "  --experiment "
                "SFTTrainer.finetune_full_benchmark-v1.0.0-auto_stop_method.WARMUP_60S_STABLE_120S_"
                "OR_10_STEPS-gradient_accumulation_steps.1\n"));
  EXPECT_THAT(chosen({kTwoExperiments, "--entity", "0", "--experiment", id}),
              HasSubstr("batch_size.8-"));
}

TEST(SelectionTest, AMistakeOfAMethodIsToldInItsWords) {
  const std::string methods = "'; expected lora-8bit or full or ";
  EXPECT_THAT(chosen({"--method", "lroa"}), StartsWith("--method: unknown method 'lroa" + methods));
  EXPECT_THAT(chosen({"--method", "lroa"}), HasSubstr("'lora'"));
  EXPECT_THAT(chosen({"--method", "reinforce"}),
              StartsWith("--method: unknown method 'reinforce" + methods));
  EXPECT_THAT(chosen({kTwelve, "--method", "lora"}),
              StartsWith("--method: 'finetune_lora_benchmark-v1.0.0' is not in this space"));
  EXPECT_THROW(chosen({"--method", "lora", "--experiment", "lora"}), CLI::ExcludesError);
  EXPECT_THAT(chosen({"--experiment", "lroa"}), StartsWith("--experiment: unknown experiment"));
  EXPECT_THAT(chosen({"--method", "full", "--set", "method=lora"}),
              StartsWith("--set method: is given beside --method"));
  EXPECT_THAT(chosen({"--set", "method=full", "--set", "method=lora"}),
              StartsWith("--set method: given twice"));
}

TEST(SelectionTest, ASpaceIsNeeded) {
  EXPECT_EQ(
      chosen({}),
      "no space is given; expected a SPACE file, --experiment ID with --set property=value, or "
      "--model DIR");
  EXPECT_EQ(
      chosen({"--experiment", "finetune_full_benchmark-v1.0.0", "--set", "model_name=smollm2-135m",
              "--set", "number_gpus=0", "--set", "model_max_length=8", "--set", "batch_size=1"}),
      "batch_size.1-model_max_length.8-model_name.smollm2-135m-number_gpus.0");
  EXPECT_THAT(chosen({"no-such-space.yaml"}),
              HasSubstr("no-such-space.yaml: cannot open: No such file"));
}

TEST(SelectionTest, TheGenerationOfAdosIdsIsChosen) {
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--ado-ids", "1.9"}),
            "--ado-ids: unknown value '1.9'; expected 1.7 or 1.8; did you mean '1.7'?");
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--ado-ids", "1.7"}),
            "model_name.smollm2-135m-number_gpus.0-model_max_length.256-batch_size.1.0-gradient_"
            "checkpointing.0");
}

TEST(SelectionTest, AnEmptySpaceHasNothingToChoose) {
  const std::string path = testing::TempDir() + "/empty_space.yaml";
  std::ofstream(path) << "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, "
                         "actuatorIdentifier: SFTTrainer}]\nentitySpace:\n"
                         "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
                         "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
                         "- {identifier: model_max_length, propertyDomain: {values: [8]}}\n"
                         "- {identifier: batch_size, propertyDomain: {domainRange: [4, 4], "
                         "interval: 1}}\n";
  const std::string error =
      "entitySpace: has no entity: a range holds no value; expected lower < upper";
  EXPECT_EQ(chosen({path}), error);
  EXPECT_EQ(chosen({path, "--entity", "0"}), error);
  std::filesystem::remove(path);
}

TEST(SelectionTest, OptionsAreChecked) {
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--weights", "rndom"}),
            "--weights: unknown value 'rndom'; expected auto or random; did you mean 'random'?");
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--padding", "long"}),
            "--padding: unknown value 'long'; expected longest or max_length or none or packed; "
            "did you mean 'longest'?");
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--gradient-sync", "lst"}),
            "--gradient-sync: unknown value 'lst'; expected each or last; did you mean 'last'?");
  EXPECT_EQ(chosen({kTwelve, "--entity", "0", "--reduce-dtype", "fp32"}),
            "--reduce-dtype: unknown value 'fp32'; expected float32 or bfloat16");
}

TEST(SelectionTest, TheCommandLineGoesOverTheSpaceFile) {
  CLI::App app;
  Selection selection;
  add_selection_options(app, selection);
  selection.space_path = SFTBENCH_SOURCE_DIR "/experiments/spaces/quickstart.yaml";
  const LoadedSpace space = load_space(selection);
  EXPECT_EQ(resolve_options(space, selection).weights, "random");
  EXPECT_EQ(resolve_options(space, selection).padding, Padding::kLongest);
  selection.weights = "auto";
  selection.ranks = 2;
  selection.threads = 3;
  EXPECT_EQ(resolve_options(space, selection).weights, "auto");
  EXPECT_EQ(resolve_options(space, selection).cpu_ranks, 2);
  EXPECT_EQ(resolve_options(space, selection).threads, 3);
  EXPECT_EQ(resolve_options(space, selection).gradient_sync, GradientSync::kLast);
  selection.gradient_sync = "each";
  selection.reduce_dtype = "float32";
  selection.communication_timeout_s = 7;
  EXPECT_EQ(resolve_options(space, selection).gradient_sync, GradientSync::kEach);
  EXPECT_EQ(resolve_options(space, selection).reduce_dtype, "float32");
  EXPECT_EQ(resolve_options(space, selection).communication_timeout_s, 7);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
