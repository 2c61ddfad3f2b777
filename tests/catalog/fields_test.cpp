#include "sftbench/catalog/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;

const YamlNode& document() {
  static const YamlNode kNode = parse_yaml(
      "{map: {a: 1}, list: [a, 2], of_lists: [a, [b], ~], word: x, none: ~, number: 1.5, whole: 7, "
      "yes: true}",
      "f");
  return kNode;
}

// What a call finds wrong with a member.
std::vector<std::string> wrong(const std::function<void(Fields&)>& call,
                               const YamlNode& node = document()) {
  Diagnostics diagnostics("f");
  Fields fields(node, "top", diagnostics);
  call(fields);
  std::vector<std::string> found;
  for (const Diagnostic& error : diagnostics.errors())
    found.push_back(error.key + ": " + error.message +
                    (error.expected.empty() ? "" : "; " + error.expected));
  return found;
}

TEST(FieldsTest, EachTypeTakesItsOwnMembers) {
  const auto read = [](Fields& f) {
    EXPECT_EQ(f.mapping("map"), document().find("map"));
    EXPECT_EQ(f.sequence("list"), document().find("list"));
    EXPECT_EQ(f.text("word"), "x");
    EXPECT_EQ(f.text("whole"), "7");
    EXPECT_THAT(f.texts("list"), ElementsAre("a", "2"));
    EXPECT_EQ(f.number("number"), 1.5);
    EXPECT_EQ(f.number("whole"), 7);
    EXPECT_EQ(f.integer("whole"), 7);
    EXPECT_TRUE(f.boolean("yes", false));
    EXPECT_EQ(f.any("none"), document().find("none"));
  };
  EXPECT_THAT(wrong(read), ElementsAre());
}

TEST(FieldsTest, AnOptionalMemberThatIsNullOrAbsentIsNone) {
  const auto read = [](Fields& f) {
    for (const char* key : {"none", "absent"}) {
      EXPECT_EQ(f.mapping(key, Presence::kOptional), nullptr);
      EXPECT_EQ(f.sequence(key, Presence::kOptional), nullptr);
      EXPECT_EQ(f.text(key, Presence::kOptional), "");
      EXPECT_THAT(f.texts(key, Presence::kOptional), ElementsAre());
      EXPECT_EQ(f.number(key, Presence::kOptional), std::nullopt);
      EXPECT_EQ(f.integer(key, Presence::kOptional), std::nullopt);
      EXPECT_TRUE(f.boolean(key, true));
      EXPECT_FALSE(f.boolean(key, false));
    }
  };
  EXPECT_THAT(wrong(read), ElementsAre());
}

TEST(FieldsTest, ARequiredMemberThatIsNullAbsentOrOfAnotherTypeIsNamed) {
  const struct {
    std::function<void(Fields&, const char*)> read;
    const char* expected;
    std::vector<const char*> others;
  } kTypes[] = {
      {[](Fields& f, const char* key) { EXPECT_EQ(f.mapping(key), nullptr); },
       "a mapping",
       {"list", "word"}},
      {[](Fields& f, const char* key) { EXPECT_EQ(f.sequence(key), nullptr); },
       "a list",
       {"map", "word"}},
      {[](Fields& f, const char* key) { EXPECT_EQ(f.text(key), ""); }, "text", {"map", "list"}},
      {[](Fields& f, const char* key) { EXPECT_EQ(f.number(key), std::nullopt); },
       "a number",
       {"list", "word", "yes"}},
      {[](Fields& f, const char* key) { EXPECT_EQ(f.integer(key), std::nullopt); },
       "an integer",
       {"map", "word", "number"}}};
  for (const auto& type : kTypes) {
    EXPECT_THAT(wrong([&](Fields& f) { type.read(f, "absent"); }),
                ElementsAre("top.absent: missing"));
    for (const char* key : {type.others[0], type.others[1], type.others.back(), "none"}) {
      EXPECT_THAT(wrong([&](Fields& f) { type.read(f, key); }),
                  ElementsAre(std::string("top.") + key + ": found " +
                              describe(*document().find(key)) + "; " + type.expected));
    }
  }
  EXPECT_EQ(wrong([](Fields& f) { EXPECT_TRUE(f.boolean("word", true)); }).size(), 1u);
  EXPECT_EQ(wrong([](Fields& f) { EXPECT_FALSE(f.boolean("list", false)); }).size(), 1u);
  EXPECT_EQ(
      wrong([](Fields& f) { EXPECT_EQ(f.mapping("word", Presence::kOptional), nullptr); }).size(),
      1u);
  EXPECT_EQ(
      wrong([](Fields& f) { EXPECT_EQ(f.sequence("word", Presence::kOptional), nullptr); }).size(),
      1u);
}

TEST(FieldsTest, ItemsThatAreNoTextAreNamedByTheirPlace) {
  const auto read = [](Fields& f) { EXPECT_THAT(f.texts("of_lists"), ElementsAre("a")); };
  const std::vector<std::string> found = wrong(read);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0], ::testing::StartsWith("top.of_lists[1]: "));
  EXPECT_THAT(found[1], ::testing::StartsWith("top.of_lists[2]: "));
}

TEST(FieldsTest, WhatIsNoMappingIsNamedOnceAndWhatNobodyAskedForIsUnknown) {
  const auto read = [](Fields& f) {
    f.text("word");
    f.number("number");
  };
  EXPECT_EQ(wrong(read, *document().find("list")).size(), 1u);
  const YamlNode node = parse_yaml("{word: x, wrod: y}", "f");
  const std::vector<std::string> unknown = wrong(
      [](Fields& f) {
        f.text("word");
        f.reject_unknown();
      },
      node);
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_THAT(unknown[0], ::testing::HasSubstr("wrod"));
  Diagnostics diagnostics("f");
  EXPECT_EQ(Fields(node, "", diagnostics).path("a"), "a");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
