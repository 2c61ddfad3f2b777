// A tokenizer that was completed is saved as it was used: read again, it is the same one.
#include "sftbench/tokenizer/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>

#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr const char* kSmall = R"({ "version": "1.0",
  "added_tokens": [
    {"id": 1, "content": "a", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": true, "special": false}
  ],
  "pre_tokenizer": null, "note": "\u0041 } \" added_tokens",
  "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3}, "merges": []}
})";

class TokenizerFiles : public ::testing::Test {
 protected:
  TokenizerFiles() {
    std::string name = ::testing::TempDir() + "tokenizer.XXXXXX";
    root_ = ::mkdtemp(name.data());
    write("tokenizer.json", kSmall);
  }
  ~TokenizerFiles() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    write_file_atomic(root_ / "own" / name, text);
  }
  Tokenizer completed() const {
    Tokenizer tokenizer = Tokenizer::from_directory(root_ / "own");
    complete_special_tokens(tokenizer);
    return tokenizer;
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const TokenizerFile& file : tokenizer_files(root_ / "own", completed())) {
      files[file.name] = file.text;
    }
    return files;
  }
  // What was saved, read again.
  Tokenizer saved() const {
    for (const auto& [name, text] : files()) write_file_atomic(root_ / "saved" / name, text);
    return Tokenizer::from_directory(root_ / "saved");
  }

  fs::path root_;
};

void expect_same(const Tokenizer& tokenizer, const Tokenizer& expected) {
  EXPECT_EQ(tokenizer.special_tokens().bos, expected.special_tokens().bos);
  EXPECT_EQ(tokenizer.special_tokens().eos, expected.special_tokens().eos);
  EXPECT_EQ(tokenizer.special_tokens().unk, expected.special_tokens().unk);
  EXPECT_EQ(tokenizer.special_tokens().pad, expected.special_tokens().pad);
  EXPECT_EQ(tokenizer.vocabulary_size(), expected.vocabulary_size());
  for (const char* text : {"ab", "<s>a</s>", "a<PAD><pad>b<unk>", "<s", "<later> b"}) {
    EXPECT_EQ(tokenizer.encode(text), expected.encode(text)) << text;
  }
}

TEST_F(TokenizerFiles, AreReadAgainAsTheTokenizerThatWasCompleted) {
  expect_same(saved(), completed());
  EXPECT_EQ(saved().token_id("<PAD>"), 4);
  EXPECT_THAT(saved().encode("<s>a"), ElementsAre(6, 1));
}

TEST_F(TokenizerFiles, AreReadAgainWithTheirOwnConfiguration) {
  for (const char* config :
       {R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "a", "eos_token": {"content": "b"},
            "pad_token": null, "added_tokens_decoder": {
              "4": {"content": "<later>", "special": true},
              "3": {"content": "ab", "lstrip": true, "special": false}}})",
        R"({"tokenizer_class": "GPT2Tokenizer", "eos_token": "b", "pad_token": "b"})",
        R"({"bos_token": "a", "eos_token": "b", "unk_token": "?", "pad_token": "ab"})"}) {
    SCOPED_TRACE(config);
    write("tokenizer_config.json", config);
    expect_same(saved(), completed());
  }
}

// As save_pretrained() of transformers writes them.
TEST_F(TokenizerFiles, AreThoseOfTransformers) {
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"1": {"content": "a"}},
                                     "eos_token": "b", "model_max_length": 512})");
  write("added_tokens.json", R"({"ab": 3})");
  write("merges.txt", "as it stands");
  const std::map<std::string, std::string> saved = files();
  EXPECT_EQ(saved.size(), 5);
  const Json tokenizer = Json::parse(saved.at("tokenizer.json"));
  ASSERT_EQ(tokenizer["added_tokens"].size(), 5);  // a; b, now special; <PAD>, <s>, <unk>
  EXPECT_EQ(tokenizer["added_tokens"][2],
            Json::parse(R"({"id": 4, "content": "<PAD>", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": false, "special": true})"));
  const Json config = Json::parse(saved.at("tokenizer_config.json"));
  EXPECT_EQ(config["pad_token"], "<PAD>");
  EXPECT_EQ(config["eos_token"], "b");
  EXPECT_EQ(config["model_max_length"], 512);
  EXPECT_EQ(config["added_tokens_decoder"]["4"],
            Json::parse(R"({"content": "<PAD>", "lstrip": false, "normalized": false,
                            "rstrip": false, "single_word": false, "special": true})"));
  const Json map = Json::parse(saved.at("special_tokens_map.json"));
  EXPECT_EQ(map["pad_token"], Json::parse(R"({"content": "<PAD>", "lstrip": false,
                                              "normalized": false, "rstrip": false,
                                              "single_word": false})"));
  EXPECT_EQ(Json::parse(saved.at("added_tokens.json")),
            Json::parse(R"({"ab": 3, "<PAD>": 4, "<s>": 5, "<unk>": 6})"));
  EXPECT_EQ(saved.at("merges.txt"), "as it stands");
}

// 17 MB of vocabulary are neither parsed nor written anew.
TEST_F(TokenizerFiles, LeaveAllElseOfTokenizerJsonByteForByte) {
  const std::string own = kSmall, saved = files().at("tokenizer.json");
  const size_t list = own.find("[\n"), list_end = own.find("],\n") + 1;
  EXPECT_EQ(saved.substr(0, list), own.substr(0, list));
  EXPECT_EQ(saved.substr(saved.size() - (own.size() - list_end)), own.substr(list_end));
}

TEST_F(TokenizerFiles, GainAListWhereThereWasNone) {
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"?": 0}, "merges": []}})");
  expect_same(saved(), completed());
  EXPECT_EQ(saved().token_id("<unk>"), 4);
}

TEST_F(TokenizerFiles, AreCopiedWhereNothingIsMissing) {
  write("tokenizer.json", R"({"added_tokens":[{"id":0,"content":"<s>","special":true,
    "normalized":false,"single_word":false,"lstrip":false,"rstrip":false}],
    "model":{"type":"BPE","vocab":{"<s>":0},"merges":[]}})");
  const std::string config = R"({"bos_token":"<s>","eos_token":"<s>","unk_token":"<s>",
    "pad_token":"<pad>"})";
  write("tokenizer_config.json", config);
  EXPECT_EQ(files().size(), 2);
  EXPECT_EQ(files().at("tokenizer_config.json"), config);
}

TEST_F(TokenizerFiles, OfTheOneThatShipsAreThereForModelsWithoutTheirOwn) {
  Tokenizer tokenizer = Tokenizer::builtin();
  complete_special_tokens(tokenizer);
  for (const TokenizerFile& file : tokenizer_files({}, tokenizer)) {
    write_file_atomic(root_ / "saved" / file.name, file.text);
  }
  expect_same(Tokenizer::from_directory(root_ / "saved"), tokenizer);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
