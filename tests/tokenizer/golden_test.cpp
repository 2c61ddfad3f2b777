// Token ids against Hugging Face `tokenizers`, string by string (tests/reference/tokenizer.py made
// the golden files).
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "sftbench/base/file.h"
#include "sftbench/tokenizer/tokenizer.h"
#include "tokenizer/strings.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr size_t kStrings = 10'000;
constexpr size_t kStringsOfVariants = 4'000;

std::string golden_path(const std::string& file) {
  return std::string(SFTBENCH_TEST_DATA) + "/tokenizers/" + file;
}

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const std::string hashes = read_file(golden_path(name + ".ids"));
  const Json sample = read_json_file(golden_path(name + ".sample.json"));
  ASSERT_EQ(hashes.size(), kStrings * sizeof(uint32_t));
  TestStrings strings;
  size_t wrong = 0;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < kStrings; ++i) {
    const std::string text = strings.string(i);
    ids.clear();
    tokenizer.encode(text, true, ids);
    if (i < sample.size()) {
      ASSERT_EQ(ids, sample[i].get<std::vector<int32_t>>())
          << name << ", string " << i << ": "
          << Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    uint32_t expected = 0;
    std::memcpy(&expected, hashes.data() + i * sizeof(expected), sizeof(expected));
    if (crc32({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)}) ==
        expected)
      continue;
    ++wrong;
    if (wrong <= 3) {
      ADD_FAILURE()
          << name << ", string " << i << ": "
          << Json(text).dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 2000)
          << "\nids " << Json(ids).dump().substr(0, 2000);
    }
  }
  EXPECT_EQ(wrong, 0U) << name;
}

Tokenizer trained(const std::string& name) {
  const std::string path = golden_path(name + ".json");
  return Tokenizer::from_json(read_file(path), path);
}

class TrainedTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedTokenizer, GivesTheIdsOfHuggingFace) {
  expect_golden(trained(GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, TrainedTokenizer,
                         ::testing::Values("gpt2", "llama3", "smollm2", "granite", "qwen2", "bloom",
                                           "o200k", "llama2", "mistral", "mixed", "whitespace"),
                         [](const auto& family) { return std::string(family.param); });

// Ids are those of Hugging Face, so that the text they stand for is the one that was encoded.
TEST(TokenizerText, IsTheOneThatWasEncoded) {
  for (const char* name : {"gpt2", "llama3", "bloom", "smollm2"}) {
    const Tokenizer tokenizer = trained(name);
    for (const char* text :
         {"", "a b  c\n\n\td", " Ünïcode 中文 🙂 e\xCC\x81", "12345 != <|endoftext|>"})
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), text) << name;
  }
  // SentencePiece's begin with a space, and characters without a token are bytes.
  const Tokenizer tokenizer = trained("llama2");
  for (const char* text : {"a b  c\n\n\td", "Ünïcode 中文 🙂 e\xCC\x81"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), std::string(" ") + text);
}

TEST(TokenizerText, OfHalfACharacterAndOfNoTokenIsHarmless) {
  const Tokenizer tokenizer = trained("gpt2");
  std::vector<int32_t> ids = tokenizer.encode("中", false);
  ASSERT_GT(ids.size(), 1U);
  ids.pop_back();
  ids.push_back(-1);
  ids.push_back(2'000'000'000);
  EXPECT_EQ(tokenizer.decode(ids), "\xEF\xBF\xBD");
}

// Steps around the model that no trained family has together.
TEST(TokenizerVariants, GiveTheIdsOfHuggingFace) {
  const Json variants = read_json_file(golden_path("variants.json"));
  for (const auto& [name, variant] : variants.items()) {
    Json json = read_json_file(golden_path(variant["base"].get<std::string>() + ".json"));
    for (const auto& [part, step] : variant["changes"].items()) json[part] = step;
    const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), name);
    const Json& sample = variant["sample"];
    TestStrings strings;
    uint32_t crc = 0;
    for (size_t i = 0; i < kStringsOfVariants; ++i) {
      const std::string text = strings.string(i);
      const std::vector<int32_t> ids = tokenizer.encode(text, true);
      if (i < sample.size()) {
        EXPECT_EQ(ids, sample[i].get<std::vector<int32_t>>())
            << name << ", string " << i << ": "
            << Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
      }
      const uint32_t of_ids =
          crc32({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
      crc = crc32({reinterpret_cast<const char*>(&of_ids), sizeof(of_ids)}, crc);
    }
    EXPECT_EQ(crc, variant["crc"].get<uint32_t>()) << name;
  }
}

class PublishedTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedTokenizer, GivesTheIdsOfHuggingFace) {
  const std::string name = GetParam();
  const std::string path = std::string(SFTBENCH_PUBLISHED) + "/" + name + "/tokenizer.json";
  expect_golden(Tokenizer::from_json(read_file(path), path), name);
}

std::string identifier(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Published, PublishedTokenizer,
                         ::testing::Values("tinyllama-v0", "tiny-granite-vision"),
                         [](const auto& directory) { return identifier(directory.param); });

TEST(BuiltinTokenizer, GivesTheIdsOfHuggingFace) {
  expect_golden(Tokenizer::builtin(), "builtin");
}

TEST(BuiltinTokenizer, HasAnEndOfTextTokenAndAFixedSize) {
  const Tokenizer tokenizer = Tokenizer::builtin();
  EXPECT_EQ(tokenizer.vocabulary_size(), 8192);
  EXPECT_EQ(tokenizer.special_tokens().eos, "<|endoftext|>");
  EXPECT_EQ(tokenizer.special_tokens().bos, "<|endoftext|>");
  EXPECT_EQ(tokenizer.token_id("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer.model_max_length(), 131072);
}

// Entries that fms-hf-tuning's tests tokenized with Maykeye/TinyLLama-v0.
TEST(PublishedTokenizer, ReproducesTokenizedTwitterComplaints) {
  const std::filesystem::path data = SFTBENCH_PUBLISHED;
  const Tokenizer tokenizer = Tokenizer::from_directory(data / "tinyllama-v0");
  const std::string lines =
      read_file(data / "twitter_complaints_tokenized_with_maykeye_tinyllama_v0.jsonl");
  size_t entries = 0;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const Json entry = parse_json(std::string_view(lines).substr(begin, end - begin), "line");
    begin = end + 1;
    const auto ids = tokenizer.encode(entry["output"].get<std::string>());
    EXPECT_EQ(ids, entry["input_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(ids, entry["labels"].get<std::vector<int32_t>>());
    ++entries;
  }
  EXPECT_EQ(entries, 10U);
}

TEST(SpecialTokens, AreCompletedAsTransformersAddsThem) {
  const std::filesystem::path data = SFTBENCH_PUBLISHED;
  const Json golden = read_json_file(golden_path("special_tokens.json"));
  for (const auto& [name, expected] : golden.items()) {
    Tokenizer tokenizer = Tokenizer::from_directory(data / name);
    EXPECT_EQ(complete_special_tokens(tokenizer), expected["new_tokens"].get<int64_t>()) << name;
    EXPECT_EQ(tokenizer.special_tokens().pad, "<PAD>") << name;
    EXPECT_EQ(tokenizer.token_id("<PAD>"), expected["pad_id"].get<int32_t>()) << name;
    EXPECT_EQ(tokenizer.encode(expected["text"].get<std::string>()),
              expected["ids"].get<std::vector<int32_t>>())
        << name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
