// Data of one's own that cannot be what was meant: forms of an entry that exclude each other,
// values that no JSON has, empty files. Each is one sentence, and no bug to report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/program.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DataFormsTest : public testing::Test {
 protected:
  DataFormsTest() {
    fs::create_directory(folder_ / "my-llama");
    for (const char* source : {"/training/llama", "/training/tokenizer"})
      fs::copy(std::string(SFTBENCH_TEST_DATA) + source, folder_ / "my-llama");
    write("pairs.json", R"([{"input": "a", "output": "b c d"}, {"input": "c", "output": "d e"}])");
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  ProgramResult program(std::vector<std::string> words) const {
    return run_program(std::move(words), {{"CUDA_VISIBLE_DEVICES", ""}, {"SFTBENCH_ENGINE", ""}},
                       folder_);
  }
  // Of a command that measures nothing.
  std::string refusal(std::vector<std::string> words) const {
    const ProgramResult result = program(std::move(words));
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("report")));
    return result.err;
  }
  std::string refused_run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"run", "--model", "my-llama"});
    return refusal(std::move(more));
  }
  std::string refused_show(std::vector<std::string> more) const {
    more.insert(more.begin(), {"dataset", "show"});
    return refusal(std::move(more));
  }
  // What a run ends with that comes to its data.
  std::string ending(std::vector<std::string> more) const {
    more.insert(more.begin(), {"run", "--model", "my-llama"});
    more.insert(more.end(), {"--text-field", "output", "--response-template", "None", "--set",
                             "max_steps=1", "--set", "number_gpus=0"});
    const ProgramResult result = program(std::move(more));
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("INTERNAL")));
    return result.out + result.err;
  }

  const fs::path folder_ = fresh_folder(
      std::string("data_forms_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(DataFormsTest, FormsThatExcludeEachOtherAreRefused) {
  const std::vector<std::string> data = {"--data", "pairs.json"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), data.begin(), data.end());
    return refused_run(std::move(more));
  };
  EXPECT_THAT(run({"--text-field", "output", "--template", "{{input}}"}),
              HasSubstr("--text-field: says what an entry is, and so does --template; expected one "
                        "of them"));
  EXPECT_THAT(
      run({"--text-field", "output", "--input-column", "input", "--output-column", "output"}),
      HasSubstr("--text-field: says what an entry is, and so does --input-column"));
  EXPECT_THAT(run({"--text-field", "output", "--pretokenized"}),
              HasSubstr("--text-field: says what an entry is, and so does --pretokenized"));

  const std::vector<std::string> columns = {"--input-column", "input", "--output-column", "output"};
  const auto show = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "pairs.json");
    return refused_show(std::move(more));
  };
  EXPECT_THAT(show({"--template", "{{input}}", columns[0], columns[1], columns[2], columns[3]}),
              HasSubstr("--template: says what an entry is, and so does --input-column; expected "
                        "one of them"));
  EXPECT_THAT(show({"--text-field", "output", "--template", "{{input}}"}),
              HasSubstr("--text-field: says what an entry is, and so does --template"));
  EXPECT_THAT(show({"--conversation-column", "input", "--template", "{{input}}"}),
              HasSubstr("--template: says what an entry is, and so does --conversation-column"));
  EXPECT_THAT(show({"--chat-template", "{{ messages }}"}),
              HasSubstr("--chat-template: is given, and the entries are no conversations"));
}

TEST_F(DataFormsTest, TwoColumnsAreTwo) {
  const ProgramResult run =
      program({"run", "--model", "my-llama", "--data", "pairs.json", "--input-column", "output",
               "--output-column", "output", "--dry-run"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("--input-column and --output-column are both output; two columns work, or "
                        "--text-field with one"));
  EXPECT_THAT(
      refused_show({"pairs.json", "--input-column", "output", "--output-column", "output"}),
      HasSubstr("--output-column: is output, as --input-column is; expected another column, or "
                "--text-field with one"));
}

TEST_F(DataFormsTest, SetsOfAMixtureHaveOneFormEach) {
  const auto with = [&](const std::string& properties) {
    const std::string mixture =
        R"({"datasets": [{"training_data_path": "pairs.json", )" + properties + "}]}";
    const ProgramResult run =
        program({"run", "--model", "my-llama", "--set", "data_mixture=" + mixture, "--dry-run"});
    EXPECT_NE(run.status, 0) << run.out;
    return run.out + run.err;
  };
  EXPECT_THAT(with(R"("data_formatter_template": "{{input}}", "conversation_column": "input")"),
              HasSubstr("datasets[0]: conversation_column and data_formatter_template each say "
                        "what an entry is; one of them works"));
  EXPECT_THAT(with(R"("input_column_name": "input")"),
              HasSubstr("datasets[0]: input_column_name is given alone"));
  EXPECT_THAT(with(R"("input_column_name": "input", "output_column_name": "input")"),
              HasSubstr("datasets[0]: input_column_name and output_column_name are both input"));
}

TEST_F(DataFormsTest, NumbersThatNoValueHoldsAreNamed) {
  const std::string digits(5000, '9');
  for (const std::string& number : {std::string("1e999999"), digits}) {
    const std::string bad = R"({"input": "a", "output": "b c d", "n": )" + number + "}\n";
    const std::string good = R"({"input": "a", "output": "b c d"})"
                             "\n";
    const std::string said = ":1: not usable JSON: number overflow parsing '" + number.substr(0, 8);
    write("first.jsonl", bad + good);
    write("second.jsonl", good + bad);
    EXPECT_THAT(refused_run({"--data", "first.jsonl"}), HasSubstr("first.jsonl" + said));
    EXPECT_THAT(refused_run({"--data", "pairs.json", "--eval-data", "first.jsonl"}),
                HasSubstr("first.jsonl" + said));
    EXPECT_THAT(refused_show({"first.jsonl", "--template", "{{input}}"}),
                HasSubstr("first.jsonl" + said));
    EXPECT_THAT(refused_show({"second.jsonl", "--template", "{{input}}"}),
                HasSubstr("second.jsonl:2: not usable JSON: number overflow"));
    EXPECT_THAT(ending({"--data", "second.jsonl", "--set", "batch_size=2"}),
                AllOf(HasSubstr("DATA"), HasSubstr("second.jsonl:2: ")));
  }
}

TEST_F(DataFormsTest, AnEmptyFileOfAFolderIsNamed) {
  write("set/a.jsonl", R"({"output": "b c d"})"
                       "\n");
  write("set/b.jsonl", "");
  const std::string said =
      "set/b.jsonl: the file is empty; expected entries in every file of the "
      "folder";
  EXPECT_THAT(refused_run({"--data", "set"}), HasSubstr(said));
  EXPECT_THAT(refused_run({"--data", "pairs.json", "--eval-data", "set"}), HasSubstr(said));
  EXPECT_THAT(refused_show({"set"}), HasSubstr(said));
  write("set/b.jsonl", "\n\n");
  EXPECT_THAT(ending({"--data", "set"}),
              AllOf(HasSubstr("DATA"), HasSubstr("set/b.jsonl: the file has blank lines only")));
}

TEST_F(DataFormsTest, AMaskThatHidesTokensIsRefused) {
  write("masked.jsonl", R"({"input_ids": [5, 6, 7], "attention_mask": [1, 0, 1]})"
                        "\n");
  const std::string said = "masked.jsonl:1: attention_mask: position 1 is 0; expected ones";
  EXPECT_THAT(refused_show({"masked.jsonl", "--tokenizer", "my-llama"}), HasSubstr(said));
  const ProgramResult run = program({"run", "--model", "my-llama", "--data", "masked.jsonl",
                                     "--set", "max_steps=1", "--set", "number_gpus=0"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(said));
}

TEST_F(DataFormsTest, AnEmptyChatTemplateIsNamed) {
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"},)"
                       R"({"role": "assistant", "content": "b"}]})"
                       "\n");
  for (const char* content : {"", " \n"}) {
    write("empty.jinja", content);
    const std::string said = "empty.jinja: the file is empty; expected a chat template in Jinja";
    EXPECT_THAT(refused_show({"chats.jsonl", "--chat-template", "empty.jinja"}), HasSubstr(said));
    EXPECT_THAT(refused_run({"--data", "chats.jsonl", "--conversation-column", "messages",
                             "--chat-template", "empty.jinja"}),
                HasSubstr(said));
    const ProgramResult found = program({"run", "--model", "my-llama", "--data", "chats.jsonl",
                                         "--chat-template", "empty.jinja", "--dry-run"});
    EXPECT_NE(found.status, 0);
    EXPECT_THAT(found.out + found.err, HasSubstr(said));
  }
}

TEST_F(DataFormsTest, ExplainedFilesThatAreNoResultsAreNamed) {
  for (const char* content : {"[1, 2]", "3", R"({"status": 3, "extra": {}})"}) {
    write("result.json", content);
    EXPECT_THAT(refusal({"explain", "result.json"}), HasSubstr("result.json: is no valid result"));
  }
}

TEST_F(DataFormsTest, NothingIsMergedWhereAFileStands) {
  write("merged", "");
  const std::string adapter = std::string(SFTBENCH_TEST_DATA) + "/adapters/llama-lora_qv/final";
  EXPECT_THAT(refusal({"weights", "merge", adapter, "--model", "my-llama", "-o", "merged"}),
              HasSubstr("merged: is there already; expected a new folder, or an empty one"));
  EXPECT_FALSE(fs::exists(folder_ / "merged.saved"));
  EXPECT_TRUE(fs::is_regular_file(folder_ / "merged"));
}

TEST_F(DataFormsTest, TablesAreAskedForTheirLengths) {
  const std::string tables = std::string(SFTBENCH_TEST_DATA) + "/own_data/";
  const auto recommended = [&](const std::string& name) {
    return program({"recommend", "--model", "llama3.1-8b", "--gpus", "L40S", "--format", "json",
                    "--dataset", tables + name});
  };
#ifdef SFTBENCH_PARQUET_BUILT
  const Json of_json = Json::parse(recommended("pairs.json").out);
  for (const char* name : {"pairs.parquet", "pairs.arrow"}) {
    const ProgramResult result = recommended(name);
    ASSERT_EQ(result.status, 0) << name << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["entries"], of_json["entries"]) << name;
    EXPECT_EQ(json["tokens"], of_json["tokens"]) << name;
  }
#else
  EXPECT_THAT(recommended("pairs.parquet").err, HasSubstr("libsftbench_parquet.so"));
#endif
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
