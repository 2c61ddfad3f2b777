// Ten steps on data of one's own in each form, with arguments that differ from the documents', against
// Hugging Face Trainer (tests/reference/own_data.py).
#include <gtest/gtest.h>

#include "engine/training_fixture.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

class OwnDataTraining : public testing::TestWithParam<const char*> {
 protected:
  TrainingJob job() const {
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
    set_form(job.data);
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

  void set_form(DataSource& data) const {
    const std::string form = GetParam();
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
      data.chat_template = read_file(folder_ + "chat.jinja");
    }
    if (form == "columns") {
      data.input_field = "input";
      data.output_field = "output";
    }
  }

  Json expected_steps() const {
    const bool chats = GetParam() == std::string("chats");
    const Json golden = chats ? read_json_file(folder_ + "chats.json") : golden_;
    return golden["forms"][GetParam()]["steps"];
  }

  std::string folder_ = SFTBENCH_TEST_DATA "/own_data/";
  Json golden_ = read_json_file(folder_ + "golden.json");
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

INSTANTIATE_TEST_SUITE_P(Forms, OwnDataTraining,
                         testing::Values("template", "text", "all", "columns", "tokens", "chats"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace sftbench
