// UTF-8, normal forms and split patterns over every code point, against Hugging Face's
// (unicode.json).
#include <gtest/gtest.h>

#include <functional>

#include "tokenizer/normalizer.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pre.h"
#include "tokenizer/scanner.h"
#include "tokenizer/strings.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace SFTBENCH_FILE {

Json golden() {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/tokenizers/unicode.json");
}

std::vector<std::string> all_chars() {
  std::vector<std::string> chars;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) append_utf8(chars.emplace_back(), c);
  }
  return chars;
}

class Pieces final : public PieceSink {
 public:
  void take(std::span<const std::string_view> pieces, const char*) override {
    for (const std::string_view piece : pieces) list.emplace_back(piece);
  }
  std::vector<std::string> list;
};

std::vector<std::string> split(const PreTokenizer& stage, const std::string& text) {
  const std::string padded = text + std::string(kTextPadding_bytes, '\0');
  Pieces pieces;
  if (!text.empty()) stage.split({padded.data(), text.size()}, padded.data() + 1, pieces);
  return pieces.list;
}

TEST(Unicode, NormalizersGiveTheTextsOfHuggingFaceForEveryCodePoint) {
  const Json expected = golden()["normalizers"];
  const auto chars = all_chars();
  for (const auto& [name, crc] : expected.items()) {
    TokenizerProblems problems("golden");
    const NormalizerChain chain = NormalizerChain::parse(Json{{"type", name}}, problems);
    problems.throw_if_any();
    uint32_t found = 0;
    for (const std::string& c : chars) {
      std::string text = "a" + c + "\u0316\u0334" + c + "\u0301";
      chain.run(text);
      found = crc32(text, found);
    }
    EXPECT_EQ(found, crc.get<uint32_t>()) << name;
  }
}

uint32_t crc_of_pieces(const PreTokenizer& stage, const std::vector<std::string>& chars) {
  uint32_t crc = 0;
  for (size_t start = 0; start < chars.size(); start += 64) {
    std::string text;
    for (size_t i = start; i < std::min(start + 64, chars.size()); ++i) {
      const std::string& c = chars[i];
      text += c + "a " + c + "1'" + c + "s" + c + c + " !" + c + "\n";
    }
    for (const std::string& piece : split(stage, text)) {
      const auto size = static_cast<uint32_t>(piece.size());
      crc = crc32({reinterpret_cast<const char*>(&size), sizeof(size)}, crc);
    }
  }
  return crc;
}

TEST(Unicode, PatternsSplitAsOnigurumaDoesAroundEveryCodePoint) {
  const auto chars = all_chars();
  const Json splits = golden()["splits"];
  for (const auto& [name, entry] : splits.items()) {
    const auto pattern = entry["pattern"].get<std::string>();
    EXPECT_EQ(crc_of_pieces(*PreTokenizerChain::general_split(pattern), chars),
              entry["crc"].get<uint32_t>())
        << name;
    if (const auto known = PreTokenizerChain::known_split(pattern)) {
      EXPECT_EQ(crc_of_pieces(*known, chars), entry["crc"].get<uint32_t>())
          << name << ", hand-written";
    }
  }
}

// POSIX brackets and properties have names in common with PCRE2's, and often other members.
TEST(Unicode, PatternsOfOneCharacterMatchWhatOnigurumaMatches) {
  const Json sets = read_json_file(std::string(SFTBENCH_TEST_DATA) + "/tokenizers/sets.json");
  const auto chars = all_chars();
  for (const auto& [pattern, expected] : sets.items()) {
    const Pattern compiled = Pattern::regex(pattern);
    uint32_t crc = 0;
    size_t count = 0;
    for (size_t start = 0; start < chars.size(); start += 16384) {
      std::string text;
      for (size_t i = start; i < std::min(start + 16384, chars.size()); ++i) text += chars[i];
      Pattern::Matches matches(compiled, text);
      for (size_t begin = 0, end = 0; matches.next(begin, end); ++count) {
        const uint32_t c = decode_utf8(text.data() + begin).code_point;
        crc = crc32({reinterpret_cast<const char*>(&c), sizeof(c)}, crc);
      }
    }
    EXPECT_EQ(count, expected["count"].get<size_t>()) << pattern;
    EXPECT_EQ(crc, expected["crc"].get<uint32_t>()) << pattern;
  }
}

TEST(Scanner, SplitsTheTestStringsAsPcre2Does) {
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
    const auto known = PreTokenizerChain::known_split(pattern);
    const auto general = PreTokenizerChain::general_split(pattern);
    ASSERT_NE(known, nullptr);
    TestStrings strings;
    for (size_t i = 0; i < 4000; ++i) {
      std::string text;
      append_sanitized(text, strings.string(i));
      ASSERT_EQ(split(*known, text), split(*general, text)) << pattern << ", string " << i;
    }
  }
}

// All strings of up to six of the characters that steer the patterns.
TEST(Scanner, SplitsShortCombinationsAsPcre2Does) {
  const std::vector<std::string> alphabet = {" ", "\n", "\r",     "a",      "S", "1",
                                             "'", "!",  "\u00a0", "\u017f", "é"};
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
    const auto known = PreTokenizerChain::known_split(pattern);
    const auto general = PreTokenizerChain::general_split(pattern);
    for (size_t code = 1; code < 11 * 11 * 11 * 11 * 11; code += 1) {
      std::string text;
      for (size_t rest = code; rest > 0; rest /= alphabet.size())
        text += alphabet[rest % alphabet.size()];
      ASSERT_EQ(split(*known, text), split(*general, text))
          << pattern << ": " << Json(text).dump(-1, ' ', true);
    }
  }
}

TEST(Unicode, InvalidBytesBecomeReplacementCharactersAsInPython) {
  const auto sanitized = [](std::string_view bytes) {
    std::string text;
    append_sanitized(text, bytes);
    return text;
  };
  const std::string r = "\uFFFD";
  // Python: bytes.decode("utf-8", "replace")
  EXPECT_EQ(sanitized("a\x80z"), "a" + r + "z");
  EXPECT_EQ(sanitized("\xC3"), r);
  EXPECT_EQ(sanitized("\xC0\xAF"), r + r);                  // overlong
  EXPECT_EQ(sanitized("\xE2\x82(x"), r + "(x");             // cut short: one mark for both bytes
  EXPECT_EQ(sanitized("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(sanitized("\xF0\x9F\x98"), r);                  // cut short at the end
  EXPECT_EQ(sanitized("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(sanitized("\xF8\x88\x80\x80\x80"), r + r + r + r + r);
  EXPECT_EQ(sanitized("12345678\xFF"
                      "90"),
            "12345678" + r + "90");
  EXPECT_EQ(sanitized("é漢😀\u0000z"), "é漢😀\u0000z");
}

// A run of combining marks must be sorted in less than quadratic time.
TEST(Unicode, ALongRunOfMarksIsSortedQuickly) {
  std::string text = "a", expected = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0316";
  for (int i = 0; i < 100'000; ++i) expected += "\u0316";
  for (int i = 0; i < 100'000; ++i) expected += "\u0301";
  normalize(text, NormalForm::kNfd);
  EXPECT_EQ(text, expected);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
