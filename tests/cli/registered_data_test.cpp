// LLaMA-Factory's sets of dataset_info.json, and chat templates that files name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RegisteredDataTest : public OwnTrainingTest {
 protected:
  RegisteredDataTest() {
    fs::create_directories(folder_ / "theirs/data");
    write("theirs/data/alpaca.json", R"([{"instruction": "a", "input": "b", "output": "c"}])");
    write(
        "theirs/data/turns.json",
        R"([{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}])");
    write("theirs/data/asked.json", R"([{"question": "a", "answer": "b"}])");
    write("theirs/data/dataset_info.json", R"({
      "alpaca": {"file_name": "alpaca.json"},
      "turns": {"file_name": "turns.json", "formatting": "sharegpt"},
      "tagged": {"file_name": "turns.json", "formatting": "sharegpt",
                 "columns": {"messages": "conversations", "tools": "tools"},
                 "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "speaker"}},
      "asked": {"file_name": "asked.json", "columns": {"prompt": "question", "response": "answer"}},
      "three": {"file_name": "asked.json",
                "columns": {"prompt": "question", "query": "more", "response": "answer"}},
      "texts": {"file_name": "asked.json", "columns": {"prompt": "answer"}},
      "ranked": {"file_name": "alpaca.json", "ranking": true},
      "hub": {"hf_hub_url": "a/b", "subset": "c", "split": "test"},
      "script": {"script_url": "x"}})");
  }
  ProgramResult with_sets(const std::string& names, const std::string& more = {},
                          const std::string& file = "theirs/sft.yaml") const {
    write(file, "model_name_or_path: my-llama\nstage: sft\nfinetuning_type: full\ndataset: " +
                    names + "\ndataset_dir: data\ncutoff_len: 64\n" + more);
    return program({"--arguments", file, "--dry-run"});
  }
  Json data(const std::string& names, const std::string& more = {}) const {
    const std::string text =
        "model_name_or_path: my-llama\nfinetuning_type: full\ndataset: " + names +
        "\ndataset_dir: data\ncutoff_len: 64\n" + more;
    write("theirs/sft.yaml", text);
    return job({"--arguments", "theirs/sft.yaml"})["data"];
  }
};

TEST_F(RegisteredDataTest, NamesAreTheFilesAndFormsOfTheirPage) {
  const Json alpaca = data("alpaca");
  EXPECT_EQ(alpaca["path"], (folder_ / "theirs/data/alpaca.json").string());
  EXPECT_EQ(alpaca["entry_template"], "alpaca");
  const Json turns = data("turns", "chat_template: '{{ messages }}'\n");
  EXPECT_EQ(turns["conversation_field"], "conversations");
  const Json asked = data("asked");
  EXPECT_EQ(asked["input_field"], "question");
  EXPECT_EQ(asked["output_field"], "answer");
  const Json texts = data("texts", "stage: pt\n");
  EXPECT_EQ(texts["text_field"], "answer");
  EXPECT_EQ(texts["response_template"], "");
  const Json both = data("alpaca, asked");
  EXPECT_EQ(both["mixture"]["sets"].size(), 2u);
}

TEST_F(RegisteredDataTest, TheirFolderMayBeBesideTheFile) {
  EXPECT_EQ(with_sets("alpaca").status, 0) << with_sets("alpaca").err;
  fs::copy(folder_ / "theirs/data", folder_ / "data");
  EXPECT_EQ(with_sets("alpaca", {}, "sft.yaml").status, 0) << "as LLaMA-Factory finds it";
}

TEST_F(RegisteredDataTest, WhatHasNoEqualIsNamed) {
  EXPECT_THAT(with_sets("alpacca").err,
              AllOf(HasSubstr("theirs/data/dataset_info.json:1: alpacca: is no set of this file"),
                    HasSubstr("did you mean 'alpaca'?")));
  EXPECT_THAT(with_sets("tagged").err,
              HasSubstr("dataset[0].tags: user_tag is 'speaker', which has no equal here; expected "
                        "human or user"));
  EXPECT_THAT(with_sets("three").err,
              HasSubstr("dataset[0].columns: are no instruction, input and output, and no prompt "
                        "and response; expected --data FILE and --template"));
  EXPECT_THAT(with_sets("ranked").err, HasSubstr("dataset[0].ranking: asks for preferences"));
  EXPECT_THAT(with_sets("script").err, HasSubstr("script_url: has no equal here"));
  EXPECT_THAT(with_sets("hub").err, HasSubstr("a/b:c:test"));
  EXPECT_THAT(with_sets("alpaca", {}, "sft.yaml").err,
              HasSubstr("sft.yaml:4: dataset: found 'alpaca', names of LLaMA-Factory's "
                        "dataset_info.json, and there is no data/dataset_info.json; expected "
                        "--data FILE, which takes its place"));
}

TEST_F(RegisteredDataTest, AnotherTemplateThanTheFormsIsSaid) {
  write("theirs/sft.yaml",
        "model_name_or_path: my-llama\ndataset: alpaca\ntemplate: llama3\ncutoff_len: 64\n");
  EXPECT_THAT(program({"--arguments", "theirs/sft.yaml", "--dry-run"}).err,
              HasSubstr("theirs/sft.yaml:3: template 'llama3': entries are texts in the form "
                        "alpaca, rather than turns of this template"));
}

// --- chat templates ------------------------------------------------------------------------------

constexpr const char* kChat =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
    "\"content\": \"b\"}]}\n";

TEST_F(RegisteredDataTest, JinjaOfAxolotlIsTheTemplateBesideIt) {
  write("chats.jsonl", kChat);
  const std::string file =
      "base_model: my-llama\nsequence_len: 64\nchat_template: jinja\ndatasets:\n"
      "  - path: chats.jsonl\n    type: chat_template\n";
  write("axolotl.yaml", file + "chat_template_jinja: '{{ messages }}'\n");
  const ProgramResult result = program({"--arguments", "axolotl.yaml", "--dry-run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["data"]["chat_template"], "{{ messages }}");
  EXPECT_THAT(result.err, Not(HasSubstr("tokenizer's own template")));
  write("axolotl.yaml", file);
  EXPECT_THAT(program({"--arguments", "axolotl.yaml", "--dry-run"}).err,
              HasSubstr("axolotl.yaml:3: chat_template 'jinja': conversations follow the "
                        "tokenizer's own template, or --chat-template"));
}

TEST_F(RegisteredDataTest, ATemplateMayStandBesideItsFile) {
  write("chats.jsonl", kChat);
  write("theirs/mine.jinja", "{{ messages }}");
  write("theirs/trl.yaml",
        "model_name_or_path: my-llama\nuse_peft: false\nmax_length: 64\n"
        "chat_template_path: mine.jinja\ntraining_data_path: chats.jsonl\n");
  EXPECT_EQ(job({"--arguments", "theirs/trl.yaml"})["data"]["chat_template"], "{{ messages }}");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
