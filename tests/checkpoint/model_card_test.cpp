// The model card of a saved folder: metadata as peft and transformers write them, and names that
// would like to be more than names.
#include "sftbench/checkpoint/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What stands between the first two lines "---", as huggingface_hub and the hub read it.
std::string metadata_of(const std::string& card) {
  EXPECT_EQ(card.substr(0, 4), "---\n");
  const size_t end = card.find("\n---\n", 4);
  EXPECT_NE(end, std::string::npos);
  return card.substr(4, end - 3);
}

std::string body_of(const std::string& card) {
  return card.substr(card.find("\n---\n", 4) + 5);
}

std::vector<std::string> keys_of(const YAML::Node& map) {
  std::vector<std::string> keys;
  for (const auto& member : map) keys.push_back(member.first.as<std::string>());
  return keys;
}

ModelCard card_with(const std::string& name) {
  ModelCard card;
  card.title = "LoRA adapter";
  card.base_model = name;
  card.is_adapter = true;
  card.tags = {"lora"};
  card.facts = {{"Base model", name}, {"Dataset", name}};
  card.arguments = {{"data.text_field", name}};
  return card;
}

// Names of files and models may hold any byte but "/" and NUL, and paths hold "/", too.
const std::vector<std::string> kHostileNames = {
    "plain/name",
    "",
    "a\n---\nlicense: mit\n",
    "---",
    "x: y",
    "a # b",
    "\"quoted\" 'twice'",
    "back\\slash\\n",
    "null",
    "1e3",
    "2020-01-01",
    "- item",
    "{a: [b]}",
    "*alias &anchor !tag %directive @at `tick`",
    "``` fence ```",
    "<script>alert(1)</script>",
    "tab\there",
    "cr\rlf\r\n",
    "next line \xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9 end",
    "bell \x07 escape \x1b delete \x7f",
    "mark \xef\xbb\xbf, \xef\xbf\xbe",
    "\xe6\xa8\xa1\xe5\x9e\x8b \xf0\x9f\x98\x80",
    "  spaces  ",
};

TEST(ModelCard, LetsNoNameBreakItsMetadata) {
  const char* kept = std::getenv("SFTBENCH_KEEP_CARDS");  // for cards.py --check
  for (size_t i = 0; i < kHostileNames.size(); ++i) {
    const std::string& name = kHostileNames[i];
    SCOPED_TRACE(name);
    const std::string text = model_card_text(card_with(name));
    const YAML::Node metadata = YAML::Load(metadata_of(text));
    const YAML::Node other = YAML::Load(metadata_of(model_card_text(card_with("org/name"))));
    if (!name.empty()) {
      EXPECT_EQ(keys_of(metadata), keys_of(other));
      EXPECT_EQ(metadata["base_model"].as<std::string>(), name);
      EXPECT_EQ(metadata["tags"][0].as<std::string>(), "base_model:adapter:" + name);
    }
    EXPECT_EQ(metadata["library_name"].as<std::string>(), "peft");
    EXPECT_EQ(metadata["pipeline_tag"].as<std::string>(), "text-generation");
    if (kept == nullptr) continue;
    fs::create_directories(kept);
    write_file_atomic(fs::path(kept) / (std::to_string(i) + ".md"), text);
    write_file_atomic(fs::path(kept) / (std::to_string(i) + ".json"), json_text(Json(name)));
  }
}

TEST(ModelCard, LetsNoNameBreakItsLines) {
  const std::string usual = body_of(model_card_text(card_with("org/name")));
  const auto lines = std::count(usual.begin(), usual.end(), '\n');
  for (const std::string& name : kHostileNames) {
    SCOPED_TRACE(name);
    const std::string body = body_of(model_card_text(card_with(name)));
    EXPECT_EQ(std::count(body.begin(), body.end(), '\n'), lines);
    EXPECT_EQ(body.find('\r'), std::string::npos);
    EXPECT_EQ(body.find('\x1b'), std::string::npos);
  }
}

TEST(ModelCard, TakesBytesThatAreNotUtf8) {
  const std::string text = model_card_text(card_with("caf\xe9"));
  const YAML::Node metadata = YAML::Load(metadata_of(text));
  EXPECT_EQ(metadata["base_model"].as<std::string>(), "caf\xef\xbf\xbd");
  EXPECT_EQ(text.find('\xe9'), std::string::npos);
}

TEST(MarkdownCode, StaysCode) {
  EXPECT_EQ(markdown_code("llama"), "`llama`");
  EXPECT_EQ(markdown_code(""), "(empty)");
  EXPECT_EQ(markdown_code("a`b"), "``a`b``");
  EXPECT_EQ(markdown_code("`"), "`` ` ``");
  EXPECT_EQ(markdown_code("``` x"), "```` ``` x ````");
  EXPECT_EQ(markdown_code("two\nlines"), "`two\\nlines`");
}

TEST(YamlQuoted, EscapesWhatYamlDoesNotTake) {
  EXPECT_EQ(yaml_quoted("org/name"), "\"org/name\"");
  EXPECT_EQ(yaml_quoted("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(yaml_quoted("\x7f\xc2\x85\xe2\x80\xa8"), "\"\\x7F\\x85\\u2028\"");
  EXPECT_EQ(yaml_quoted("\xc2\xa0\xc3\xa9"), "\"\xc2\xa0\xc3\xa9\"");
}

TEST(ModelCard, OfAModelNamesTransformers) {
  ModelCard card;
  card.title = "Fine-tuned model";
  card.base_model = "org/name";
  card.tags = {"sft"};
  const std::string text = model_card_text(card);
  const YAML::Node metadata = YAML::Load(metadata_of(text));
  EXPECT_THAT(keys_of(metadata), ElementsAre("base_model", "library_name", "pipeline_tag", "tags"));
  EXPECT_EQ(metadata["library_name"].as<std::string>(), "transformers");
  EXPECT_THAT(metadata["tags"].as<std::vector<std::string>>(), ElementsAre("sft"));
  EXPECT_THAT(text, HasSubstr("\n# Fine-tuned model of `org/name`\n"));
  EXPECT_THAT(text, Not(HasSubstr("## Arguments")));
}

TEST(ModelCard, WithoutABaseHasNone) {
  ModelCard card;
  card.title = "Model trained from random weights";
  card.tags = {"sft"};
  const std::string text = model_card_text(card);
  EXPECT_THAT(keys_of(YAML::Load(metadata_of(text))),
              ElementsAre("library_name", "pipeline_tag", "tags"));
  EXPECT_THAT(text, HasSubstr("\n# Model trained from random weights\n"));
}

TEST(BaseModelName, IsTheHubsIdOfASnapshot) {
  const std::string hub = "/cache/hub/models--ibm-granite--granite-3.1-2b-base/snapshots/0a1b2c";
  EXPECT_EQ(base_model_name(hub), "ibm-granite/granite-3.1-2b-base");
  EXPECT_EQ(base_model_name(hub + "/"), "ibm-granite/granite-3.1-2b-base");
  EXPECT_EQ(base_model_name("/cache/hub/models--gpt2/snapshots/0a1b2c"), "gpt2");
  EXPECT_EQ(base_model_name("/data/my-llama"), "/data/my-llama");
  EXPECT_EQ(base_model_name("/cache/hub/models--gpt2/other/0a1b2c"),
            "/cache/hub/models--gpt2/other/0a1b2c");
  EXPECT_EQ(base_model_name("my-llama"), "my-llama");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
