#include "sftbench/catalog/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog_files.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const Experiment& full() {
  return *Catalog::shipped().experiment("finetune_full_benchmark-v1.0.0");
}

std::optional<Json> accepted(const char* property, const std::string& yaml) {
  return full().find(property)->accept(parse_yaml(yaml, "x"));
}

TEST(ExperimentTest, HasTheDocumentsPropertiesAndDefaults) {
  const Experiment& experiment = full();
  EXPECT_EQ(experiment.actuator, "SFTTrainer");
  EXPECT_EQ(experiment.properties.size(), 34U);
  std::vector<std::string> required;
  for (const PropertySpec& spec : experiment.properties) {
    if (spec.required) required.push_back(spec.identifier);
  }
  EXPECT_THAT(required, ::testing::ElementsAre("model_name", "model_max_length", "batch_size",
                                               "number_gpus"));
  EXPECT_EQ(experiment.find("gradient_accumulation_steps")->default_value, 4);
  EXPECT_EQ(experiment.find("torch_dtype")->default_value, "bfloat16");
  EXPECT_EQ(experiment.find("num_train_epochs")->default_value, 1.0);
  EXPECT_EQ(experiment.find("gradient_checkpointing")->default_value, true);
  EXPECT_TRUE(experiment.find("auto_stop_method")->default_value.is_null());
  EXPECT_EQ(experiment.find("accelerate_config_mixed_precision")->default_value, "no");
  EXPECT_EQ(experiment.find("optim")->values.size(), 38U);
}

TEST(ExperimentTest, HasTheMeasuredPropertiesInAdosOrder) {
  std::vector<std::string> names;
  for (const MeasuredProperty& property : full().measured) names.push_back(property.identifier);
  EXPECT_THAT(
      names,
      ::testing::ElementsAre(
          "gpu_compute_utilization_min", "gpu_compute_utilization_avg",
          "gpu_compute_utilization_max", "gpu_memory_utilization_min", "gpu_memory_utilization_avg",
          "gpu_memory_utilization_max", "gpu_memory_utilization_peak", "gpu_power_watts_min",
          "gpu_power_watts_avg", "gpu_power_watts_max", "gpu_power_percent_min",
          "gpu_power_percent_avg", "gpu_power_percent_max", "cpu_compute_utilization",
          "cpu_memory_utilization", "train_runtime", "train_samples_per_second",
          "train_steps_per_second", "train_tokens_per_second", "train_tokens_per_gpu_per_second",
          "dataset_tokens_per_second", "dataset_tokens_per_second_per_gpu", "is_valid"));
}

TEST(ExperimentTest, FixesTheDocumentsParameters) {
  const Json& fixed = full().hardcoded;
  EXPECT_EQ(fixed["learning_rate"], 1e-5);
  EXPECT_EQ(fixed["weight_decay"], 0.0);
  EXPECT_EQ(fixed["warmup_ratio"], 0.03);
  EXPECT_EQ(fixed["lr_scheduler_type"], "cosine");
  EXPECT_EQ(fixed["packing"], false);
  EXPECT_EQ(fixed["response_template"], "\n### Response:");
}

TEST(PropertySpecTest, DomainsHaveTheDocumentsBounds) {
  const auto bounds = [](const char* property, int64_t low, int64_t high) {
    EXPECT_TRUE(accepted(property, std::to_string(low))) << property;
    EXPECT_FALSE(accepted(property, std::to_string(low - 1))) << property;
    EXPECT_TRUE(accepted(property, std::to_string(high))) << property;
    EXPECT_FALSE(accepted(property, std::to_string(high + 1))) << property;
  };
  bounds("number_gpus", 0, 32);
  bounds("batch_size", 0, 4096);
  bounds("model_max_length", 1, 131072);
  bounds("gradient_accumulation_steps", 1, 10000);
  bounds("number_nodes", 0, 8);
  bounds("fast_moe", 0, 32);
  bounds("max_steps", -1, 10000);
  bounds("num_train_epochs", 1, 10000);
  bounds("stop_after_seconds", -1, 1000000);
}

TEST(PropertySpecTest, NumbersKeepTheTypeThatTheyWereWrittenWith) {
  EXPECT_TRUE(accepted("batch_size", "8")->is_number_integer());
  EXPECT_TRUE(accepted("batch_size", "8.0")->is_number_float());
  EXPECT_EQ(full().find("batch_size")->canonical(8.0), Json(8));
  EXPECT_TRUE(full().find("num_train_epochs")->canonical(2).is_number_float());
  EXPECT_EQ(accepted("stop_after_seconds", "1e3"), Json(1000.0));
  EXPECT_FALSE(accepted("stop_after_seconds", "'1e3'"));
  EXPECT_FALSE(accepted("num_train_epochs", "0"));
  EXPECT_FALSE(accepted("num_train_epochs", "-0.5"));
  EXPECT_FALSE(accepted("batch_size", "1.5"));
  EXPECT_FALSE(accepted("batch_size", "true"));
  EXPECT_FALSE(accepted("stop_after_seconds", ".inf"));
  EXPECT_FALSE(accepted("stop_after_seconds", ".nan"));
}

TEST(PropertySpecTest, PartsOfEpochsAndSecondsAreLegal) {
  EXPECT_EQ(accepted("num_train_epochs", "0.5"), Json(0.5));
  EXPECT_EQ(accepted("num_train_epochs", "1.5"), Json(1.5));
  EXPECT_EQ(accepted("stop_after_seconds", "90.5"), Json(90.5));
  EXPECT_EQ(full().find("stop_after_seconds")->expectation(), "a number from -1 to below 1000001");
}

// As accelerate's configuration writes it.
TEST(PropertySpecTest, AShardingStrategyMayBeItsNumber) {
  const PropertySpec& spec = *full().find("fsdp_sharding_strategy");
  const char* names[] = {"FULL_SHARD",   "SHARD_GRAD_OP",      "NO_SHARD",
                         "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "SHARD_OPTIM"};
  for (int number = 1; number <= 6; ++number) {
    const std::string text = std::to_string(number);
    EXPECT_EQ(accepted("fsdp_sharding_strategy", text), Json(number));
    EXPECT_EQ(spec.canonical(*accepted("fsdp_sharding_strategy", text)), names[number - 1]);
    EXPECT_EQ(spec.canonical(*accepted("fsdp_sharding_strategy", "'" + text + "'")),
              names[number - 1]);
  }
  EXPECT_FALSE(accepted("fsdp_sharding_strategy", "0"));
  EXPECT_FALSE(accepted("fsdp_sharding_strategy", "7"));
  EXPECT_FALSE(accepted("fsdp_sharding_strategy", "1.5"));
  EXPECT_FALSE(accepted("distributed_backend", "1"));
}

TEST(PropertySpecTest, AFormOfCheckpointsMayBeItsNumber) {
  const PropertySpec& spec = *full().find("fsdp_state_dict_type");
  const char* names[] = {"FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"};
  for (int number = 1; number <= 3; ++number)
    EXPECT_EQ(spec.canonical(*accepted("fsdp_state_dict_type", std::to_string(number))),
              names[number - 1]);
  EXPECT_FALSE(accepted("fsdp_state_dict_type", "4"));
}

// A100-80G and NVIDIA-A100-SXM4-80GB were two GPUs once, with two keys and two predictions.
TEST(PropertySpecTest, AGpuIsKeyedByItsProductUnderEachOfItsNames) {
  const PropertySpec& spec = *full().find("gpu_model");
  EXPECT_EQ(spec.canonical("A100-80G"), "NVIDIA-A100-SXM4-80GB");
  EXPECT_EQ(spec.canonical("nvidia h100 80gb hbm3"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(spec.canonical("Somebodys-GPU"), "Somebodys-GPU");
  EXPECT_TRUE(spec.canonical("None").is_null());
  for (const GpuFacts& gpu : Catalog::shipped().gpus.gpus()) {
    EXPECT_EQ(spec.canonical(gpu.name), gpu.name);
    for (const std::string& alias : gpu.aliases) EXPECT_EQ(spec.canonical(alias), gpu.name);
  }
}

TEST(PropertySpecTest, BooleansMayBeZeroAndOne) {
  const PropertySpec& spec = *full().find("bf16");
  EXPECT_EQ(spec.canonical(*accepted("bf16", "yes")), true);
  EXPECT_EQ(spec.canonical(*accepted("bf16", "0")), false);
  EXPECT_EQ(spec.canonical(*accepted("bf16", "1")), true);
  EXPECT_FALSE(accepted("bf16", "2"));
  EXPECT_FALSE(accepted("bf16", "'true'"));
}

TEST(PropertySpecTest, TextThatYamlReadsAsSomethingElseIsTakenAsWritten) {
  EXPECT_EQ(accepted("accelerate_config_mixed_precision", "no"), Json("no"));
  EXPECT_EQ(accepted("accelerate_config_mixed_precision", "'no'"), Json("no"));
  EXPECT_FALSE(accepted("accelerate_config_mixed_precision", "off"));
  EXPECT_FALSE(accepted("torch_dtype", "float8"));
}

TEST(PropertySpecTest, NoneInEverySpellingIsNull) {
  const PropertySpec& spec = *full().find("distributed_backend");
  for (const char* text : {"None", "null", "~", "''"}) {
    ASSERT_TRUE(accepted("distributed_backend", text)) << text;
    EXPECT_TRUE(spec.canonical(*accepted("distributed_backend", text)).is_null()) << text;
  }
  EXPECT_FALSE(accepted("torch_dtype", "None"));
  EXPECT_FALSE(accepted("torch_dtype", "null"));
}

TEST(PropertySpecTest, UnknownGpusAreLegalUnknownModelsAreNot) {
  EXPECT_TRUE(accepted("gpu_model", "NVIDIA-GeForce-RTX-4090"));
  EXPECT_FALSE(accepted("model_name", "gpt-17"));
  EXPECT_TRUE(accepted("gpu_model", "\"\\u00fc\""));
  for (const char* text : {"\"a\\nb\"", "\"\\e[31m\"", "\"\\x7f\"", "\"\\u009b\""})
    EXPECT_FALSE(accepted("gpu_model", text)) << text;
}

TEST(PropertySpecTest, StringListsTakeThreeTruthValues) {
  const PropertySpec& spec = *full().find("fast_kernels");
  EXPECT_EQ(spec.canonical(*accepted("fast_kernels", "[True, 'False', true]")),
            Json({"True", "False", "True"}));
  EXPECT_FALSE(accepted("fast_kernels", "[True, True]"));
  EXPECT_FALSE(accepted("fast_kernels", "[True, True, maybe]"));
  EXPECT_TRUE(spec.canonical(*accepted("fast_kernels", "None")).is_null());
}

// --- the other four experiments ------------------------------------------------------------------

const Experiment& experiment(const char* identifier) {
  return *Catalog::shipped().experiment(identifier);
}

// The identifiers of the first one's properties that the second one does not have.
std::vector<std::string> only_in(const Experiment& first, const Experiment& second) {
  std::vector<std::string> names;
  for (const PropertySpec& spec : first.properties) {
    if (second.find(spec.identifier) == nullptr) names.push_back(spec.identifier);
  }
  return names;
}

TEST(ExperimentTest, SixExperimentsShip) {
  EXPECT_THAT(Catalog::shipped().experiment_names(),
              ::testing::UnorderedElementsAre(
                  "finetune_full_benchmark-v1.0.0", "finetune_full_stability-v1.0.0",
                  "finetune_lora_benchmark-v1.0.0", "finetune_pt_benchmark-v1.0.0",
                  "finetune_gptq-lora_benchmark-v1.0.0", "finetune_qlora_benchmark-v1.0.0"));
  for (const Experiment& one : Catalog::shipped().experiments) {
    EXPECT_EQ(one.actuator, "SFTTrainer");
    EXPECT_EQ(one.hardcoded["learning_rate"], 1e-5) << one.identifier;
    EXPECT_EQ(one.measured.back().identifier, "is_valid") << one.identifier;
  }
}

TEST(ExperimentTest, LoraAddsRankAndAlpha) {
  const Experiment& lora = experiment("finetune_lora_benchmark-v1.0.0");
  EXPECT_EQ(lora.tuning, TuningMethod::kLora);
  EXPECT_THAT(only_in(lora, full()), ::testing::IsEmpty());
  EXPECT_THAT(only_in(full(), lora), ::testing::IsEmpty());
  EXPECT_EQ(lora.find("r")->default_value, 4);
  EXPECT_EQ(lora.find("lora_alpha")->default_value, 16);
  for (const char* property : {"r", "lora_alpha"}) {
    EXPECT_TRUE(lora.find(property)->accept(parse_yaml("1", "x")));
    EXPECT_FALSE(lora.find(property)->accept(parse_yaml("0", "x")));
    EXPECT_TRUE(lora.find(property)->accept(parse_yaml("32", "x")));
    EXPECT_TRUE(lora.find(property)->accept(parse_yaml("64", "x")));
    EXPECT_FALSE(lora.find(property)->without_effect);
    EXPECT_TRUE(full().find(property)->without_effect);  // ado takes them in every experiment
  }
  EXPECT_EQ(lora.hardcoded["peft_method"], "lora");
  EXPECT_EQ(lora.hardcoded["lora_dropout"], 0.05);
  EXPECT_EQ(lora.measured.size(), 23U);
}

TEST(ExperimentTest, GptqLoraKnowsOnlyFloat16AndBothSpellings) {
  const Experiment& gptq = experiment("finetune_gptq-lora_benchmark-v1.0.0");
  EXPECT_EQ(&gptq, &experiment("finetune_gtpq-lora_benchmark-v1.0.0"));
  EXPECT_EQ(gptq.tuning, TuningMethod::kGptqLora);
  EXPECT_EQ(gptq.find("torch_dtype")->default_value, "float16");
  EXPECT_TRUE(gptq.find("torch_dtype")->accept(parse_yaml("float16", "x")));
  EXPECT_FALSE(gptq.find("torch_dtype")->accept(parse_yaml("bfloat16", "x")));
  EXPECT_EQ(gptq.find("fast_kernels")->default_value, Json({"True", "True", "True"}));
  EXPECT_THAT(only_in(gptq, full()), ::testing::IsEmpty());
  EXPECT_FALSE(gptq.find("r")->without_effect);
  EXPECT_EQ(gptq.hardcoded["auto_gptq"], "triton_v2");
}

TEST(ExperimentTest, PromptTuningHasTheFullExperimentsProperties) {
  const Experiment& prompt = experiment("finetune_pt_benchmark-v1.0.0");
  EXPECT_EQ(prompt.tuning, TuningMethod::kPrompt);
  EXPECT_EQ(prompt.property_names(), full().property_names());
  EXPECT_EQ(prompt.hardcoded["peft_method"], "pt");
  EXPECT_EQ(prompt.hardcoded["num_virtual_tokens"], 8);
}

TEST(ExperimentTest, StabilityIsFiveRunsOfFiveStepsAndMeasuresFractions) {
  const Experiment& stability = experiment("finetune_full_stability-v1.0.0");
  EXPECT_EQ(stability.runs, 5);
  EXPECT_EQ(full().runs, 1);
  EXPECT_EQ(stability.hardcoded["max_steps"], 5);
  EXPECT_THAT(only_in(full(), stability), ::testing::ElementsAre("max_steps"));
  std::vector<std::string> names;
  for (const MeasuredProperty& property : stability.measured) names.push_back(property.identifier);
  EXPECT_THAT(names,
              ::testing::ElementsAre("f_gpu_oom", "f_other_error", "f_no_error", "is_valid"));
}

TEST(ExperimentTest, TellsWhatIsWrongWithWhatItIsBasedOn) {
  const auto read = [](const std::string& path) { read_experiment(path, {}, {}); };
  const std::string folder = SFTBENCH_SOURCE_DIR "/experiments/";
  const std::string head = "identifier: e\nactuator: SFTTrainer\ntuning: full\nsummary: s\n";
  EXPECT_THAT(error_of_file(head + "based_on: nowhere\n", read),
              ::testing::HasSubstr("nowhere.yaml: cannot open: No such file or directory"));
  EXPECT_EQ(error_of_file(head + "based_on: " + folder + "finetune_qlora_benchmark-v1.0.0\n", read),
            folder + "finetune_qlora_benchmark-v1.0.0.yaml:5: based_on: '" +
                "finetune_lora_benchmark-v1.0.0' is itself based on another one; expected an "
                "experiment that says everything");
  EXPECT_EQ(error_of_file(head + "based_on: " + folder +
                              "finetune_full_benchmark-v1.0.0\nwithout: [max_stepss]\n",
                          read),
            "FILE: without: 'max_stepss' is no property of based_on; did you mean 'max_steps'?");
}

// A file with one optional property, `b`, of these members.
std::string error_of_property(const std::string& members) {
  return error_of_file(
      "identifier: e\nactuator: a\ntuning: full\nsummary: s\nrequired: {}\noptional:\n  b: {" +
          members + ", help: h}\nhardcoded: {}\nmeasured: []\n",
      [](const std::string& path) { read_experiment(path, {}, {}); });
}

TEST(ExperimentTest, ARangeIsTwoNumbersAndNoIntervalIsNegative) {
  EXPECT_EQ(error_of_property("kind: number, default: 1, range: [1, 2], interval: 0"), "no error");
  EXPECT_EQ(error_of_property("kind: number, default: 1, range: [1, 2]"), "no error");
  for (const char* range : {"[1]", "[1, 2, 3]", "[]", "[1, b]", "[1, 2], interval: -1"}) {
    EXPECT_THAT(error_of_property(std::string("kind: number, default: 1, range: ") + range),
                ::testing::MatchesRegex("FILE:7: b.range: found an? .*; expected .lower, upper."))
        << range;
  }
}

TEST(ExperimentTest, ARangeDoesNotBeginWithAText) {
  EXPECT_EQ(error_of_property("kind: number, default: 1, range: [a, 2]"),
            "FILE:7: b.range: found a list of 2; expected [lower, upper)");
}

TEST(ExperimentTest, AMethodOfTuningIsOneOfThoseThatThereAre) {
  const auto error = [](const std::string& line) {
    return error_of_file(
        "identifier: e\nactuator: a\n" + line +
            "summary: s\nrequired: {}\noptional: {}\nhardcoded: {}\nmeasured: []\n",
        [](const std::string& path) { read_experiment(path, {}, {}); });
  };
  EXPECT_EQ(error("tuning: pt\n"), "no error");
  EXPECT_EQ(
      error("tuning: qlra\n"),
      "FILE:3: tuning: found 'qlra'; expected one of full, gptq-lora, lora, pt, qlora; did you "
      "mean 'qlora'?");
  EXPECT_EQ(error("tuning: [pt]\n"), "FILE:3: tuning: found a list of 1; expected text");
  EXPECT_EQ(error(""), "FILE:1: tuning: missing");
}

TEST(ExperimentTest, AFileSaysWhatIsUnusual) {
  const TemporaryFile file(R"(identifier: e
actuator: a
tuning: full
summary: s
required:
  plain: {kind: string, values: [x], help: h}
optional: {}
hardcoded: {fixed: "a\tb", other: 1}
arguments:
  fixed: {kind: string, open: true, escaped: true, help: h}
  free: {kind: integer, default: 3, help: h}
measured: []
)");
  const Experiment experiment = read_experiment(file.path(), {}, {});
  const PropertySpec& plain = *experiment.find("plain");
  EXPECT_TRUE(plain.required);
  for (const bool flag :
       {plain.nullable, plain.open, plain.escaped, plain.one_line, plain.without_effect,
        plain.numbered, plain.zero_is_invalid, plain.argument})
    EXPECT_FALSE(flag);
  for (const char* argument : {"fixed", "free"}) {
    EXPECT_TRUE(experiment.find(argument)->argument) << argument;
    EXPECT_FALSE(experiment.find(argument)->required) << argument;
  }
  EXPECT_EQ(experiment.find("fixed")->default_value, "a\\tb");
  EXPECT_EQ(experiment.find("free")->default_value, 3);
  EXPECT_THAT(experiment.names(), ::testing::ElementsAre("plain", "fixed", "free"));
  EXPECT_THAT(experiment.property_names(), ::testing::ElementsAre("plain"));
}

TEST(ExperimentTest, ListsAllThatIsWrongWithAFile) {
  const std::string text = R"(identifier: e
actuator: SFTTrainer
tuning: full
summary: s
required:
  a: {kind: text, help: h}
optional:
  b: {kind: integer, range: [1, 5], default: 9, help: h, defualt: 3}
  a: {kind: string, open: true, default: x, help: h}
hardcoded: {}
measured: []
)";
  EXPECT_EQ(error_of_file(text, [](const std::string& path) { read_experiment(path, {}, {}); }),
            "FILE:6: a.kind: found 'text'; expected one of string, integer, number, boolean, "
            "string_list, module_names, object\n"
            "FILE:8: optional.b.default: found 9; expected an integer from 1 to 4\n"
            "FILE:8: optional.b.defualt: unknown key; expected one of kind, nullable, open, "
            "escaped, one_line, "
            "without_effect, numbered, values, values_from, length, "
            "range, interval, zero_is_invalid, unit, help, default; did you mean 'default'?\n"
            "FILE:9: a: described twice");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
