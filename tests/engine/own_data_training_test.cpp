// Ten steps on data of one's own in each form, with arguments that differ from the documents',
// against Hugging Face Trainer (tests/reference/own_data.py).
#include <gtest/gtest.h>

#include "engine/training_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/plan/data_sets.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class OwnDataJob {
 protected:
  TrainingJob job_of_form(const std::string& form) const {
    TrainingJob job;
    job.model.name = "llama";
    job.model.weights_directory = training_folder() + "/llama";
    job.model.hf_config = read_json_file(job.model.weights_directory + "/config.json");
    job.model.tokenizer_directory = training_folder() + "/tokenizer";
    job.data.model_max_length = golden_["model_max_length"];
    job.precision.torch_dtype = ParameterDtype::kFloat32;
    const Json& batch = golden_["batch"];
    job.batches.per_device_batch_size = batch["per_device_train_batch_size"];
    job.batches.gradient_accumulation_steps = batch["gradient_accumulation_steps"];
    job.batches.num_train_epochs = batch["num_train_epochs"];
    set_arguments(job);
    set_form(form, job.data);
    if (const char* device = std::getenv("SFTBENCH_TEST_DEVICE")) job.device.kind = device;
    return job;
  }

  void set_arguments(TrainingJob& job) const {
    const Json& arguments = golden_["arguments"];
    job.seed = arguments["seed"];
    OptimizerPlan& optimizer = job.optimizer;
    optimizer.learning_rate = arguments["learning_rate"];
    optimizer.schedule = arguments["lr_scheduler_type"];
    optimizer.schedule_options = arguments["lr_scheduler_kwargs"];
    optimizer.warmup_steps = arguments["warmup_steps"];
    optimizer.weight_decay = arguments["weight_decay"];
    optimizer.betas = {arguments["adam_beta1"], arguments["adam_beta2"]};
    optimizer.epsilon = arguments["adam_epsilon"];
    optimizer.max_grad_norm = arguments["max_grad_norm"];
  }

  void set_form(const std::string& form, DataSource& data) const {
    data.path = folder_ + (form == "text"     ? "texts.jsonl"
                           : form == "tokens" ? "tokens.jsonl"
                           : form == "chats"  ? "chats.jsonl"
                                              : "pairs.json");
    data.response_template = golden_["response_template"];
    if (form == "template") data.entry_template = golden_["template"];
    if (form == "text") data.text_field = "text";
    if (form == "all") data.response_template.clear();
    if (form == "tokens") data.pretokenized = true;
    if (form == "chats") {
      data.conversation_field = "messages";
      data.mask = ConversationMask::kFms;
      data.chat_template = read_file(folder_ + "chat.jinja");
    }
    if (form == "columns") {
      data.input_field = "input";
      data.output_field = "output";
    }
  }

  std::string folder_ = SFTBENCH_TEST_DATA "/own_data/";
  Json golden_ = read_json_file(folder_ + "golden.json");
};

class OwnVocabularyTest : public OwnDataJob, public testing::Test {};

// The tokenizer that ships has 8192 tokens, and gets two special ones.
TEST_F(OwnVocabularyTest, GrowsToAnothersTokensAndSaysSo) {
  TrainingJob job = job_of_form("all");
  const auto told = [&job] {
    for (const std::string& warning : train(job, 1).begin.warnings)
      if (warning.starts_with("the embedding grows")) return warning;
    return std::string();
  };
  EXPECT_EQ(told(), "");
  job.model.tokenizer_directory.clear();
  EXPECT_EQ(told(),
            "the embedding grows from the model's 384 rows (vocab_size) to the 8194 tokens of the "
            "tokenizer");
}

class OwnDataTraining : public OwnDataJob, public testing::TestWithParam<const char*> {
 protected:
  TrainingJob job() const { return job_of_form(GetParam()); }

  Json expected_steps() const {
    const bool chats = GetParam() == std::string("chats");
    const Json golden = chats ? read_json_file(folder_ + "chats.json") : golden_;
    return golden["forms"][GetParam()]["steps"];
  }
};

TEST_P(OwnDataTraining, ReproducesTrainerStepByStep) {
  const Json steps = expected_steps();
  const Recorder run = train(job());
  ASSERT_EQ(run.steps.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(run.steps[i].learning_rate, steps[i]["learning_rate"].get<double>(), 1e-15);
    EXPECT_NEAR(run.steps[i].loss, steps[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
    const double norm = steps[i]["grad_norm"];
    EXPECT_NEAR(run.steps[i].grad_norm, norm, 1e-3 * norm) << "step " << i + 1;
  }
}

TEST_P(OwnDataTraining, EntriesInOneRowGiveTheSameNumbers) {
  TrainingJob unpadded = job();
  unpadded.data.padding = Padding::kNone;
  const Json steps = expected_steps();
  const Recorder run = train(unpadded);
  ASSERT_EQ(run.steps.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    EXPECT_NEAR(run.steps[i].loss, steps[i]["loss"].get<double>(), 1e-4) << "step " << i + 1;
}

// What a run trains on stays the same, and its largest batch comes first.
TEST_P(OwnDataTraining, TheWorstBatchCanComeFirst) {
  TrainingJob worst_first = job();
  worst_first.data.worst_batch_first = true;
  const Recorder usual = train(job()), run = train(worst_first);
  const auto padded = [](const Recorder& of) {
    std::vector<int64_t> tokens;
    for (const StepEvent& step : of.steps) tokens.push_back(step.tokens.padded);
    return tokens;
  };
  std::vector<int64_t> expected = padded(usual), found = padded(run);
  if (job().batches.gradient_accumulation_steps == 1) {
    EXPECT_EQ(found.front(), *std::max_element(expected.begin(), expected.end()));
  }
  EXPECT_TRUE(std::is_permutation(found.begin(), found.end(), expected.begin(), expected.end()));
}

INSTANTIATE_TEST_SUITE_P(Forms, OwnDataTraining,
                         testing::Values("template", "text", "all", "columns", "tokens", "chats"),
                         [](const auto& form) { return std::string(form.param); });

// --- several sets --------------------------------------------------------------------------------

class MixtureTraining : public OwnDataJob, public testing::TestWithParam<const char*> {
 protected:
  Json set_of(const std::string& form) const {
    const DataSource data = job_of_form(form).data;
    Json set = {{"path", data.path}};
    if (data.pretokenized) set["pretokenized"] = true;
    if (!data.entry_template.empty()) set["entry_template"] = data.entry_template;
    if (!data.conversation_field.empty()) set["conversation_field"] = data.conversation_field;
    return set;
  }

  // tests/reference/mixtures.py.
  TrainingJob job() const {
    TrainingJob job = job_of_form("chats");
    job.data.response_template = golden_["response_template"];
    job.batches.max_steps = 10;
    job.data.sampling_seed = mixtures_["seed"];
    Json sets = {set_of("template"), set_of("tokens"), set_of("chats")};
    sets[0]["held_out"] = mixtures_["split"];
    const std::string strategy = GetParam();
    job.data.mixture = {{"sets", sets}};
    if (strategy != "concatenated") {
      for (size_t i = 0; i < 3; ++i) job.data.mixture["sets"][i]["share"] = mixtures_["shares"][i];
      job.data.mixture["stopping_strategy"] = strategy;
    }
    job.evaluation = {.path = {},
                      .split = mixtures_["split"],
                      .strategy = IntervalStrategy::kSteps,
                      .steps = mixtures_["eval_steps"],
                      .per_device_batch_size = mixtures_["eval_batch"]};
    return job;
  }

  Json mixtures_ = read_json_file(folder_ + "mixtures.json");
};

TEST_P(MixtureTraining, ReproducesTrainerOnSetsOfSeveralForms) {
  const Json& golden = mixtures_["mixtures"][GetParam()];
  const Recorder run = train(job());
  ASSERT_EQ(run.steps.size(), golden["steps"].size());
  for (size_t i = 0; i < run.steps.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden["steps"][i]["loss"].get<double>(), 1e-4)
        << "step " << i + 1;
  }
  ASSERT_EQ(run.evaluations.size(), golden["evaluations"].size());
  for (size_t i = 0; i < run.evaluations.size(); ++i) {
    EXPECT_NEAR(run.evaluations[i].loss, golden["evaluations"][i]["loss"].get<double>(), 1e-4);
    EXPECT_EQ(run.evaluations[i].entries, golden["evaluations"][i]["entries"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, MixtureTraining,
                         testing::Values("first_exhausted", "all_exhausted", "concatenated"),
                         [](const auto& test) { return std::string(test.param); });

TEST(MixtureErrors, OfAnEditedJobAreNamed) {
  TrainingJob job;
  const auto problem = [&job](const Json& mixture) {
    job.data.mixture = mixture;
    try {
      data_sets(job);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(problem({{"sets", Json::array()}}),
            "job: data.mixture.sets: is no list of sets; expected a list of objects with a path");
  EXPECT_EQ(problem({{"sets", {{{"path", "a"}, {"shares", 1}}}}}),
            "job: data.mixture.sets[0].shares: unknown key; expected one of conversation_field, "
            "entry_template, held_out, input_field, output_field, path, pretokenized, share, "
            "text_field, trained");
  EXPECT_EQ(problem({{"sets", {{{"path", "a"}, {"share", "half"}}}}}),
            "job: data.mixture.sets[0].share: found \"half\"; expected a value of another type");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
