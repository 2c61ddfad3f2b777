// What a tokenizer accepts and refuses, and how it behaves at the edges. Ids are held in
// tokenizer_golden_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json small() {
  return Json::parse(
      R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3},
    "merges": ["a b"]}})");
}

Tokenizer read(const Json& json) {
  return Tokenizer::from_json(json.dump(), "t.json");
}

std::string error_of(const std::string& text) {
  try {
    Tokenizer::from_json(text, "t.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// The message for the small tokenizer with `value` at `pointer`.
std::string error_with(const char* pointer, Json value) {
  Json json = small();
  json[Json::json_pointer(pointer)] = std::move(value);
  return error_of(json.dump());
}

TEST(Tokenizer, MergesAndReplacesUnknownCharacters) {
  const Tokenizer tokenizer = read(small());
  EXPECT_THAT(tokenizer.encode("abxba"), ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
  EXPECT_EQ(tokenizer.vocabulary_size(), 4);
  EXPECT_EQ(tokenizer.token_id("ab"), 3);
  EXPECT_EQ(tokenizer.token_id("ba"), std::nullopt);
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
  EXPECT_THAT(error_with("/model/type", "WordPiece"),
              HasSubstr("t.json: model.type: unsupported model 'WordPiece'; expected BPE"));
  EXPECT_THAT(error_with("/model/type", "Unigram"), HasSubstr("unsupported model 'Unigram'"));
  EXPECT_THAT(error_with("/normalizer", {{"type", "Precompiled"}}),
              HasSubstr("normalizer.type: unsupported normalizer 'Precompiled'"));
  EXPECT_THAT(error_with("/pre_tokenizer", {{"type", "ByteLevl"}}),
              HasSubstr("pre_tokenizer.type: unsupported pre-tokenizer 'ByteLevl'"));
  EXPECT_THAT(error_with("/pre_tokenizer", {{"type", "ByteLevl"}}),
              HasSubstr("did you mean 'ByteLevel'?"));
  EXPECT_THAT(error_with("/post_processor", {{"type", "BertProcesing"}}),
              HasSubstr("post_processor.type: unsupported post-processor 'BertProcesing'"));
  EXPECT_THAT(error_with("/post_processor", {{"type", "BertProcesing"}}),
              HasSubstr("did you mean 'BertProcessing'?"));
  EXPECT_THAT(error_with("/version", "2.0"),
              HasSubstr("version: unknown version '2.0'; expected 1.0"));
  EXPECT_THAT(error_with("/model/dropout", 0.1), HasSubstr("model.dropout: is 0.1; expected null"));
}

TEST(Tokenizer, NamesWhatIsMalformed) {
  EXPECT_THAT(error_of("{\n\"model\": \n]"), HasSubstr("t.json:3: not JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("is an array; expected a tokenizer.json object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("model: is null; expected an object"));
  EXPECT_THAT(error_with("/model/merges/0", "a c"),
              HasSubstr("model.merges[0]: token 'c' is not in the vocabulary"));
  EXPECT_THAT(error_with("/model/merges/0", "ab"),
              HasSubstr("model.merges[0]: is 'ab'; expected two tokens with a space between"));
  EXPECT_THAT(error_with("/model/merges/0", Json::array({"a"})),
              HasSubstr("model.merges[0]: is a list of 1; expected two tokens"));
  EXPECT_THAT(error_with("/model/merges/0", 7), HasSubstr("model.merges[0]: holds a number"));
  EXPECT_THAT(error_with("/model/vocab/a", -1),
              HasSubstr("model.vocab.a: is a negative number; expected an id"));
  for (const auto& [id, found] : std::vector<std::pair<Json, std::string>>{
           {nullptr, "is null; expected an id"},
           {true, "is a boolean; expected an id"},
           {1.5, "is a fraction; expected an id"},
           {"1", "is a string; expected an id"},
           {Json::array(), "is a list; expected an id"},
           {Json::object(), "is an object; expected an id"},
           {2147483647, "has id 2147483647; expected an id below 2147483647"},
           {4294967296, "has id 4294967296"}})
    EXPECT_THAT(error_with("/model/vocab/a", id), HasSubstr("model.vocab.a: " + found));
  EXPECT_THAT(error_with("/model/fuse_unk", "yes"),
              HasSubstr("model.fuse_unk: is a string; expected true or false"));
  EXPECT_THAT(error_with("/added_tokens", 3),
              HasSubstr("added_tokens: is a number; expected a list"));
  EXPECT_THAT(error_with("/added_tokens", Json::array({{{"content", std::string(2000, 'x')}}})),
              HasSubstr("added_tokens[0].content: is 2000 bytes long; expected at most 1024"));
  EXPECT_THAT(error_with("/pre_tokenizer",
                         Json::parse(R"({"type": "Split", "behavior": "Isolated", "invert": false,
                                                           "pattern": {"Regex": "(a"}})")),
              HasSubstr("pre_tokenizer.pattern: pattern '(a': missing closing parenthesis"));
  EXPECT_THAT(error_with("/pre_tokenizer",
                         Json::parse(R"({"type": "Split", "behavior": "Isolated", "invert": false,
                                                           "pattern": {"Regex": "[a&&b]"}})")),
              HasSubstr("an intersection of classes is not supported"));
  const std::pair<const char*, const char*> unknown[] = {
      {"[[:foo:]]", "[:foo:] is not supported"},
      {"[[:Alpha:]]", "[:Alpha:] is not supported"},
      {"[[:^alpha:]]", "[:^alpha:] in a class is not supported"},
      {"[[:alpha]", "a class [: without :] is not supported"},
      {R"(\p{Diacritic})", R"(\p{Diacritic} is not supported)"},
      {R"(\p{Script=Han})", R"(\p{Script=Han} is not supported)"},
      {R"(\p{Math})", R"(\p{Math} is not supported)"},
      {R"(\p{Nothing})", R"(\p{Nothing} is not supported)"},
      {R"([\P{Alphabetic}])", R"(\P{Alphabetic} in a class is not supported)"},
      {R"(\pL)", R"(\p without {name} is not supported)"},
      {R"(\X)", R"(\X is not supported)"},
      {R"(\C-a)", R"(\C is not supported)"}};
  for (const auto& [pattern, message] : unknown) {
    const Json split = {{"type", "Split"},
                        {"behavior", "Isolated"},
                        {"invert", false},
                        {"pattern", {{"Regex", pattern}}}};
    EXPECT_THAT(error_with("/pre_tokenizer", split), HasSubstr(message));
  }
  EXPECT_THAT(error_with("/pre_tokenizer", Json::parse(R"({"type": "Split", "behavior": "Nowhere",
                                                           "pattern": {"String": "a"}})")),
              HasSubstr("pre_tokenizer.behavior: unknown behavior 'Nowhere'"));
  EXPECT_THAT(
      error_with("/pre_tokenizer", Json::parse(R"({"type": "Metaspace", "replacement": "ab"})")),
      HasSubstr("pre_tokenizer.replacement: is 'ab'; expected one character"));
  EXPECT_THAT(error_with("/post_processor", Json::parse(R"({"type": "TemplateProcessing", "single":
                 [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {}})")),
              HasSubstr("post_processor.special_tokens.<s>: is missing"));
  EXPECT_THAT(
      error_with("/post_processor", Json::parse(R"({"type": "BertProcessing", "sep": ["b", 2]})")),
      HasSubstr("post_processor.cls: is missing; expected a token and its id"));
  EXPECT_THAT(error_with("/post_processor", Json::parse(R"({"type": "RobertaProcessing", "cls": "a",
                 "sep": ["b", -1]})")),
              AllOf(HasSubstr("post_processor.cls: is a string; expected a token and its id"),
                    HasSubstr("post_processor.sep: holds -1; expected ids")));
  EXPECT_THAT(
      error_with("/post_processor", Json::parse(R"({"type": "TemplateProcessing", "single": []})")),
      HasSubstr("post_processor.single: holds the text 0 times; expected once"));
}

// It is the file's, not the text's and not the program's.
TEST(Tokenizer, APatternThatBacktracksWithoutEndIsNamedWithItsFile) {
  Json json = small();
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"behavior", "Isolated"},
                           {"invert", false},
                           {"pattern", {{"Regex", "(?:x+x+)+(?=[yz])"}}}};
  const Tokenizer tokenizer = read(json);
  const std::string text(60, 'x');
  const Tokenizer clone = tokenizer.clone();
  for (const Tokenizer* each : {&tokenizer, &clone}) {
    try {
      each->encode(text);
      FAIL() << "encoded";
    } catch (const InputError& error) {
      EXPECT_EQ(error.diagnostics().front().file, "t.json");
      EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot split a text of 60 bytes"),
                                      HasSubstr("match limit exceeded")));
    }
  }
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(3));
}

TEST(Tokenizer, ReportsEverythingThatIsWrongAtOnce) {
  Json json = small();
  json["normalizer"] = {{"type", "Nmt"}};
  json["pre_tokenizer"] = {{"type", "FixedLength"}};
  json["model"]["byte_fallback"] = 1;
  try {
    read(json);
    FAIL() << "read";
  } catch (const InputError& error) {
    EXPECT_EQ(error.diagnostics().size(), 3U);
  }
}

TEST(Tokenizer, NestedSequencesEndInAnError) {
  Json nested = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i)
    nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
  EXPECT_THAT(error_with("/normalizer", nested), HasSubstr("sequences are nested too deep"));
  EXPECT_THAT(error_of(R"({"x": )" + std::string(5000, '[')), HasSubstr("nested too deep"));
}

TEST(Tokenizer, AbsurdIdsCostNoMemory) {
  Json json = small();
  json["model"]["vocab"]["a"] = 2147483646;
  const Tokenizer tokenizer = read(json);
  EXPECT_EQ(tokenizer.vocabulary_size(), 2147483647);
  EXPECT_THAT(tokenizer.encode("aab"), ElementsAre(2147483646, 3));
}

TEST(Tokenizer, AnUnknownTokenOutsideTheVocabularyIsAnErrorOnlyWhenItIsNeeded) {
  Json json = small();
  json["model"]["unk_token"] = "<none>";
  const Tokenizer tokenizer = read(json);
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(3));
  EXPECT_THROW(tokenizer.encode("x"), InputError);
}

TEST(Tokenizer, AWordOfAMegabyteIsEncodedQuickly) {
  const Tokenizer tokenizer = read(small());
  std::string word;
  for (int i = 0; i < 500'000; ++i) word += "ab";
  const double begin = steady_seconds();
  EXPECT_EQ(tokenizer.encode(word), std::vector<int32_t>(500'000, 3));
  EXPECT_LT(steady_seconds() - begin, 20.0);  // quadratic work takes hours
}

TEST(Tokenizer, AddsSpecialTokensThatAreFoundInsideText) {
  Tokenizer tokenizer = read(small());
  EXPECT_EQ(tokenizer.add_special_token("<x>"), 4);
  EXPECT_EQ(tokenizer.add_special_token("<x>"), 4);
  EXPECT_EQ(tokenizer.add_special_token("ab"), 3);
  EXPECT_THAT(tokenizer.encode("a<x>ab"), ElementsAre(1, 4, 3));
  EXPECT_EQ(tokenizer.vocabulary_size(), 5);
  EXPECT_THROW(tokenizer.add_special_token(""), InputError);
}

TEST(Tokenizer, AClonesNewTokensStayItsOwn) {
  const Tokenizer tokenizer = read(small());
  Tokenizer clone = tokenizer.clone();
  clone.add_special_token("<x>");
  EXPECT_THAT(clone.encode("<x>"), ElementsAre(4));
  EXPECT_THAT(tokenizer.encode("<x>"), ElementsAre(0, 0, 0));
  EXPECT_EQ(tokenizer.token_id("<x>"), std::nullopt);
}

class TokenizerDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("sftbench_tokenizer_" + std::to_string(::getpid()) + "_" +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    write("tokenizer.json", small());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void write(const char* name, const Json& json) { std::ofstream(directory_ / name) << json; }
  Tokenizer read() const { return Tokenizer::from_directory(directory_); }

  std::filesystem::path directory_;
};

TEST_F(TokenizerDirectory, NeedsNoConfiguration) {
  const Tokenizer tokenizer = read();
  EXPECT_EQ(tokenizer.special_tokens().eos, "");
  EXPECT_GT(tokenizer.model_max_length(), int64_t{1} << 60);
}

TEST_F(TokenizerDirectory, ConfigurationNamesSpecialTokensAndAddsMissingOnes) {
  write("tokenizer_config.json",
        Json::parse(R"({"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1e30,
    "eos_token": {"content": "<end>"}, "bos_token": null,
    "added_tokens_decoder": {"5": {"content": "<later>"}, "4": {"content": "<first>", "special": true}}})"));
  write("special_tokens_map.json",
        Json::parse(R"({"eos_token": "<other>", "pad_token": "<pad>"})"));
  const Tokenizer tokenizer = read();
  EXPECT_EQ(tokenizer.special_tokens().eos, "<end>");
  EXPECT_EQ(tokenizer.special_tokens().pad, "<pad>");
  EXPECT_EQ(tokenizer.special_tokens().bos, "");
  EXPECT_EQ(tokenizer.tokenizer_class(), "GPT2Tokenizer");
  EXPECT_GT(tokenizer.model_max_length(), int64_t{1} << 60);
  EXPECT_EQ(tokenizer.token_id("<first>"), 4);
  EXPECT_EQ(tokenizer.token_id("<later>"), 5);
  EXPECT_EQ(tokenizer.token_id("<end>"), 6);
  EXPECT_EQ(tokenizer.token_id("<pad>"), 7);
}

TEST_F(TokenizerDirectory, MalformedConfigurationIsNamed) {
  write("tokenizer_config.json", Json::parse(R"({"eos_token": 3, "model_max_length": "long",
    "added_tokens_decoder": {"x": {"content": "a"}, "7x": {"content": "b"}, "-1": {"content": "c"}}})"));
  try {
    read();
    FAIL() << "read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokenizer_config.json: eos_token: is a number"));
    EXPECT_THAT(error.what(),
                HasSubstr("model_max_length: is a string; expected a positive number"));
    for (const char* id : {"x", "7x", "-1"})
      EXPECT_THAT(error.what(),
                  HasSubstr(std::string("added_tokens_decoder.") + id + ": is not an id"));
  }
}

TEST_F(TokenizerDirectory, AMissingFileIsAnError) {
  std::filesystem::remove(directory_ / "tokenizer.json");
  EXPECT_THROW(read(), InputError);
}

TEST_F(TokenizerDirectory, AModelOfSentencePieceAloneSaysWhatToDo) {
  std::filesystem::remove(directory_ / "tokenizer.json");
  write("tokenizer.model", Json("pieces"));
  try {
    read();
    FAIL() << "read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/tokenizer.model: is not read; expected tokenizer.json "
                                        "beside it, which transformers makes: python3 -c "));
    EXPECT_THAT(error.what(), HasSubstr(directory_.string()));
  }
}

// fms-hf-tuning: what is missing is asked of the tokenizer as it was loaded.
TEST_F(TokenizerDirectory, CompletesSpecialTokensOfAPlainTokenizer) {
  Tokenizer tokenizer = read();
  EXPECT_EQ(complete_special_tokens(tokenizer), 4);
  EXPECT_EQ(tokenizer.token_id("<PAD>"), 4);
  EXPECT_EQ(tokenizer.token_id("</s>"), 5);
  EXPECT_EQ(tokenizer.token_id("<s>"), 6);
  EXPECT_EQ(tokenizer.token_id("<unk>"), 7);
  EXPECT_EQ(tokenizer.special_tokens().eos, "</s>");
}

TEST_F(TokenizerDirectory, CompletesSpecialTokensOfALlamaTokenizerWithItsOwnPad) {
  write("tokenizer_config.json",
        Json::parse(R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a",
    "eos_token": "b", "unk_token": "?", "pad_token": "ab"})"));
  Tokenizer tokenizer = read();
  EXPECT_EQ(complete_special_tokens(tokenizer), 4);
  EXPECT_EQ(tokenizer.special_tokens().bos, "<s>");
  EXPECT_EQ(tokenizer.special_tokens().pad, "<pad>");
}

TEST_F(TokenizerDirectory, APadThatIsTheEndOfTextIsReplaced) {
  write("tokenizer_config.json",
        Json::parse(R"({"bos_token": "a", "eos_token": "b", "unk_token": "?", "pad_token": "b"})"));
  Tokenizer tokenizer = read();
  EXPECT_EQ(complete_special_tokens(tokenizer), 1);
  EXPECT_EQ(tokenizer.special_tokens().eos, "b");
  EXPECT_EQ(tokenizer.special_tokens().pad, "<PAD>");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
