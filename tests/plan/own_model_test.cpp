// The key of a model of one's own follows what is in its folder, and not where that lies.
#include "plan/own_model.h"

#include <gmock/gmock.h>

#include "plan_files.h"
#include "sftbench/plan/job_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OwnModelTest : public PlanTest {
 protected:
  void SetUp() override {
    PlanTest::SetUp();
    place(model_folder("mine"));
    file("mine/tokenizer_config.json", "{}");
    file("pairs.jsonl", "{\"output\": \"a\"}\n");
  }

  void place(const std::string& folder) {
    options_.own_model = true;
    options_.model_path = folder;
    settings_.model_map["my-3b"] = {{"Vanilla", folder}};
  }

  Json inputs(std::vector<std::string> more = {}) const {
    more.emplace_back("model_name=my-3b");
    return effective_inputs(request(more), options_);
  }
  std::string key(const std::vector<std::string>& more = {}) const {
    return measurement_key("e", inputs(more));
  }
  // Whether the key is another one when this file is written in place.
  bool counts(const std::string& name, const std::string& content,
              const std::vector<std::string>& more = {}) {
    const std::string before = key(more);
    file(name, content);
    return key(more) != before;
  }

  const std::vector<std::string> chats_ = {"conversation_column=messages"};
  std::string data() const { return "training_data_path=" + (folder_ / "pairs.jsonl").string(); }

  ActuatorSettings settings_;
  ResolveOptions options_;
};

TEST_F(OwnModelTest, EveryFileThatIsTrainedOnCounts) {
  EXPECT_TRUE(counts("mine/config.json", R"({"model_type": "llama", "num_hidden_layers": 8})"));
  EXPECT_TRUE(counts("mine/config.json", R"({"model_type": "llama", "num_hidden_layers": 8,
                                             "rms_norm_eps": 0.5})"));
  EXPECT_TRUE(counts("mine/model.safetensors", "other weights"));
  EXPECT_TRUE(counts("mine/tokenizer.json", R"({"other": 1})"));
  EXPECT_TRUE(counts("mine/tokenizer_config.json", R"({"chat_template": "{{ 1 }}"})"));
  EXPECT_TRUE(counts("mine/special_tokens_map.json", "{}"));
  EXPECT_TRUE(counts("mine/chat_template.jinja", "{{ messages }}", chats_));
  EXPECT_TRUE(counts("mine/chat_template.json", "{}", chats_));
  EXPECT_TRUE(counts("mine/processor_config.json", "{}", chats_));
  EXPECT_TRUE(counts("mine/preprocessor_config.json", "{}", {"dataset_image_field=images"}));
  EXPECT_TRUE(counts("pairs.jsonl", "{\"output\": \"b\"}\n", {data()}));
}

TEST_F(OwnModelTest, WhatIsNotTrainedOnDoesNot) {
  EXPECT_FALSE(counts("mine/generation_config.json", "{\"temperature\": 2}"));
  EXPECT_FALSE(counts("mine/README.md", "mine"));
  EXPECT_FALSE(counts("mine/chat_template.jinja", "{{ messages }}")) << "no conversations";
  EXPECT_FALSE(counts("mine/chat_template.jinja", "{{ 1 }}",
                      {"conversation_column=messages", "chat_template='{{ messages }}'"}));
  options_.weights = "random";
  EXPECT_FALSE(counts("mine/model.safetensors", "other weights"));
  EXPECT_TRUE(counts("mine/config.json", R"({"model_type": "llama", "num_hidden_layers": 8})"));
  options_.weights = "auto";
  options_.backend = kBackendSimulate;
  EXPECT_FALSE(counts("mine/model.safetensors", "weights again"));
}

TEST_F(OwnModelTest, EveryShardCounts) {
  fs::remove(folder_ / "mine/model.safetensors");
  file("mine/model.safetensors.index.json",
       R"({"weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})");
  file("mine/x.safetensors", "x");
  file("mine/y.safetensors", "y");
  EXPECT_TRUE(inputs().contains("model_weights"));
  EXPECT_TRUE(counts("mine/x.safetensors", "z"));
  EXPECT_TRUE(counts("mine/y.safetensors", "z"));
  EXPECT_FALSE(counts("mine/z.safetensors", "no shard of the model"));
}

TEST_F(OwnModelTest, EveryFileOfAFolderOfDataCounts) {
  file("sets/a.jsonl", "{\"output\": \"a\"}\n");
  file("sets/b.jsonl", "{\"output\": \"b\"}\n");
  const auto in = [this](const char* folder) {
    return std::vector<std::string>{"training_data_path=" + (folder_ / folder).string()};
  };
  EXPECT_TRUE(counts("sets/a.jsonl", "{\"output\": \"c\"}\n", in("sets")));
  EXPECT_TRUE(counts("sets/b.jsonl", "{\"output\": \"c\"}\n", in("sets")));
  EXPECT_TRUE(counts("sets/c.jsonl", "{\"output\": \"c\"}\n", in("sets"))) << "one more";
  EXPECT_FALSE(counts("sets/dataset_info.json", "{}", in("sets"))) << "no data";
  EXPECT_FALSE(counts("sets/README.md", "of mine", in("sets")));
  const std::string before = key(in("sets"));
  fs::rename(folder_ / "sets", folder_ / "moved");
  EXPECT_EQ(key(in("moved")), before);
  file("held_out.jsonl", "{\"output\": \"a\"}\n");
  EXPECT_TRUE(counts("held_out.jsonl", "{\"output\": \"b\"}\n",
                     {data(), "validation_data_path=" + (folder_ / "held_out.jsonl").string()}));
}

TEST_F(OwnModelTest, AFolderMayMove) {
  const std::string here = key({data()});
  fs::create_directories(folder_ / "elsewhere");
  fs::rename(folder_ / "mine", folder_ / "elsewhere/renamed");
  fs::rename(folder_ / "pairs.jsonl", folder_ / "elsewhere/other.jsonl");
  const std::string data = "training_data_path=" + (folder_ / "elsewhere/other.jsonl").string();
  settings_.model_map.clear();
  place((folder_ / "elsewhere/renamed").string());
  EXPECT_EQ(key({data}), here);
  EXPECT_EQ(measurement_key(
                "e", effective_inputs(request({"model_name=Qwen/Qwen2.5-3B", data}), options_)),
            here)
      << "nor does its name count";
  EXPECT_EQ(inputs()["model_name"], "my-3b") << "it is still said";
  EXPECT_FALSE(inputs().contains("model_path"));
}

TEST_F(OwnModelTest, AnotherTokenizerCountsByItsContent) {
  const std::string other = model_folder("other");
  const std::vector<std::string> with_other = {"tokenizer_name_or_path=" + other};
  EXPECT_NE(key(with_other), key());
  EXPECT_TRUE(counts("other/tokenizer.json", R"({"other": 1})", with_other));
  EXPECT_FALSE(counts("mine/tokenizer.json", R"({"other": 2})", with_other));
  const std::string before = key(with_other);
  fs::rename(other, folder_ / "moved");
  EXPECT_EQ(key({"tokenizer_name_or_path=" + (folder_ / "moved").string()}), before);
}

TEST_F(OwnModelTest, AModelOfTheHubCountsByItsContentOnceItIsHere) {
  options_.model_path.clear();
  const std::vector<std::string> of_hub = {"model_name=Qwen/Qwen2.5-3B"};
  const auto of = [&] { return effective_inputs(request(of_hub), options_); };
  EXPECT_FALSE(of().contains("model_config"));
  const std::string snapshot = ".cache/huggingface/hub/models--Qwen--Qwen2.5-3B/snapshots/aaa";
  model_folder(snapshot);
  const std::string by_id = measurement_key("e", of());
  place((folder_ / "mine").string());
  fs::remove(folder_ / "mine/tokenizer_config.json");
  EXPECT_EQ(key(), by_id) << "the same content, wherever it is";
}

TEST_F(OwnModelTest, WhatIsNotHereIsNamedByItsIdUnlessNothingReadsIt) {
  options_ = {};
  const auto absent = [&](std::vector<std::string> more = {}) {
    more.emplace_back("model_name=smollm2-135m");
    std::vector<std::string> ids;
    for (const FetchRequest& one :
         absent_from_hub(request(more), settings_, options_, Catalog::shipped()))
      ids.push_back(one.hub_id);
    return ids;
  };
  const std::string model = "HuggingFaceTB/SmolLM2-135M", tokenizer = "Qwen/Qwen2.5-7B";
  EXPECT_THAT(absent(), ElementsAre(model));
  EXPECT_THAT(absent({"tokenizer_name_or_path=" + tokenizer}), ElementsAre(model, tokenizer));
  options_.weights = "random";
  EXPECT_THAT(absent({"tokenizer_name_or_path=" + tokenizer}), ElementsAre(tokenizer));
  options_.weights = "auto";
  options_.backend = kBackendSimulate;
  EXPECT_THAT(absent(), IsEmpty()) << "nothing is trained";
  options_.backend = kBackendLibtorch;
  model_folder(".cache/huggingface/hub/models--HuggingFaceTB--SmolLM2-135M/snapshots/aaa");
  EXPECT_THAT(absent(), IsEmpty()) << "it is here";
}

TEST_F(OwnModelTest, WhatCannotBeReadIsRefusedElsewhere) {
  fs::remove(folder_ / "mine/model.safetensors");
  EXPECT_FALSE(inputs().contains("model_weights"));
  fs::remove(folder_ / "mine/config.json");
  EXPECT_EQ(key().size(), 32U);
}

// As version 0.1.0 stored it, with the same arguments and --backend simulate.
TEST_F(OwnModelTest, KeysOfTheCatalogStay) {
  ResolveOptions options;
  options.backend = kBackendSimulate;
  EXPECT_EQ(measurement_key("finetune_full_benchmark-v1.0.0", effective_inputs(request(), options)),
            "7e65a57b7b8747d98cbc129e08ac20fb");
}

TEST_F(OwnModelTest, AStoredJobFollowsTheContentOfItsFiles) {
  const TrainingJob job =
      resolve(request({"model_name=my-3b", data()}), settings_, options_, Catalog::shipped()).job;
  const std::string path = file("job.json", job_file(job).dump());
  EXPECT_THAT(read_job_file(path).renewed, IsEmpty());
  EXPECT_EQ(read_job_file(path).job.inputs, job.inputs);

  file("mine/model.safetensors", "other weights");
  const JobFile weights = read_job_file(path);
  EXPECT_THAT(weights.renewed, Contains("the files of " + (folder_ / "mine").string()));
  EXPECT_THAT(weights.edited, IsEmpty());
  EXPECT_EQ(measurement_key("e", weights.job.inputs), key({data()})) << "as if it were planned now";

  file("pairs.jsonl", "{\"output\": \"b\"}\n");
  file("mine/tokenizer.json", R"({"other": 1})");
  const JobFile all = read_job_file(path);
  EXPECT_EQ(all.renewed.size(), 2U);
  EXPECT_EQ(measurement_key("e", all.job.inputs), key({data()}));

  fs::remove(folder_ / "pairs.jsonl");
  EXPECT_EQ(read_job_file(path).renewed.size(), 1U) << "what is gone is refused where it is read";
}

TEST_F(OwnModelTest, AStoredMixtureFollowsTheContentOfItsSets) {
  file("chats.jsonl", "{\"output\": \"c\"}\n");
  const std::string mixture = "data_mixture={\"datasets\": [{\"training_data_path\": \"" +
                              (folder_ / "pairs.jsonl").string() +
                              "\"}, {\"training_data_path\": \"" +
                              (folder_ / "chats.jsonl").string() + "\"}]}";
  const TrainingJob job =
      resolve(request({"model_name=my-3b", mixture}), settings_, options_, Catalog::shipped()).job;
  const std::string path = file("job.json", job_file(job).dump());
  EXPECT_THAT(read_job_file(path).renewed, IsEmpty());
  for (const char* set : {"pairs.jsonl", "chats.jsonl"}) {
    file(set, "{\"output\": \"d\"}\n");
    const JobFile again = read_job_file(path);
    EXPECT_THAT(again.renewed, Contains("the files of " + (folder_ / set).string()));
    EXPECT_EQ(measurement_key("e", again.job.inputs), key({mixture}));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
