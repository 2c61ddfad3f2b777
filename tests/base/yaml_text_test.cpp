#include "sftbench/base/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "sftbench/base/yaml.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

TEST(YamlTextTest, EveryReaderGetsTheSameTextsBack) {
  const std::vector<std::string> texts = {
      "",           "true",          "8",     "1e3",     "null",       "~",
      "- a",        "a: b",          "#x",    "a #b",    " a",         "a ",
      "a\nb\n",     "a\nb",          "\ta\n", "\n\na\n", "ü\nx\n",     "a\n\n",
      "  x:\n y\n", "key:\n  - 1\n", "=",     "@at",     "2001-01-01", "0x1F",
      "'",          "\"q\"",         "|",     "no",      "{{a}}",      "a\r\nb\n",
      "x: |\n  y\n"};
  Json value = {{"list", texts}, {"empty", Json::object()}, {"none", Json::array()}, {"n", 3}};
  for (size_t i = 0; i < texts.size(); ++i) value["map"]["k" + std::to_string(i)] = texts[i];
  const YAML::Node read = YAML::Load(yaml_document(value));
  EXPECT_EQ(read["list"].as<std::vector<std::string>>(), texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    const YAML::Node node = read["map"]["k" + std::to_string(i)];
    EXPECT_TRUE(node.IsScalar()) << texts[i];
    EXPECT_EQ(node.Scalar(), texts[i]);
  }
  EXPECT_TRUE(read["empty"].IsMap());
  EXPECT_EQ(read["n"].as<int>(), 3);
}

TEST(YamlTextTest, LinesStandAsLines) {
  EXPECT_THAT(yaml_document({{"k", "a\nb\n"}}), HasSubstr("k: |\n  a\n  b\n"));
  EXPECT_THAT(yaml_document({{"k", "a\nb"}}), HasSubstr("k: \"a\\nb\"\n"));
}

// sftbench's reader of YAML 1.1 resolves scalars as PyYAML does.
TEST(YamlTextTest, NumbersStayNumbersInYaml11) {
  const Json numbers = {1e-5, 1e-10, 1.5e-7, 0.5, 1e22, 3, -2.0};
  EXPECT_EQ(to_json(parse_yaml(yaml_document({{"n", numbers}}), {})), Json({{"n", numbers}}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
