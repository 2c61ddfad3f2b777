// Text models beside a vision tower (families/text_parts.cpp): trained as Trainer trains the text
// model alone, and saved with what else their checkpoint has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/saving_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/safetensors_writer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

struct TextPart {
  const char* text;  // of tests/reference/training
  const char* model_type;
  const char* architecture;
};

void PrintTo(const TextPart& part, std::ostream* stream) {
  *stream << part.model_type;
}

// As hubs have them: not the names of modules.
std::string stored_name(const std::string& name) {
  return "language_model." + name;
}

using Bytes = std::map<std::string, std::string>;

Bytes tensors_in(const fs::path& folder) {
  Bytes tensors;
  for (const CheckpointShard& shard : open_checkpoint(folder)) {
    for (const StoredTensor& tensor : shard.tensors) {
      std::string& bytes = tensors[tensor.name];
      bytes.resize(tensor.size_bytes);
      shard.read(tensor, 0, bytes.data(), bytes.size());
    }
  }
  return tensors;
}

const Bytes kOfImages = {
    {"vision_tower.vision_model.embeddings.patch_embedding.weight", "patches!"},
    {"multi_modal_projector.mm_input_projection_weight", "projects"}};

// Beside the text model's weights two tensors of bfloat16 that the text model has no place for.
void write_checkpoint(const std::string& folder, const TextPart& part) {
  const std::string text = weights_directory(part.text);
  fs::create_directories(folder);
  Json config = {{"model_type", part.model_type},
                 {"architectures", {part.architecture}},
                 {"dtype", "float32"},
                 {"vision_config", {{"hidden_size", 8}}},
                 {"text_config", read_json_file(text + "/config.json")}};
  config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"];
  write_file_atomic(folder + "/config.json", config.dump());
  std::vector<TensorHeader> headers;
  const Bytes tensors = tensors_in(text);
  for (const CheckpointShard& shard : open_checkpoint(text)) {
    for (const StoredTensor& tensor : shard.tensors)
      headers.push_back({stored_name(tensor.name), tensor.dtype, tensor.shape});
  }
  std::sort(headers.begin(), headers.end(),
            [](const TensorHeader& a, const TensorHeader& b) { return a.name < b.name; });
  for (const auto& [name, bytes] : kOfImages) headers.push_back({name, StoredDtype::kBF16, {2, 2}});
  SafetensorsWriter writer(folder + "/model.safetensors", headers);
  for (const auto& [name, bytes] : tensors) writer.append(bytes.data(), bytes.size());
  for (const auto& [name, bytes] : kOfImages) writer.append(bytes.data(), bytes.size());
  writer.finish();
}

TrainingJob job_of_part(const std::string& folder, TrainingJob job, const TextPart& part) {
  write_checkpoint(folder, part);
  job.model.weights_directory = folder;
  job.model.hf_config = read_json_file(folder + "/config.json");
  return job;
}

class TextPartTest : public testing::TestWithParam<TextPart> {
 protected:
  const TemporaryFolder folder_;
};

TEST_P(TextPartTest, TrainsAsTrainerTrainsTheTextModel) {
  const Json golden = golden_run(std::string(GetParam().text) + "-float32");
  const Recorder run = train(job_of_part(folder_ / "base", job_of(golden), GetParam()));
  ASSERT_EQ(run.steps.size(), golden["steps"].size());
  for (size_t i = 0; i < run.steps.size(); ++i)
    EXPECT_NEAR(run.steps[i].loss, golden["steps"][i]["loss"].get<double>(), 1e-4) << i;
}

TEST_P(TextPartTest, SavesWhatTheCheckpointHasBesideIt) {
  TrainingJob job = job_of_part(folder_ / "base", saving_job("", GetParam().text), GetParam());
  job.save = {};
  job.save.model_directory = folder_ / "model";
  const SavedRun run = run_of(job, alone());
  Bytes saved = tensors_in(folder_ / "model");
  EXPECT_EQ(saved.size(), tensors_in(folder_ / "base").size());
  for (const auto& [name, bytes] : kOfImages) EXPECT_EQ(saved[name], bytes) << name;
  EXPECT_TRUE(saved.contains("model.language_model.embed_tokens.weight"));
  EXPECT_EQ(read_json_file(folder_ / "model/config.json"), job.model.hf_config);

  TrainingJob next = job;
  next.model.weights_directory = folder_ / "model";
  next.save.model_directory = folder_ / "again";
  const SavedRun again = run_of(next, alone());
  expect_same_bits(again.at_begin, run.at_end);
  for (const auto& [name, bytes] : kOfImages) EXPECT_EQ(tensors_in(folder_ / "again")[name], bytes);
}

TEST_P(TextPartTest, GrowsTheVocabularyOfTheTextModel) {
  TrainingJob job = job_of_part(folder_ / "base", saving_job("", GetParam().text), GetParam());
  job.save = {};
  job.save.model_directory = folder_ / "model";
  job.model.weights_directory.clear();
  job.model.hf_config["text_config"]["vocab_size"] = 300;  // of the tokenizer's 384
  run_of(job, alone());
  const Json config = read_json_file(folder_ / "model/config.json");
  EXPECT_GT(config["text_config"]["vocab_size"], 300);
  EXPECT_FALSE(config.contains("vocab_size"));
}

TEST_P(TextPartTest, NamesAnAdapterAsTheWholeModelNamesItsModules) {
  TrainingJob job = job_of_part(folder_ / "base", saving_job("", GetParam().text), GetParam());
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 2, .alpha = 4, .target_modules = {"q_proj"}};
  job.save = {};
  job.save.model_directory = folder_ / "adapter";
  run_of(job, alone());
  const CheckpointShard adapter = open_safetensors(folder_ / "adapter/adapter_model.safetensors");
  ASSERT_FALSE(adapter.tensors.empty());
  for (const StoredTensor& tensor : adapter.tensors)
    EXPECT_THAT(tensor.name, testing::StartsWith("base_model.model.model.language_model.layers."));
  EXPECT_EQ(read_json_file(folder_ / "adapter/adapter_config.json")["exclude_modules"],
            R"((model\.)?(vision_tower|multi_modal_projector)\..*)");
}

INSTANTIATE_TEST_SUITE_P(
    Families, TextPartTest,
    testing::Values(TextPart{"gemma3", "gemma3", "Gemma3ForConditionalGeneration"},
                    TextPart{"mistral", "mistral3", "Mistral3ForConditionalGeneration"}),
    [](const auto& part) { return std::string(part.param.model_type); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
