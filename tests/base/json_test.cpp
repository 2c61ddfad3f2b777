#include "sftbench/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

std::string problem_of(const std::string& text) {
  try {
    parse_json(text, "file.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::string nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(ParseJsonTest, NestingHasAnEnd) {
  EXPECT_EQ(problem_of(nested(500)), "");
  EXPECT_EQ(problem_of("\n" + nested(501)),
            "file.json: not usable JSON: nested deeper than 500 levels");
  EXPECT_THAT(problem_of(std::string(10'000'000, '[')), HasSubstr("nested deeper than 500 levels"));
  std::string objects;
  for (int i = 0; i < 501; ++i) objects += R"({"a":)";
  EXPECT_THAT(problem_of(objects), HasSubstr("nested deeper than 500 levels"));
}

TEST(ParseJsonTest, BracketsInTextsAndSideBySideAreNoNesting) {
  EXPECT_EQ(problem_of("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\""), "");
  std::string flat = "[0";
  for (int i = 0; i < 1000; ++i) flat += ",[],{}";
  EXPECT_EQ(problem_of(flat + "]"), "");
}

TEST(ParseJsonTest, ValuesAreThoseOfTheLibrary) {
  std::string large = R"({"a": [1, -2, 2.5, "x", true, null, {}, []], "a": {"b": [[{}]]})";
  for (int i = 0; i < 100; ++i)
    large += ", \"k" + std::to_string(i % 70) + "\": " + std::to_string(i);
  large += "}";
  for (const std::string& text : {large, std::string("7"), std::string("\"\\u00e9\"")})
    EXPECT_EQ(parse_json(text, "file.json").dump(), Json::parse(text).dump());
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "1e999", "\"\xff\"", "1 2"})
    EXPECT_NE(problem_of(text), "") << text;
}

TEST(ParseJsonTest, AProblemIsNoLongerThanAMessage) {
  EXPECT_LT(problem_of(std::string(1'000'000, '1')).size(), 500u);
  EXPECT_LT(problem_of("\"" + std::string(1'000'000, 'x')).size(), 500u);
}

// A terminal obeys U+009B.
TEST(WholeNumberTest, WhatWasFoundInItsPlaceIsShownInAscii) {
  try {
    whole_number_at({{"key", "\u009b"}}, "key", 0, 9, "f");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "f: key: found \"\\u009b\"; expected a whole number from 0 to 9");
  }
}

TEST(WholeNumberTest, IsHeldToItsRange) {
  const Json json = Json::parse(
      R"({"four": 4, "huge": 1180591620717411303424, "unsigned": 18446744073709551615, "half": 0.5,
          "whole": 2.0, "null": null, "text": "4", "true": true})");
  EXPECT_EQ(whole_number_at(json, "four", 4, 4, "f"), 4);
  for (const char* key : {"huge", "unsigned", "half", "whole", "null", "text", "true", "absent"}) {
    EXPECT_THROW(whole_number_at(json, key, INT64_MIN, INT64_MAX, "f"), InputError) << key;
  }
  EXPECT_THROW(whole_number_at(json, "four", 5, 9, "f"), InputError);
  EXPECT_THROW(whole_number_at(Json::array(), "four", 0, 9, "f"), InputError);
  try {
    whole_number_at(json, "four", -3, 3, "file.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "file.json: four: found 4; expected a whole number from -3 to 3");
  }
}

TEST(ParseJsonTest, ManyMembersTakeTimeByTheirNumber) {
  std::string text = "{\"x\": 0";
  for (int i = 0; i < 500'000; ++i) text += ",\"" + std::to_string(i) + "\":0";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "}", "file.json").size(), 500'001u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
      << "the library's own parser takes about 25 minutes";
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
