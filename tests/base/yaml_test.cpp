#include "sftbench/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_yaml(text, "x.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(YamlScalarTest, ReadsWhatPyYamlReads) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/yaml_scalars.json");
  ASSERT_GT(golden.size(), 90U);
  for (const Json& row : golden) {
    const std::string text = row["text"];
    const Json value = resolve_yaml_scalar(text);
    const std::string type = row["type"];
    if (type == "nonfinite") {
      ASSERT_TRUE(value.is_number_float()) << text;
      EXPECT_FALSE(std::isfinite(value.get<double>())) << text;
    } else {
      EXPECT_EQ(value, row["value"]) << text;
      EXPECT_EQ(value.is_number_float(), type == "float") << text;
    }
  }
}

TEST(YamlTest, KnowsLinesKindsAndTheTextAsWritten) {
  const YamlNode root = parse_yaml("a: 1e-5\nb: [no, 'no', \"2\"]\nc: {d: }\n", "x.yaml");
  EXPECT_EQ(root.find("a")->value, "1e-5");
  EXPECT_TRUE(root.find("a")->plain);
  const YamlNode& list = *root.find("b");
  EXPECT_EQ(list.line, 2);
  EXPECT_EQ(to_json(list), Json::parse(R"([false, "no", "2"])"));
  EXPECT_EQ(list.items[0].text, "no");
  EXPECT_FALSE(list.items[1].plain);
  EXPECT_TRUE(root.find("c")->find("d")->is_null());
  EXPECT_EQ(root.find("z"), nullptr);
}

TEST(YamlTest, TagsOverrideWhatAPlainScalarMeans) {
  EXPECT_EQ(parse_yaml("!!str 12", "x").value, "12");
  EXPECT_THAT(error_of("a: !!python/object:os.system {}"), HasSubstr("is not supported"));
}

// As PyYAML constructs them; tests/space/ado_golden_test.cpp has them in whole files.
TEST(YamlTest, TagsMakeValuesOfTheirType) {
  const auto value = [](const std::string& text) { return parse_yaml(text, "x").value.dump(); };
  EXPECT_EQ(value("!!float 2"), "2.0");
  EXPECT_EQ(value("!!float '1e3'"), "1000.0");
  EXPECT_EQ(value("!!float 1_0.5"), "10.5");
  EXPECT_EQ(value("!!int '0x10'"), "16");
  EXPECT_EQ(value("!!bool 'off'"), "false");
  EXPECT_EQ(value("!!null anything"), "null");
  EXPECT_EQ(error_of("a: 1\nb: !!int 2.5\n"), "x.yaml:2: '2.5' is no value of the tag !!int");
  EXPECT_EQ(error_of("b: !!float two"), "x.yaml:1: 'two' is no value of the tag !!float");
  EXPECT_EQ(error_of("b: !!bool 1"), "x.yaml:1: '1' is no value of the tag !!bool");
}

TEST(YamlTest, ASetIsTheListOfItsKeys) {
  const YamlNode root = parse_yaml("a: !!set {2, 1, 2}\nb: !!set\n  ? x\n  ? y\n", "x");
  EXPECT_EQ(to_json(*root.find("a")), Json::parse("[2, 1]"));
  EXPECT_EQ(to_json(*root.find("b")), Json::parse(R"(["x", "y"])"));
}

TEST(YamlTest, LinesEndAsInPyYaml) {
  for (const char* end : {"\n", "\r\n", "\r", "\xC2\x85"}) {
    std::string text = "a: 1\nb:\n  - 2\n  - 'c\n\n    d'\n";
    for (size_t at = text.find('\n'); at != std::string::npos;
         at = text.find('\n', at + std::string(end).size())) {
      text.replace(at, 1, end);
    }
    const YamlNode root = parse_yaml(text, "x");
    EXPECT_EQ(to_json(root), Json::parse(R"({"a": 1, "b": [2, "c\nd"]})"));
    EXPECT_EQ(root.find("b")->items[1].line, 4);
  }
}

TEST(YamlTest, JsonHasTwoEscapesForOneCharacter) {
  EXPECT_EQ(to_json(parse_yaml(R"({"a": "x\ud83d\ude00y", "b": "\\ud83d\u00e9"})", "x")),
            Json::parse(R"({"a": "x\ud83d\ude00y", "b": "\\ud83d\u00e9"})"));
  EXPECT_EQ(to_json(parse_yaml("a: '\\ud83d\\ude00'", "x")).at("a"), "\\ud83d\\ude00");
  EXPECT_THAT(error_of(R"({"a": "\ud83d"})"), testing::HasSubstr("x.yaml:1: not YAML: "));
}

TEST(YamlTest, AliasesCopyAndMergesLend) {
  const YamlNode root = parse_yaml(
      "base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nboth: {<<: [*b, {z: 4}]}\nlist: *b\n", "x");
  EXPECT_EQ(to_json(*root.find("own")), Json::parse(R"({"x": 1, "y": 3})"));
  EXPECT_EQ(to_json(*root.find("both")), Json::parse(R"({"x": 1, "y": 2, "z": 4})"));
  EXPECT_EQ(to_json(*root.find("list")), Json::parse(R"({"x": 1, "y": 2})"));
  EXPECT_EQ(error_of("a: {<<: 3}"), "x.yaml:1: '<<' merges mappings, not 3");
}

TEST(YamlTest, SyntaxErrorNamesItsLine) {
  EXPECT_THAT(error_of("a: 1\nb: [1, 2\n"), HasSubstr("x.yaml:3: not YAML: "));
}

TEST(YamlTest, KeyThatStandsTwiceIsAnError) {
  EXPECT_EQ(error_of("a: 1\nb: 2\na: 3\n"), "x.yaml:3: a: this key stands twice in one mapping");
}

TEST(YamlTest, TextThatIsNotUtf8IsAnError) {
  for (const char* bytes : {"\x80", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                            "\xF5", "a\xE2\x82"}) {
    EXPECT_THAT(error_of("a: 1\nb: '" + std::string(bytes) + "'\n"), HasSubstr("x.yaml:2: "))
        << bytes;
  }
  EXPECT_EQ(error_of("a: '\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80'"), "no error");
}

TEST(YamlTest, SeveralDocumentsAreAnError) {
  EXPECT_EQ(error_of("a: 1\n---\nb: 2\n"), "x.yaml: several YAML documents; expected one");
}

TEST(YamlTest, BombIsAnErrorAndNotAHang) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'p'; ++name) {
    const char before = static_cast<char>(name - 1);
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i == 0 ? "*" : ", *") + before;
    bomb += "]\n";
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("more than 1000000 nodes, copies by alias included"));
}

TEST(YamlTest, AliasOfItselfIsAnError) {
  EXPECT_THAT(error_of("a: &a [1, *a]"),
              HasSubstr("an alias stands inside the node that it names"));
}

TEST(YamlTest, DeepNestingIsAnError) {
  EXPECT_THAT(error_of(std::string(150, '[') + std::string(150, ']')),
              HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("x.yaml:1: "));
}

TEST(YamlTest, HugeFileIsRefused) {
  EXPECT_EQ(error_of(std::string(17U << 20, 'a')), "x.yaml: larger than 16 MiB");
}

TEST(YamlTest, KeyThatIsNoTextIsAnError) {
  EXPECT_THAT(error_of("{[1]: 2}"), HasSubstr("a key is a list or a mapping; expected text"));
}

TEST(DiagnosticsTest, ErrorsBeyondAHundredAreCounted) {
  Diagnostics diagnostics("x.yaml");
  for (int i = 1; i <= 130; ++i) diagnostics.error(i, "k", "bad");
  try {
    diagnostics.throw_if_failed();
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.diagnostics().size(), 101U);
    EXPECT_THAT(error.what(), HasSubstr("x.yaml: and 30 more errors"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
