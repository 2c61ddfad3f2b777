// One entity, one verdict: what `expand` says of it, `predict`, `sweep --dry-run` and `run
// --dry-run` say as well, in the same words, and `models` of its model. What a machine lacks is
// said by those that would measure on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;

struct Case {
  const char* name;
  const char* tuning;  // of the experiment
  std::vector<std::string> settings;
  const char* verdict;  // of expand: valid, invalid, unsupported
  const char* reason;   // its beginning; of a valid one: what this machine lacks
  const char* note;     // of all of them
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class VerdictsTest : public testing::TestWithParam<Case> {
 protected:
  VerdictsTest() : folder_(fresh_folder(std::string("verdicts_") + GetParam().name)) {
    configure_small_dataset(folder_);
  }

  ProgramResult ask(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        command, "--experiment", std::string("finetune_") + GetParam().tuning + "_benchmark-v1.0.0",
        "--config", (folder_ / "config.yaml").string()};
    for (const char* usual : {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=64",
                              "batch_size=2", "max_steps=3"}) {
      const std::string property = std::string(usual).substr(0, std::string(usual).find('=') + 1);
      const bool given =
          std::any_of(GetParam().settings.begin(), GetParam().settings.end(),
                      [&](const std::string& setting) { return setting.rfind(property, 0) == 0; });
      if (!given) words.insert(words.end(), {"--set", usual});
    }
    for (const std::string& setting : GetParam().settings) {
      if (setting.rfind("--", 0) == 0) {
        words.push_back(setting);
      } else {
        words.insert(words.end(), {"--set", setting});
      }
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words, {}, folder_);
  }

  std::filesystem::path folder_;
};

TEST_P(VerdictsTest, IsTheSameInAllCommands) {
  const Case& c = GetParam();
  const std::string expected = c.verdict;
  const bool valid = expected == "valid";

  const ProgramResult expand = ask("expand", {"--format", "json", "--weights", "random"});
  ASSERT_EQ(expand.status, 0) << expand.err;
  const Json row = Json::parse(expand.out).at(0);
  EXPECT_EQ(row["verdict"], expected) << expand.out;
  std::string reason = c.reason;
  if (!valid) {
    const Json& first = row["reason"].at(0);
    reason = first["code"].get<std::string>() + ": " + first["message"].get<std::string>();
    EXPECT_THAT(reason, testing::StartsWith(c.reason));
  }

  const ProgramResult sweep =
      ask("sweep", {"--dry-run", "--format", "json", "--weights", "random"});
  ASSERT_EQ(sweep.status, 0) << sweep.err;
  const Json cell = Json::parse(sweep.out).at(0);
  const bool measured = valid && reason.empty();
  EXPECT_EQ(cell["action"], measured                ? "measure"
                            : expected == "invalid" ? "record as invalid"
                                                    : "record as failed");
  if (!valid) {
    EXPECT_EQ(cell["reason"], reason);
  }
  if (valid && !reason.empty()) {
    EXPECT_THAT(cell["reason"].get<std::string>(), testing::StartsWith(reason));
  }

  const ProgramResult run = ask("run", {"--dry-run", "--weights", "random"});
  EXPECT_EQ(run.status, valid ? 0 : expected == "invalid" ? 3 : 4) << run.err;
  EXPECT_THAT(run.err, HasSubstr(measured ? ""
                                 : valid  ? cell["reason"].get<std::string>()
                                          : reason));
  EXPECT_EQ(run.out.empty(), !valid);

  const ProgramResult predict =
      ask("predict", {"--flops-per-s", "1e12", "--inside-gb-per-s", "10"});
  EXPECT_EQ(predict.status, run.status) << predict.err;
  if (!valid) {
    EXPECT_THAT(predict.err, HasSubstr(reason));
  }

  for (const ProgramResult* result : {&expand, &sweep, &run, &predict}) {
    EXPECT_THAT(result->err, HasSubstr(c.note));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Entities, VerdictsTest,
    testing::Values(
        Case{"Valid", "full", {}, "valid", "", ""}, Case{"ValidLora", "lora", {}, "valid", "", ""},
        Case{"AValueWithoutEffect",
             "full",
             {"gpu_model=NVIDIA-H100-PCIe"},
             "valid",
             "",
             "gpu_model \"NVIDIA-H100-PCIe\" has no effect without GPUs"},
        Case{"AnEvaluationOfNothing",
             "lora",
             {"eval_strategy=steps", "eval_steps=7"},
             "valid",
             "",
             "eval_steps 7 has no effect without validation_data_path or eval_split"},
        Case{"BatchOfGpus",
             "full",
             {"number_gpus=4", "batch_size=6", "gpu_model=NVIDIA-H100-PCIe"},
             "invalid",
             "RULE_1: batch_size 6 cannot be divided evenly by number_gpus 4",
             ""},
        Case{"NodesOfGpus",
             "full",
             {"number_gpus=4", "number_nodes=3", "batch_size=4", "gpu_model=NVIDIA-H100-PCIe"},
             "invalid",
             "RULE_2: ",
             ""},
        Case{"NoGpuModel", "full", {"number_gpus=1"}, "invalid", "RULE_5: gpu_model", ""},
        Case{"Experts",
             "full",
             {"model_name=mixtral-8x7b-instruct-v0.1", "fast_moe=3"},
             "invalid",
             "RULE_6: ",
             ""},
        Case{"BatchOfRanks",
             "full",
             {"--ranks=4", "batch_size=6"},
             "unsupported",
             "UNSUPPORTED: batch_size 6 cannot be divided evenly by --ranks 4",
             ""},
        Case{"RowsOfRanks",
             "full",
             {"--ranks=4", "batch_size=4", "context_parallel=3"},
             "unsupported",
             "UNSUPPORTED: context_parallel 3 divides rows among ranks, and 4 of them cannot be",
             ""},
        Case{"RowsBehindVirtualTokens",
             "pt",
             {"--ranks=2", "batch_size=2", "context_parallel=2"},
             "unsupported",
             "UNSUPPORTED: context_parallel 2: prompt tuning puts its tokens in front of whole",
             ""},
        Case{"RowsBeyondLearnedPositions",
             "full",
             {"model_name=gpt2", "model_max_length=2048"},
             "unsupported",
             "UNSUPPORTED: model_max_length 2048: model_name gpt2 has learned 1024 positions",
             ""},
        Case{"TilesOfExperts",
             "full",
             {"model_name=granite-3.1-3b-a800m-instruct", "mlp_tiles=4"},
             "unsupported",
             "UNSUPPORTED: mlp_tiles 4: model_name granite-3.1-3b-a800m-instruct has experts, "
             "which sort",
             ""},
        Case{"AGraphOfDropout",
             "lora",
             {"model_name=smollm2-135m", "number_gpus=1", "gpu_model=L40S", "step_graph=true"},
             "unsupported",
             "UNSUPPORTED: step_graph true: each step drops other inputs of adapters; lora_dropout "
             "0 works",
             ""},
        Case{"ImagesForATextModel",
             "full",
             {"model_name=smollm2-135m", "dataset_id=vision-384x384-16384plus-entries-4096"},
             "unsupported",
             "UNSUPPORTED: dataset_id vision-384x384-16384plus-entries-4096 holds images, and",
             ""},
        Case{"ImagesWithoutTheirColumn",
             "lora",
             {"model_name=granite-vision-3.2-2b",
              "dataset_id=vision-384x384-16384plus-entries-4096"},
             "unsupported",
             "UNSUPPORTED: dataset_id vision-384x384-16384plus-entries-4096 holds images, and "
             "dataset_image_field None",
             ""},
        Case{"OptimizerOfATpu",
             "full",
             {"optim=adamw_torch_xla"},
             "unsupported",
             "UNSUPPORTED: optim adamw_torch_xla needs an XLA device",
             ""},
        Case{"TwoReasons",
             "full",
             {"fast_moe=1", "model_name=granite-3.1-3b-a800m-instruct",
              "dataset_kwargs_skip_prepare_dataset=true"},
             "invalid",
             "RULE_",
             ""},
        Case{"ContradictingPrecisions",
             "full",
             {"bf16=true", "accelerate_config_mixed_precision=fp16"},
             "unsupported",
             "UNSUPPORTED: bf16 true contradicts",
             ""},
        Case{"ForeignLayerClass",
             "full",
             {"number_gpus=2", "gpu_model=NVIDIA-H100-PCIe", "distributed_backend=FSDP",
              "accelerate_config_fsdp_transformer_layer_cls_to_wrap=GPTJBlock"},
             "unsupported",
             "UNSUPPORTED: accelerate_config_fsdp_transformer_layer_cls_to_wrap GPTJBlock",
             ""},
        Case{"PicturesAreNoText",
             "full",
             {"dataset_id=vision-384x384-16384plus-entries-4096"},
             "unsupported",
             "UNSUPPORTED: dataset_id vision-",
             ""},
        Case{"ScheduleWithoutItsLeastRate",
             "full",
             {"lr_scheduler_type=cosine_with_min_lr"},
             "unsupported",
             "UNSUPPORTED: learning-rate schedule cosine_with_min_lr: neither min_lr nor "
             "min_lr_rate is set; expected one of them",
             ""},
        Case{"ScheduleWithAnUnknownOption",
             "lora",
             {R"(lr_scheduler_kwargs={"num_cycle": 2})"},
             "unsupported",
             "UNSUPPORTED: learning-rate schedule cosine: no option 'num_cycle'; there are "
             "num_cycles; did you mean 'num_cycles'?",
             ""},
        Case{
            "ScheduleWithAnOptionOfAnotherType",
            "pt",
            {"lr_scheduler_type=polynomial", R"(lr_scheduler_kwargs={"power": "2"})"},
            "unsupported",
            "UNSUPPORTED: learning-rate schedule polynomial: option power: found \"2\"; expected a "
            "number",
            ""},
        Case{"ScheduleThatEndsAboveTheRate",
             "full",
             {"lr_scheduler_type=polynomial", "learning_rate=1e-8"},
             "unsupported",
             "UNSUPPORTED: learning-rate schedule polynomial: lr_end 1e-07 is not below the "
             "learning rate 1e-08",
             ""},
        Case{"ScheduleLongerThanTheRun",
             "full",
             {"lr_scheduler_type=warmup_stable_decay",
              R"(lr_scheduler_kwargs={"num_decay_steps": 5})"},
             "unsupported",
             "UNSUPPORTED: learning-rate schedule warmup_stable_decay: warm-up, num_stable_steps "
             "and num_decay_steps are 1, -3 and 5 of 3 steps; expected none below 0",
             ""},
        Case{"ScheduleOfARunWhoseLengthIsNotKnown",
             "full",
             {"lr_scheduler_type=warmup_stable_decay", "max_steps=-1",
              R"(lr_scheduler_kwargs={"num_decay_steps": 5})"},
             "valid",
             "",
             ""},
        Case{"TargetsThatNameNoLinear",
             "lora",
             {"target_modules=q_prj"},
             "unsupported",
             "UNSUPPORTED: target_modules 'q_prj' matches no linear of the model; it has ",
             ""},
        Case{
            "TargetsThatMatchNoLinear",
            "lora",
            {"target_modules=.*attention[.]q"},
            "unsupported",
            "UNSUPPORTED: target_modules '.*attention[.]q' matches no linear of the model from end "
            "to end; it has ",
            ""},
        Case{"ExpertsThatAreQuantized",
             "gptq-lora",
             {"model_name=granite-3.1-3b-a800m-instruct", "torch_dtype=float16"},
             "unsupported",
             "UNSUPPORTED: model_name granite-3.1-3b-a800m-instruct: quantization_config: found a "
             "mixture of experts quantized in GPTQ; expected weights that are not quantized",
             ""},
        Case{"GpusThatTheBuildHasNoCodeFor",
             "full",
             {"number_gpus=1", "gpu_model=Tesla-V100-PCIE-16GB", "torch_dtype=float32"},
             "valid",
             "UNSUPPORTED: number_gpus asks for 1 GPU on this machine, which has no NVIDIA driver",
             "gpu_model Tesla-V100-PCIE-16GB: CUDA 13 of `experiments/setup.sh --cuda` has no code "
             "for its compute capability 7.0; a build with CUDA 12 has"},
        Case{"GpusThatAreNotHere",
             "full",
             {"number_gpus=1", "gpu_model=NVIDIA-H100-PCIe"},
             "valid",
             "UNSUPPORTED: number_gpus asks for 1 GPU on this machine, which has no NVIDIA driver",
             ""}),
    [](const testing::TestParamInfo<Case>& test) { return std::string(test.param.name); });

class VerdictsOfModelsTest : public testing::Test {
 protected:
  // Of a space with all the models that the experiment knows; {} where the space is refused.
  static std::map<std::string, std::string> expanded(const std::string& tuning) {
    const std::string experiment = "finetune_" + tuning + "_benchmark-v1.0.0";
    const PropertySpec* models = Catalog::shipped().experiment(experiment)->find("model_name");
    std::string list;
    for (const std::string& model : models->values) list += (list.empty() ? "" : ", ") + model;
    const ProgramResult result =
        run_program({"expand", "--experiment", experiment, "--set", "model_name=[" + list + "]",
                     "--set", "number_gpus=0", "--set", "model_max_length=64", "--set",
                     "batch_size=1", "--format", "json"});
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, std::string> verdicts;
    const Json rows = Json::parse(result.out);
    for (size_t i = 0; i < rows.size(); ++i) verdicts[models->values[i]] = rows[i]["verdict"];
    return verdicts;
  }
};

TEST_F(VerdictsOfModelsTest, ModelsSaysOfEachWhatExpandSays) {
  const Json models = Json::parse(run_program({"models", "--format", "json"}).out);
  const std::map<std::string, std::string> verdicts = expanded("full");
  EXPECT_GT(verdicts.size(), 20u);
  int unsupported = 0, predicted = 0;
  for (const Json& model : models) {
    const auto found = verdicts.find(model["model"]);
    if (found == verdicts.end()) continue;
    EXPECT_EQ(model["trains"].get<bool>(), found->second == "valid") << model["model"];
    unsupported += found->second == "unsupported" ? 1 : 0;
    predicted += model["trains"].get<bool>() ? 0 : 1;
  }
  EXPECT_EQ(unsupported, predicted);
}

TEST_F(VerdictsOfModelsTest, OfManyEntitiesEachHasItsOwn) {
  const ProgramResult result =
      run_program({"expand", "--experiment", "finetune_lora_benchmark-v1.0.0", "--set",
                   "model_name=[smollm2-135m, granite-vision-3.2-2b]", "--set", "number_gpus=0",
                   "--set", "model_max_length=[64, 128, 256]", "--set", "batch_size=[1, 2]",
                   "--set", "optim=[adamw_torch, adamw_torch_xla]", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  int valid = 0;
  for (const Json& row : Json::parse(result.out)) {
    const std::string id = row["entity_id"];
    const bool fine = id.find("xla") == std::string::npos;
    EXPECT_EQ(row["verdict"], fine ? "valid" : "unsupported") << id;
    valid += fine ? 1 : 0;
  }
  EXPECT_EQ(valid, 12);
  EXPECT_THAT(result.err,
              HasSubstr("12 valid, 0 invalid, 12 unsupported: this version cannot train "
                        "them"));
}

TEST_F(VerdictsOfModelsTest, AGpuThatIsNotKnownIsNotedByAll) {
  const std::vector<std::string> words = {"--experiment", "finetune_full_benchmark-v1.0.0",
                                          "--set",        "model_name=smollm2-135m",
                                          "--set",        "number_gpus=1",
                                          "--set",        "model_max_length=64",
                                          "--set",        "batch_size=1",
                                          "--set",        "gpu_model=NVIDIA-H100-80GB-HBM4"};
  for (std::vector<std::string> command : {std::vector<std::string>{"expand"},
                                           {"sweep", "--dry-run", "--weights", "random"},
                                           {"run", "--dry-run", "--weights", "random"}}) {
    command.insert(command.end(), words.begin(), words.end());
    const ProgramResult result = run_program(command);
    EXPECT_THAT(result.err, HasSubstr("gpu_model NVIDIA-H100-80GB-HBM4 is not in config/gpus.yaml"))
        << command.front();
    EXPECT_THAT(result.err, HasSubstr("did you mean")) << command.front();
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
