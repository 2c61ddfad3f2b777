// README.md of what a run saves: its metadata against peft's (tests/reference/cards.py), what it
// says of the run, and that a run leaves the same bytes whether it was interrupted or not.
#include "engine/saved_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "engine/saving_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/yaml.h"
#include "sftbench/checkpoint/manifest.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHeldOut = SFTBENCH_TEST_DATA "/evaluation/dataset.jsonl";

Json metadata_of(const std::string& card) {
  const size_t end = card.find("\n---\n");
  return to_json(parse_yaml(card.substr(4, end - 4), "README.md"));
}

std::string card_in(const std::string& folder) {
  return read_file(folder + "/README.md");
}

std::string fixed(double loss) {
  std::string text(64, '\0');
  text.resize(static_cast<size_t>(std::snprintf(text.data(), text.size(), "%.4f", loss)));
  return text;
}

TrainingJob lora_job(const std::string& checkpoints) {
  TrainingJob job = saving_job(checkpoints);
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 3, .alpha = 16, .dropout = 0.5, .target_modules = {"q_proj", "v_proj"}};
  return job;
}

TEST(SavedCard, TellsWhatWasTrained) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.model_directory = folder / "model";
  job.data.dataset_id = "complaints";
  job.optimizer.max_grad_norm = OptimizerPlan().max_grad_norm;
  const SavedRun run = run_of(job, alone());
  const std::string card = card_in(folder / "model");
  EXPECT_THAT(card, HasSubstr("- Base model: `" + job.model.weights_directory + "`\n"));
  EXPECT_THAT(card, HasSubstr("- Dataset: `complaints`\n"));
  EXPECT_THAT(card, HasSubstr("- Method: `full`\n"));
  EXPECT_THAT(card, HasSubstr("- Optimization steps: `4`\n"));
  EXPECT_THAT(card, HasSubstr("- Training loss, last step: `" + fixed(run.losses.at(3)) + "`\n"));
  EXPECT_THAT(card, Not(HasSubstr("Evaluation")));
  EXPECT_THAT(card, HasSubstr("- optimizer.learning_rate: `0.001`\n"));
  EXPECT_THAT(card, HasSubstr("- batches.max_steps: `4`\n"));
  EXPECT_THAT(card, Not(HasSubstr("max_grad_norm"))) << "it has its default";
  EXPECT_THAT(card, Not(HasSubstr(folder / ""))) << "nobody else has this folder";
  EXPECT_THAT(card_in(folder / "checkpoints/checkpoint-2"),
              HasSubstr("- Training loss, last step: `" + fixed(run.losses.at(1)) + "`\n"));
  const Json metadata = metadata_of(card);
  EXPECT_EQ(metadata, (Json{{"base_model", job.model.weights_directory},
                            {"library_name", "transformers"},
                            {"pipeline_tag", "text-generation"},
                            {"tags", Json::array({"sft"})}}));
}

TEST(SavedCard, IsAFileOfTheManifest) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.model_directory = folder / "model";
  run_of(job, alone());
  for (const char* saved : {"model", "checkpoints/checkpoint-4"}) {
    const std::string path = folder / saved;
    EXPECT_TRUE(holds_only_saved_files(path));
    write_file_atomic(fs::path(path) / "README.md", card_in(path) + "mine\n");
    EXPECT_THROW(verify_files(path, read_manifest(path)), InputError);
  }
}

// Tags of its own may stand beside peft's.
void expect_as_in_peft(const std::string& card, const char* method) {
  const Json peft = read_json_file(SFTBENCH_TEST_DATA "/cards/peft.json").at(method);
  const Json ours = metadata_of(card);
  for (const auto& [key, value] : peft.items()) {
    if (key == "tags") continue;
    EXPECT_EQ(ours.value(key, Json()), value) << key;
  }
  for (const Json& tag : peft.at("tags")) {
    const Json& tags = ours.at("tags");
    EXPECT_NE(std::find(tags.begin(), tags.end(), tag), tags.end()) << tag;
  }
  EXPECT_EQ(ours.size(), peft.size());
}

TEST(SavedCard, OfAnAdapterHasPeftsMetadata) {
  const TemporaryFolder folder;
  TrainingJob job = lora_job(folder / "lora");
  job.model.weights_directory.clear();
  job.model.name = "org/base";
  run_of(job, alone());
  const std::string card = card_in(folder / "lora/checkpoint-4");
  expect_as_in_peft(card, "lora");
  EXPECT_THAT(card, HasSubstr("\n# LoRA adapter of `org/base`\n"));
  EXPECT_THAT(card, HasSubstr("- Base model: `org/base with random weights`\n"));
  EXPECT_THAT(card, HasSubstr("- Method: `lora, r 3, lora_alpha 16`\n"));
  EXPECT_THAT(card, HasSubstr("- lora.dropout: `0.5`\n"));

  job = saving_job(folder / "prompt");
  job.tuning = TuningMethod::kPrompt;
  job.prompt = {.virtual_tokens = 5, .init = "RANDOM", .init_text = ""};
  job.model.weights_directory.clear();
  job.model.name = "org/base";
  run_of(job, alone());
  expect_as_in_peft(card_in(folder / "prompt/checkpoint-4"), "prompt");
  EXPECT_THAT(card_in(folder / "prompt/checkpoint-4"),
              HasSubstr("- Method: `pt, 5 virtual tokens`\n"));
}

TEST(SavedCard, HasTheLossOfAnEvaluationAfterItsStep) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.steps = 1;
  job.evaluation = {.path = kHeldOut, .strategy = IntervalStrategy::kSteps, .steps = 2};
  const SavedRun run = run_of(job, alone());
  ASSERT_EQ(run.evaluations.at(0).step, 2);
  EXPECT_THAT(card_in(folder / "checkpoints/checkpoint-2"),
              HasSubstr("- Evaluation loss: `" + fixed(run.evaluations[0].loss) + "`\n"));
  EXPECT_THAT(card_in(folder / "checkpoints/checkpoint-3"), Not(HasSubstr("Evaluation")));
}

TEST(SavedCard, OfTheBestModelIsOfItsStep) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  job.save.steps = 1;
  job.save.model_directory = folder / "model";
  job.save.best_model = true;
  job.optimizer.learning_rate = 0.3;  // the loss rises from the second step on
  job.optimizer.warmup_ratio = 0;
  job.optimizer.schedule = "constant";
  job.evaluation = {.path = kHeldOut, .strategy = IntervalStrategy::kSteps, .steps = 1};
  const SavedRun run = run_of(job, alone());
  ASSERT_LT(run.end.best_step, 4) << "or the test says nothing";
  const std::string card = card_in(folder / "model");
  EXPECT_THAT(card, HasSubstr("- Optimization steps: `" + std::to_string(run.end.best_step) + "`"));
  EXPECT_THAT(card, HasSubstr("- Evaluation loss: `" + fixed(run.end.best_loss) + "`\n"));
  EXPECT_THAT(card, Not(HasSubstr("Training loss"))) << "it is that of another step";
}

TEST(SavedCard, HasTheSameBytesWhenARunWasInterrupted) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "whole");
  job.evaluation = {.path = kHeldOut, .strategy = IntervalStrategy::kSteps, .steps = 2};
  run_of(job, alone());
  TrainingJob rest = job;
  rest.save.resume_from = folder / "whole/checkpoint-2";
  rest.save.checkpoint_directory = folder / "rest";
  run_of(rest, alone());
  EXPECT_EQ(card_in(folder / "rest/checkpoint-4"), card_in(folder / "whole/checkpoint-4"));
}

TEST(SavedCard, IsNotThatOfTheBaseModel) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  fs::copy(job.model.weights_directory, folder / "base");
  write_file_atomic(folder / "base/README.md", "---\nlicense: other\n---\nthe base's own\n");
  job.model.weights_directory = folder / "base";
  run_of(job, alone());
  const std::string card = card_in(folder / "checkpoints/checkpoint-4");
  EXPECT_THAT(card, Not(HasSubstr("the base's own")));
  EXPECT_FALSE(metadata_of(card).contains("license"));
}

TEST(SavedCard, OfAModelThatSeesImagesSaysSo) {
  TrainingJob job = saving_job("");
  EXPECT_EQ(metadata_of(saved_card_text(job, Json(), {}))["pipeline_tag"], "text-generation");
  job.model.hf_config["vision_config"] = Json::object();
  EXPECT_EQ(metadata_of(saved_card_text(job, Json(), {}))["pipeline_tag"], "image-text-to-text");
}

TEST(SavedCard, OfRandomWeightsNamesNoBase) {
  TrainingJob job = saving_job("");
  job.model.weights_directory.clear();
  const std::string card = saved_card_text(job, Json(), {});
  EXPECT_FALSE(metadata_of(card).contains("base_model"));
  EXPECT_THAT(card, HasSubstr("\n# Model trained from random weights\n"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
