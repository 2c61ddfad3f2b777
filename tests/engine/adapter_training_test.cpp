// Whole runs with adapters against the same runs of Hugging Face Trainer over peft
// (tests/reference/adapters.py): LoRA from given adapters, prompt tuning from its text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "engine/peft_adapter.h"
#include "engine/train_steps.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

Json golden_of(const std::string& name) {
  return read_json_file(adapter_folder(name) + "/golden.json");
}

std::vector<NamedParameter> trained_of(const TrainingRun& run) {
  std::vector<NamedParameter> trained;
  for (const NamedParameter& parameter : run.model->parameters()) {
    if (parameter.tensor->requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

// Trains as Engine::train_job() does, from peft's LoRA adapters. Virtual tokens start from their
// text and must be peft's without help.
struct AdapterRun {
  explicit AdapterRun(const TrainingJob& job, const std::string& name)
      : run(prepare_run(job, alone())) {
    if (!is_prompt(name)) load_adapter(adapter_folder(name) + "/initial", run, alone());
    train_steps(run, alone(), {&recorder}, [] { return false; });
  }

  TrainingRun run;
  Recorder recorder;
};

struct Tolerance {
  double loss;       // absolute
  double grad_norm;  // relative
  double values;     // of the final adapter, relative to its tensor's norm
};

constexpr Tolerance kFloat32 = {1e-4, 1e-3, 2e-3};
// The base model's tensors and activations carry 8 bits of mantissa; adapters are float32 on both
// sides, but are rounded for their GEMMs here.
constexpr Tolerance kBFloat16 = {6e-3, 3e-2, 0.1};

Tolerance tolerance_of(const Json& golden) {
  return golden["torch_dtype"] == "float32" && golden["autocast"] == "no" ? kFloat32 : kBFloat16;
}

void expect_losses(const Recorder& recorder, const Json& golden, const Tolerance& tolerance) {
  ASSERT_EQ(recorder.steps.size(), golden["steps"].size());
  double worst_loss = 0, worst_norm = 0;
  for (size_t i = 0; i < recorder.steps.size(); ++i) {
    const Json& expected = golden["steps"][i];
    const StepEvent& found = recorder.steps[i];
    const double loss = expected["loss"], norm = expected["grad_norm"];
    EXPECT_NEAR(found.loss, loss, tolerance.loss) << "step " << i + 1;
    EXPECT_NEAR(found.grad_norm, norm, tolerance.grad_norm * norm) << "step " << i + 1;
    worst_loss = std::max(worst_loss, std::abs(found.loss - loss));
    worst_norm = std::max(worst_norm, std::abs(found.grad_norm / norm - 1));
  }
  std::cout << "largest difference: loss " << worst_loss << ", grad norm " << worst_norm
            << " relative\n";
}

void expect_final_values(AdapterRun& ours, const TrainingJob& job, const std::string& name,
                         double tolerance) {
  TrainingRun theirs = prepare_run(job, alone());
  load_adapter(adapter_folder(name) + "/final", theirs, alone());
  const std::vector<NamedParameter> expected = trained_of(theirs), found = trained_of(ours.run);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double distance = (*found[i].tensor - *expected[i].tensor).norm().item<double>();
    EXPECT_LE(distance, tolerance * expected[i].tensor->norm().item<double>()) << found[i].name;
  }
}

class GoldenAdapterTraining : public testing::TestWithParam<const char*> {};

TEST_P(GoldenAdapterTraining, ReproducesTrainerOverPeftStepByStep) {
  const Json golden = golden_of(GetParam());
  TrainingJob job = adapter_job(GetParam());
  AdapterRun run(job, GetParam());
  expect_losses(run.recorder, golden, tolerance_of(golden));
  expect_final_values(run, job, GetParam(), tolerance_of(golden).values);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoldenAdapterTraining,
    testing::Values("llama-lora_qv", "llama-lora_all", "llama-prompt", "mistral-lora_qv",
                    "mistral-lora_all", "mistral-prompt", "granite-lora_qv", "granite-lora_all",
                    "granite-prompt", "bloom-lora_mlp", "gpt_bigcode-lora_attn", "gpt_oss-lora_qv",
                    "granitemoe-lora_qv", "granitemoehybrid-lora_qv", "granitemoehybrid-lora_all",
                    "granitemoeshared-lora_qv", "mixtral-lora_qv", "qwen2-lora_qv", "qwen3-lora_qv",
                    "llama-lora_all-bfloat16", "llama-lora_qv-autocast_bf16",
                    "llama-prompt-bfloat16", "llama-alora_qv", "granite-alora_all",
                    "granitemoehybrid-alora_all", "granite-dora", "llama-dora-bfloat16"),
    [](const auto& tested) {
      std::string name = tested.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

class AdapterTrainingVariants : public testing::TestWithParam<const char*> {};

TEST_P(AdapterTrainingVariants, CheckpointingOrNotGivesTheSameNumbers) {
  const Json golden = golden_of(GetParam());
  TrainingJob job = adapter_job(GetParam());
  job.activations.gradient_checkpointing = false;
  expect_losses(AdapterRun(job, GetParam()).recorder, golden, tolerance_of(golden));
  job.activations = {.gradient_checkpointing = true, .use_reentrant = true};
  expect_losses(AdapterRun(job, GetParam()).recorder, golden, tolerance_of(golden));
}

INSTANTIATE_TEST_SUITE_P(Cases, AdapterTrainingVariants,
                         testing::Values("llama-lora_qv", "granite-lora_all", "mistral-prompt",
                                         "llama-alora_qv", "granite-alora_all", "granite-dora"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// peft's use_rslora divides by the root of the rank: the golden run's scale, from another alpha.
TEST(AdapterTraining, RankStabilizedAdaptersAreScaledByTheRootOfTheRank) {
  const Json golden = golden_of("llama-lora_qv");
  TrainingJob job = adapter_job("llama-lora_qv");
  ASSERT_GT(job.lora.rank, 1);
  job.lora.use_rslora = true;
  job.lora.alpha /= std::sqrt(static_cast<double>(job.lora.rank));
  expect_losses(AdapterRun(job, "llama-lora_qv").recorder, golden, tolerance_of(golden));
}

class AdapterDropout : public testing::TestWithParam<const char*> {};

TEST_P(AdapterDropout, GivesTheSameLossesWithEveryKindOfCheckpointing) {
  TrainingJob job = adapter_job(GetParam());
  job.lora.dropout = 0.2;
  job.batches.max_steps = 3;
  const auto losses = [&job](bool checkpointing, bool reentrant) {
    job.activations = {.gradient_checkpointing = checkpointing, .use_reentrant = reentrant};
    std::vector<double> values;
    for (const StepEvent& step : AdapterRun(job, GetParam()).recorder.steps)
      values.push_back(step.loss);
    return values;
  };
  const std::vector<double> kept = losses(false, false);
  EXPECT_EQ(losses(true, false), kept);
  EXPECT_EQ(losses(true, true), kept);
  EXPECT_NE(kept[0], golden_of(GetParam())["steps"][0]["loss"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Cases, AdapterDropout, testing::Values("llama-lora_all", "granite-dora"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// |W|, which peft's adapter starts from as long as B is zero.
TEST(AdapterTraining, MagnitudesStartAtTheNormsOfTheWeightsRows) {
  const TrainingJob job = adapter_job("granite-dora");
  TrainingRun theirs = prepare_run(job, alone());
  load_adapter(adapter_folder("granite-dora") + "/initial", theirs, alone());
  const TrainingRun ours = prepare_run(job, alone());
  const std::vector<NamedParameter> found = trained_of(ours), expected = trained_of(theirs);
  size_t magnitudes = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].name.ends_with("magnitude_vector.weight")) continue;
    ++magnitudes;
    EXPECT_TRUE(torch::allclose(*found[i].tensor, *expected[i].tensor, 1e-6)) << found[i].name;
  }
  EXPECT_EQ(magnitudes, 9u);
}

TEST(AdapterTraining, SaysHowMuchIsTrained) {
  const Recorder recorder = train(adapter_job("llama-lora_qv"), 1);
  const int64_t H = 32, key_width = 16, rank = 4, layers = 3;
  EXPECT_EQ(recorder.begin.parameters_trainable, layers * rank * (H + H + H + key_width));
  const Recorder full = train(job_of(golden_run("llama-float32")), 1);
  EXPECT_EQ(recorder.begin.parameters_total,
            full.begin.parameters_total + recorder.begin.parameters_trainable);
}

TEST(AdapterTraining, VirtualTokensAreCountedWhereTheyAreComputed) {
  TrainingJob job = adapter_job("llama-prompt");
  const StepEvent prompted = train(job, 1).steps[0];
  job.tuning = TuningMethod::kFull;
  const StepEvent full = train(job, 1).steps[0];
  EXPECT_EQ(prompted.tokens.padded, full.tokens.padded + 8 * prompted.samples);
  EXPECT_EQ(prompted.tokens.dataset, full.tokens.dataset);
  EXPECT_EQ(prompted.tokens.loss_bearing, full.tokens.loss_bearing);
  EXPECT_GT(prompted.attention_flops, full.attention_flops);
}

TEST(AdapterTraining, PromptsStartFromATextOrAtRandom) {
  TrainingJob job = adapter_job("llama-prompt");
  job.prompt.init = "RANDOM";
  EXPECT_EQ(train(job, 1).steps.size(), 1u);
  const auto message = [&job] {
    try {
      train(job, 1);
    } catch (const RunError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  job.prompt.init = "TXT";
  EXPECT_EQ(message(),
            "prompt.init 'TXT' is not implemented; there are RANDOM, TEXT; did you mean "
            "'TEXT'?");
  job.data.padding = Padding::kPacked;
  EXPECT_EQ(message(),
            "prompt tuning with padding packed: its virtual tokens stand in front of each row, so "
            "a row has to be one entry; longest or max_length works");
  job.data.padding = Padding::kMaxLength;
  job.prompt = {.virtual_tokens = 0, .init = "TEXT", .init_text = "a"};
  EXPECT_EQ(message(), "prompt tuning with 0 virtual tokens; it takes at least one");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
