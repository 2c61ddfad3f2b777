// What is saved can be used: against transformers, peft and Trainer (tests/reference/saved.py), and
// by the next run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/peft_adapter.h"
#include "engine/saved_files.h"
#include "engine/saving_fixture.h"
#include "model/golden.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/merge_adapter.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

const std::string kSaved = SFTBENCH_TEST_DATA "/saved/";

// --- merged adapters of the vocabulary -----------------------------------------------------------

struct VocabularyCase {
  const char* name;
  const char* base;
  bool tied;  // the merged model
};

class MergedVocabulary : public ::testing::TestWithParam<VocabularyCase> {};

TEST_P(MergedVocabulary, GivesTheLogitsOfPeftsModelBeforeTheMerge) {
  const TemporaryFolder folder;
  const std::string adapter = kSaved + GetParam().name, merged = folder / "merged";
  merge_adapter({adapter, training_folder() + "/" + GetParam().base, merged, 2, {}});
  const Json config = read_json_file(merged + "/config.json");
  EXPECT_EQ(config["tie_word_embeddings"], GetParam().tied);
  const auto model = make_causal_lm(config, torch::kFloat32, test_device());
  load_weights(*model, merged);
  const Tensors golden = read_tensors(adapter + "/logits.safetensors");
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = model->logits(TokenRows(golden.at("input_ids")));
  ASSERT_EQ(logits.sizes(), golden.at("logits").sizes());
  EXPECT_LE(relative_difference(logits, golden.at("logits")), 1e-5);  // float32, in another order
}

INSTANTIATE_TEST_SUITE_P(Cases, MergedVocabulary,
                         ::testing::Values(VocabularyCase{"embedding-tied", "llama", false},
                                           VocabularyCase{"embedding-untied", "llama_all", false},
                                           VocabularyCase{"vocabulary-tied", "llama", false},
                                           VocabularyCase{"rows-tied", "llama", true}),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// --- losses behind virtual tokens ----------------------------------------------------------------

TEST(SavedUse, LossesBehindVirtualTokensAreTrainersAndCountTheFirstToken) {
  const Json golden = read_json_file(kSaved + "prompt.json");
  TrainingJob job = job_of(golden);
  job.tuning = TuningMethod::kPrompt;
  job.prompt = adapter_job("llama-prompt").prompt;
  job.data.response_template = "";
  job.evaluation = {.path = job.data.path,
                    .split = 0,
                    .strategy = IntervalStrategy::kSteps,
                    .steps = job.batches.max_steps,
                    .per_device_batch_size = golden["eval_batch"]};
  const Recorder run = train(job);
  ASSERT_EQ(run.steps.size(), golden["steps"].size());
  for (size_t i = 0; i < run.steps.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden["steps"][i]["loss"].get<double>(), 1e-4)
        << "step " << i + 1;
    EXPECT_EQ(run.steps[i].tokens.loss_bearing, run.steps[i].tokens.dataset + run.steps[i].samples)
        << "all, and the end of each";
  }
  ASSERT_EQ(run.evaluations.size(), 1u);
  EXPECT_EQ(run.evaluations[0].tokens, golden["tokens"]);
  EXPECT_NEAR(run.evaluations[0].loss, golden["eval_loss"].get<double>(), 1e-4);
  EXPECT_NEAR(run.evaluations[0].token_loss, golden["token_loss"].get<double>(), 1e-4);
}

// --- which parameters decay ----------------------------------------------------------------------

TEST(SavedUse, WhatDecaysIsWhatTrainerDecaysInEveryFamily) {
  for (const char* file : {"training/decays.json", "saved/decays.json"}) {
    const Json families = read_json_file(std::string(SFTBENCH_TEST_DATA) + "/" + file);
    for (const auto& [family, decays] : families.items()) {
      const auto model =
          make_causal_lm(read_json_file(training_folder() + "/" + family + "/config.json"),
                         torch::kFloat32, torch::kMeta);
      int64_t found = 0;
      for (const NamedParameter& parameter : model->parameters()) {
        if (!decays.contains(parameter.name)) continue;
        ++found;
        const auto groups =
            group_by_decay({{parameter.name, torch::zeros({1}), parameter.of_layer_norm}}, 0.25);
        EXPECT_EQ(groups[0].parameters.size(), decays[parameter.name] == true ? 1u : 0u)
            << family << " " << parameter.name;
      }
      EXPECT_EQ(found, static_cast<int64_t>(model->parameters().size())) << family;
    }
  }
}

// --- files beside the weights --------------------------------------------------------------------

// A tokenizer whose configuration names these tokens alone.
TrainingJob job_with_tokens(const TemporaryFolder& folder, const Json& special,
                            const std::string& model) {
  fs::create_directories(folder / "tokenizer");
  // As many tokens as the models have rows.
  Json tokenizer = read_json_file(training_folder() + "/tokenizer/tokenizer.json");
  Json token = tokenizer["added_tokens"].back();
  for (int64_t id = 379; id < 384; ++id) {
    token.update({{"id", id}, {"content", "<" + std::to_string(id) + ">"}});
    tokenizer["added_tokens"].push_back(token);
  }
  write_file_atomic(folder / "tokenizer/tokenizer.json", tokenizer.dump(2));
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  config.update(special);
  write_file_atomic(folder / "tokenizer/tokenizer_config.json", config.dump());
  TrainingJob job = saving_job("", model);
  job.save = SavePlan();
  job.save.model_directory = folder / "model";
  job.model.tokenizer_directory = folder / "tokenizer";
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 2, .alpha = 4, .dropout = 0, .target_modules = {"q_proj"}};
  return job;
}

std::set<std::string> tensors_of(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : read_tensors(folder + "/adapter_model.safetensors"))
    names.insert(name);
  return names;
}

TEST(SavedUse, ATokenizerWithoutAPadTokenGetsOneThatTheBaseHas) {
  const TemporaryFolder folder;
  const TrainingJob job = job_with_tokens(
      folder, {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}, "llama");
  run_of(job, alone());
  const Json saved = read_json_file(folder / "model/tokenizer_config.json");
  EXPECT_EQ(saved["pad_token"], "<unk>");
  EXPECT_TRUE(read_file(folder / "model/tokenizer.json") ==
              read_file(folder / "tokenizer/tokenizer.json"))
      << "no token is added";
  EXPECT_THAT(tensors_of(folder / "model"), Not(Contains(HasSubstr("embed_tokens"))));
}

TEST(SavedUse, RowsOfATokenThatTextsHaveGoWithTheAdapter) {
  for (const char* model : {"llama", "llama_all"}) {
    const bool tied = std::string(model) == "llama";
    const TemporaryFolder folder;
    TrainingJob job = job_with_tokens(folder, {{"eos_token", "<end>"}}, model);
    // The file has no <end>: its id is behind the last row.
    const SavedRun run = run_of(job, alone());
    Tensors saved = read_tensors(folder / "model/adapter_model.safetensors");
    const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
    ASSERT_EQ(saved.count("base_model.model." + embedding), 1u);
    EXPECT_TRUE(torch::equal(saved["base_model.model." + embedding], run.at_begin.at(embedding)));
    EXPECT_EQ(saved.count("base_model.model." + head), tied ? 0u : 1u) << model;
    EXPECT_NE(read_file(folder / "model/tokenizer.json").find("<end>"), std::string::npos);

    // Merged, it has as many rows as the tokenizer has tokens, and is trained on by the next run.
    const std::string merged = folder / "merged";
    merge_adapter({folder / "model", job.model.weights_directory, merged, 1, {}});
    const int64_t rows = run.at_begin.at(embedding).size(0);
    EXPECT_GT(rows, 384);
    EXPECT_EQ(read_json_file(merged + "/config.json")["vocab_size"], rows);
    job.model.weights_directory = job.model.tokenizer_directory = merged;
    job.model.hf_config = read_json_file(merged + "/config.json");
    job.save = SavePlan();
    const SavedRun next = run_of(job, alone());
    EXPECT_EQ(next.at_begin.at(embedding).size(0), rows);
  }
}

TEST(SavedUse, ACheckpointWithRowsIsGoneOnFrom) {
  const TemporaryFolder folder;
  TrainingJob job = job_with_tokens(folder, {{"eos_token", "<end>"}}, "llama");
  job.save = saving_job(folder / "kept").save;
  const SavedRun straight = run_of(job, alone());
  EXPECT_THAT(tensors_of(folder / "kept/checkpoint-2"), Contains(HasSubstr("embed_tokens")));
  const SavedRun on = run_of(resumed(job), alone());
  EXPECT_EQ(on.losses, std::vector<double>(straight.losses.begin() + 2, straight.losses.end()));
  expect_same_bits(on.at_end, straight.at_end);
}

TEST(SavedUse, TheTemplateThatConversationsWereRenderedWithIsSaved) {
  const TemporaryFolder folder;
  TrainingJob job =
      job_with_tokens(folder, {{"eos_token", "</s>"}, {"chat_template", "of the base"}}, "llama");
  const auto files = [&job] {
    std::map<std::string, std::string> texts;
    for (const TokenizerFile& file : saved_files(job, 384)) texts[file.name] = file.text;
    return texts;
  };
  EXPECT_THAT(files()["tokenizer_config.json"], HasSubstr("of the base")) << "it was not used";
  EXPECT_EQ(files().count("chat_template.jinja"), 0u);
  job.data.conversation_field = "messages";
  job.data.chat_template = "{{ messages }}";
  EXPECT_EQ(files()["chat_template.jinja"], "{{ messages }}");
  EXPECT_THAT(files()["tokenizer_config.json"], Not(HasSubstr("of the base")));
  write_file_atomic(folder / "tokenizer/chat_template.jinja", "another one");
  EXPECT_EQ(files()["chat_template.jinja"], "{{ messages }}");
  job.data.chat_template = "another one";
  EXPECT_EQ(files()["chat_template.jinja"], "another one");
  // Several, of a folder that is not copied.
  fs::create_directories(folder / "tokenizer/additional_chat_templates");
  write_file_atomic(folder / "tokenizer/additional_chat_templates/tool_use.jinja", "with tools");
  job.data.chat_template = {};
  EXPECT_EQ(files().count("chat_template.jinja"), 0u);
  EXPECT_THAT(files()["tokenizer_config.json"], HasSubstr("with tools"));
  EXPECT_THAT(files()["tokenizer_config.json"], HasSubstr("another one"));
}

TEST(SavedUse, TheImageProcessorOfAVisionModelIsSaved) {
  const TemporaryFolder folder;
  TrainingJob job = job_with_tokens(folder, {{"eos_token", "</s>"}}, "llama");
  const auto names = [&job] {
    std::set<std::string> all;
    for (const TokenizerFile& file : saved_files(job, 1000)) all.insert(file.name);
    return all;
  };
  write_file_atomic(folder / "tokenizer/preprocessor_config.json", "{}");
  EXPECT_THAT(names(), Not(Contains("preprocessor_config.json"))) << "a text model has no images";
  job.model.hf_config = read_json_file(training_folder() + "/llava_clip/config.json");
  EXPECT_THAT(names(), Contains("preprocessor_config.json"));
}

// --- names of what was adapted -------------------------------------------------------------------

std::vector<std::string> targets_of(const std::string& family, std::vector<std::string> given) {
  TuningOptions options;
  options.lora.target_modules = std::move(given);
  const auto model =
      make_causal_lm(read_json_file(training_folder() + "/" + family + "/config.json"),
                     torch::kFloat32, torch::kCPU);
  const auto tuning = make_tuning(TuningMethod::kLora, options);
  tuning->apply(*model);
  return tuning->peft_config(*model)["target_modules"];
}

// peft expands the word anew, in a mixture to its router.
TEST(SavedUse, AllLinearIsSavedAsTheNamesThatWereAdapted) {
  EXPECT_THAT(targets_of("mixtral", {"all-linear"}),
              UnorderedElementsAre("q_proj", "k_proj", "v_proj", "o_proj"));
  EXPECT_THAT(targets_of("granitemoeshared", {"all-linear"}),
              UnorderedElementsAre("q_proj", "k_proj", "v_proj", "o_proj",
                                   "shared_mlp.input_linear", "shared_mlp.output_linear"));
  EXPECT_THAT(targets_of("granitemoeshared", {"v_proj", "input_linear"}),
              ElementsAre("v_proj", "shared_mlp.input_linear"))
      << "the experts have a tensor of that name";
  EXPECT_THAT(targets_of("gpt_bigcode", {"c_proj", "c_attn"}), ElementsAre("c_proj", "c_attn"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
