// LoRA, prompt tuning and GPTQ-LoRA through the program, with its real engine on tiny checkpoints:
// what a measurement says of them, and what a user can get wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kFull = "finetune_full_benchmark-v1.0.0";
constexpr const char* kLora = "finetune_lora_benchmark-v1.0.0";
constexpr const char* kPrompt = "finetune_pt_benchmark-v1.0.0";
constexpr const char* kGptq = "finetune_gptq-lora_benchmark-v1.0.0";

// smollm2-135m, of which config/models.yaml knows the targets, stands for two tiny checkpoints: two
// layers of 32 features with 16 of keys and values, and a quantized one.
class TuningCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(std::string("tuning_") +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "data");
    std::ofstream(folder_ / "data/news-tokens-16384plus-entries-4096.jsonl")
        << R"({"output": "### Input:\n some words \n\n### Response: words of the day"})"
        << "\n";
    copy_model(fs::path(SFTBENCH_TEST_DATA) / "models/llama_plain", "plain");
    copy_model(fs::path(SFTBENCH_TEST_DATA) / "gptq/llama", "quantized");
    std::ofstream(folder_ / "config.yaml")
        << "parameters:\n  data_directory: " << (folder_ / "data").string()
        << "\n  model_map:\n    smollm2-135m: {Vanilla: " << (folder_ / "plain").string()
        << ", GPTQ-Quantized: " << (folder_ / "quantized").string() << "}\n";
  }

  void copy_model(const fs::path& from, const std::string& name) const {
    fs::create_directories(folder_ / name);
    for (const fs::path& source : {from, fs::path(SFTBENCH_SOURCE_DIR) / "datasets/tokenizer"}) {
      for (const auto& entry : fs::directory_iterator(source)) {
        if (!entry.is_regular_file()) continue;
        fs::copy_file(entry, folder_ / name / entry.path().filename(),
                      fs::copy_options::skip_existing);
      }
    }
  }

  std::vector<std::string> words(const std::string& experiment,
                                 const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"run", "--experiment", experiment};
    for (const char* common : {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=32",
                               "batch_size=1", "gradient_accumulation_steps=1", "max_steps=2"}) {
      all.insert(all.end(), {"--set", common});
    }
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), {"--config", (folder_ / "config.yaml").string(), "--threads", "1",
                           "--output", (folder_ / "results").string(), "--no-progress"});
    return all;
  }
  static ProgramResult run(std::vector<std::string> words) {
    return run_program(std::move(words), {{"SFTBENCH_ENGINE", ""}});
  }

  // The only result of what was run, which is as its schema says.
  Json result() const {
    fs::path found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
      if (entry.path().extension() != ".json") continue;
      EXPECT_TRUE(found.empty()) << found << " and " << entry.path();
      found = entry.path();
    }
    EXPECT_EQ(schema_violation(found), "");
    return read_json_file(found.string());
  }
  Json measurement(const std::string& experiment, const std::vector<std::string>& settings) const {
    const ProgramResult ended = run(words(experiment, settings));
    EXPECT_EQ(ended.status, 0) << ended.err;
    const Json json = result();
    EXPECT_EQ(json["status"], "valid");
    for (const Json& loss : json["extra"]["loss"]) EXPECT_TRUE(std::isfinite(loss.get<double>()));
    return json;
  }
  // Of what must end as failed: its code and message.
  std::string failure(std::vector<std::string> words) const {
    const ProgramResult ended = run(std::move(words));
    EXPECT_EQ(ended.status, 4) << ended.err;
    const Json json = result();
    EXPECT_EQ(json["status"], "failed");
    return json["reason"]["code"].get<std::string>() + ": " +
           json["reason"]["message"].get<std::string>();
  }

  void change_quantization(const std::string& key, const Json& value) const {
    const fs::path file = folder_ / "quantized/config.json";
    Json config = read_json_file(file.string());
    config["quantization_config"][key] = value;
    std::ofstream(file) << config;
  }

  fs::path folder_;
};

TEST_F(TuningCommandTest, LoraTrainsItsAdaptersAndShowsItsInputs) {
  const Json json = measurement(kLora, {"r=3", "torch_dtype=bfloat16"});
  EXPECT_EQ(json["inputs"]["r"], 3);
  EXPECT_EQ(json["inputs"]["lora_alpha"], 16);
  // q (32 to 32) and v (32 to 16) of two layers, each with r rows of A and columns of B.
  constexpr int64_t kTrained = 2 * 3 * ((32 + 32) + (32 + 16));
  const Json& extra = json["extra"];
  EXPECT_EQ(extra["parameters"]["trainable"], kTrained);
  const int64_t frozen = extra["parameters"]["total"].get<int64_t>() - kTrained;
  EXPECT_EQ(extra["memory_bytes"]["parameters"], Json({2 * frozen + 4 * kTrained}))
      << "adapters are float32";
  EXPECT_EQ(extra["memory_bytes"]["optimizer_state"], Json({8 * kTrained}));
}

TEST_F(TuningCommandTest, PromptTuningTrainsItsVirtualTokens) {
  const Json json = measurement(kPrompt, {});
  constexpr int64_t kTrained = 8 * 32;
  EXPECT_EQ(json["extra"]["parameters"]["trainable"], kTrained);
  EXPECT_EQ(json["extra"]["memory_bytes"]["optimizer_state"], Json({8 * kTrained}));
  EXPECT_FALSE(json["inputs"].contains("r"));
}

TEST_F(TuningCommandTest, GptqLoraTrainsOverPackedWeights) {
  const Json json = measurement(kGptq, {"r=2"});
  EXPECT_EQ(json["inputs"]["torch_dtype"], "float16");
  const Json& extra = json["extra"];
  const auto held = extra["memory_bytes"]["parameters"][0].get<int64_t>();
  const auto total = extra["parameters"]["total"].get<int64_t>();
  EXPECT_LT(held, 2 * total) << "all weights in float16 would take more";
  EXPECT_THAT(extra["compute_dtype"], ::testing::AnyOf("bfloat16", "float32", "float16"));
}

// --- what a user can get wrong ------------------------------------------------------------------

TEST_F(TuningCommandTest, RanksAboveTheSmallestDimensionAreRefused) {
  EXPECT_EQ(failure(words(kLora, {"r=17"})),
            "UNSUPPORTED: r 17 does not fit model.layers.0.self_attn.v_proj, which maps 32 to 16 "
            "features: a rank is between 1 and the smaller of the two");
}

TEST_F(TuningCommandTest, ValuesOutOfRangeAreInputErrors) {
  const auto said = [&](const char* experiment, const char* setting) {
    const ProgramResult ended = run(words(experiment, {setting}));
    EXPECT_EQ(ended.status, 2);
    EXPECT_FALSE(fs::exists(folder_ / "results"));
    return ended.err;
  };
  EXPECT_EQ(said(kLora, "r=0"),
            "sftbench: --set r: 0 is no value of r; expected an integer from 1 to 65536\n");
  EXPECT_EQ(said(kGptq, "torch_dtype=bfloat16"),
            "sftbench: --set torch_dtype: 'bfloat16' is no value of torch_dtype; expected one of "
            "float16; did you mean 'float16'?\n");
}

TEST_F(TuningCommandTest, APropertyOfAnotherMethodIsNamedAsWithoutEffect) {
  const ProgramResult ended = run(words(kPrompt, {"r=4"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, HasSubstr("--set r: 'r' has no effect on finetune_pt_benchmark-v1.0.0"));
}

TEST_F(TuningCommandTest, TargetsThatMatchNothingListWhatThereIs) {
  std::vector<std::string> dry = words(kLora, {});
  dry.push_back("--dry-run");
  Json job = Json::parse(run(dry).out);
  ASSERT_EQ(job["lora"]["target_modules"], Json({"q_proj", "v_proj"}));
  job["lora"]["target_modules"][1] = "v_prj";
  std::ofstream(folder_ / "job.json") << job;
  EXPECT_EQ(
      failure({"run", "--job", (folder_ / "job.json").string(), "--output",
               (folder_ / "results").string(), "--no-progress"}),
      "UNSUPPORTED: target_modules 'v_prj' matches no linear of the model; it has down_proj, "
      "gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj, or all-linear for all of them; did "
      "you mean 'v_proj'?");
}

TEST_F(TuningCommandTest, QuantizedFilesOfOtherBitsThanTheirConfigSaysAreRefused) {
  change_quantization("bits", 8);
  const std::string file = (folder_ / "quantized/model.safetensors").string();
  const std::string message = failure(words(kGptq, {}));
  EXPECT_THAT(message, HasSubstr("WEIGHTS: " + file +
                                 ": model.layers.0.self_attn.q_proj.qweight: has shape [8, 64]; "
                                 "expected [16, 64]\n"));
  EXPECT_THAT(message,
              EndsWith(file + ": model.layers.0.self_attn.q_proj: has codes of 4 bits; expected "
                              "quantization_config.bits 8 of config.json"));
}

TEST_F(TuningCommandTest, QuantizedFilesOfOtherGroupsThanTheirConfigSaysAreRefused) {
  change_quantization("group_size", 64);
  EXPECT_THAT(failure(words(kGptq, {})),
              EndsWith(": model.layers.0.self_attn.q_proj: has its 64 features in 2 groups, not 1; "
                       "expected quantization_config.group_size 64 of config.json"));
}

TEST_F(TuningCommandTest, BitsAndGroupsThatCannotBeAreListedTogether) {
  change_quantization("bits", 5);
  change_quantization("group_size", 0);
  const std::string file = (folder_ / "quantized/config.json").string();
  EXPECT_EQ(failure(words(kGptq, {})),
            "WEIGHTS: " + file + ": quantization_config.bits: found 5; expected 2, 3, 4 or 8\n" +
                file +
                ": quantization_config.group_size: found 0; expected a number of features, or -1 "
                "for all of them");
}

TEST_F(TuningCommandTest, OptimizersOfOtherHardwareSayWhatWorks) {
  EXPECT_EQ(
      failure(words(kFull, {"optim=adamw_torch_xla"})),
      "UNSUPPORTED: optim adamw_torch_xla needs an XLA device (a TPU, through torch_xla), and "
      "this program trains on CPUs and on NVIDIA GPUs; adamw_torch is the same update and "
      "works");
}

// A weight that is no number, as a damaged file or a broken merge has it.
TEST_F(TuningCommandTest, ALossThatIsNoNumberNamesStepRankAndModule) {
  const fs::path weights = folder_ / "plain/model.safetensors";
  std::string file = read_file(weights);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const Json header = Json::parse(file.substr(sizeof header_bytes, header_bytes));
  const Json& entry = header["model.layers.1.self_attn.v_proj.weight"];
  const float nan = std::nanf("");
  const size_t at = sizeof header_bytes + header_bytes + entry["data_offsets"][0].get<size_t>();
  std::memcpy(file.data() + at, &nan, sizeof nan);
  std::ofstream(weights, std::ios::binary) << file;

  EXPECT_EQ(failure(words(kFull, {"torch_dtype=float32"})),
            "WEIGHTS: the loss of step 1 is nan on rank 0; the first module whose result is not "
            "finite is model.layers.1.self_attn.v_proj");
  EXPECT_EQ(result()["reason"]["evidence"],
            "model.layers.1.self_attn.v_proj: model.layers.1.self_attn.v_proj.weight holds 1 value "
            "that is not finite");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
