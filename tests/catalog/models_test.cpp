#include "sftbench/catalog/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog_files.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ModelCatalog& shipped() {
  return Catalog::shipped().models;
}

TEST(ModelCatalogTest, HasTheModelsOfTheDocuments) {
  int listed = 0;
  for (const ModelFacts& model : shipped().models()) listed += model.in_entity_space ? 1 : 0;
  EXPECT_EQ(listed, 36);
  for (const char* name :
       {"llama3.2-1b", "llama3.2-3b", "granite-3.0-1b-a400m-base", "granite-8b-code-instruct"}) {
    ASSERT_NE(shipped().find(name), nullptr) << name;
    EXPECT_FALSE(shipped().find(name)->in_entity_space) << name;
  }
}

TEST(ModelCatalogTest, UnpublishedModelsHaveNoNumbers) {
  for (const char* name : {"granite-8b-japanese", "allam-1-13b", "granite-3b-1.5"}) {
    const ModelFacts& model = *shipped().find(name);
    EXPECT_EQ(model.confidence, Confidence::kUnpublished) << name;
    EXPECT_TRUE(model.hf_config.is_null()) << name;
    EXPECT_FALSE(model.published.has_value()) << name;
    EXPECT_FALSE(model.experts().has_value()) << name;
    EXPECT_FALSE(model.note.empty()) << name;
  }
}

TEST(ModelCatalogTest, EveryModelHasWeightsAndSources) {
  for (const ModelFacts& model : shipped().models()) {
    EXPECT_FALSE(model.weights.empty()) << model.name;
    EXPECT_FALSE(model.sources.empty()) << model.name;
    EXPECT_FALSE(model.family.empty()) << model.name;
  }
}

TEST(ModelCatalogTest, NearNamesAreThoseThatPeopleWrite) {
  const auto near = [](const char* written) {
    const NearModel found = shipped().near(written);
    return found.name + (found.same_one ? " itself" : found.same_shapes ? " by shapes" : "");
  };
  EXPECT_EQ(near("Llama-2-7B"), "llama2-7b itself");
  EXPECT_EQ(near("meta-llama/Llama-2-13b-chat-hf"), "llama2-13b itself");
  EXPECT_EQ(near("Qwen/Qwen2.5-7B-Instruct"), "qwen2.5-7b itself");
  EXPECT_EQ(near("google/gemma-2-2b-it"), "gemma2-2b itself");
  EXPECT_EQ(near("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"), "deepseek-r1-distill-qwen-7b itself");
  EXPECT_EQ(near("mistralai/Mixtral-8x7B-v0.1"), "mixtral-8x7b-instruct-v0.1 by shapes");
  EXPECT_EQ(near("Llama-2-70B"), "llama2-70b itself");
  EXPECT_EQ(near("meta-llama/Meta-Llama-3.1-8B-Instruct"), "llama3.1-8b itself");
  EXPECT_EQ(near("LLAMA_3.1_8B"), "llama3.1-8b itself");
  EXPECT_EQ(near("HuggingFaceTB/SmolLM2-135M-Instruct"), "smollm2-135m itself");
  EXPECT_EQ(near("unsloth/llama-3-8b-bnb-4bit"), "llama3-8b itself");
  EXPECT_EQ(near("unsloth/gemma-2-9b-it-unsloth-bnb-4bit"), "gemma2-9b itself");
  EXPECT_EQ(near("zephyr-7b-beta"), "mistral-7b-v0.1 by shapes");
  EXPECT_EQ(near("smollm2-136m"), "smollm2-135m");
  EXPECT_EQ(near("ai21labs/Jamba-v0.1"), "");
  EXPECT_EQ(near(""), "");
  EXPECT_EQ(near("7B"), "") << "the end of a path is no name";
  EXPECT_EQ(near(std::string(100'000, 'a').c_str()), "");
}

ModelCatalog catalog_of(const std::string& models) {
  return ModelCatalog::read(TemporaryFile("sources: {here: somewhere}\nmodels:\n" + models).path());
}

TEST(ModelCatalogTest, SpellingsKeepSomethingOfAName) {
  const std::string name(256, 'x');
  const ModelCatalog catalog = catalog_of(
      "  base: {weights: {}, facts: unpublished, sources: [here]}\n"
      "  none: {weights: {GPTQ-Quantized: [lab/other]}, facts: unpublished, sources: [here]}\n"
      "  llama: {weights: {Vanilla: [/models/secret, lab/alpaca]}, facts: unpublished, sources: "
      "[here]}\n  " +
      name + ": {weights: {}, facts: unpublished, sources: [here]}\n");
  const auto is_one = [&catalog](const std::string& written, const std::string& model) {
    const NearModel near = catalog.near(written);
    return near.same_one && near.name == model;
  };
  EXPECT_TRUE(is_one("Base", "base")) << "an ending that is all of a name";
  EXPECT_TRUE(is_one("Base-Instruct", "base"));
  EXPECT_TRUE(is_one("None-chat-hf-it-base-instruct", "none")) << "endings in any order";
  EXPECT_TRUE(is_one("Meta-Llama-hf", "llama"));
  EXPECT_TRUE(is_one("other-lab/Alpaca", "llama"));
  EXPECT_FALSE(is_one("secret", "llama"));
  EXPECT_FALSE(is_one("other", "none"));
  EXPECT_TRUE(is_one(std::string(256, 'X'), name)) << "the longest name";
  EXPECT_EQ(catalog.near(std::string(257, 'x')).name, "");
}

// Half of a unit of the last digit that is given.
TEST(ModelCatalogTest, APublishedCountIsAsExactAsItsDigits) {
  const struct {
    const char* text;
    double parameters, tolerance;
  } kCounts[] = {{"6738415616", 6738415616, 0},
                 {"7B", 7e9, 0.5e9},
                 {"3.4B", 3.4e9, 0.05e9},
                 {"1.35B", 1.35e9, 0.005e9},
                 {"13.0B", 13e9, 0.05e9}};
  for (const auto& [text, parameters, tolerance] : kCounts) {
    const ModelCatalog catalog = catalog_of(
        std::string("  one: {weights: {}, facts: unpublished, sources: [here], published: "
                    "{parameters: ") +
        text + ", mark: inferred, source: here}}\n");
    const PublishedCount count = catalog.find("one")->published.value();
    EXPECT_EQ(count.text, text);
    EXPECT_DOUBLE_EQ(count.parameters, parameters) << text;
    EXPECT_DOUBLE_EQ(count.tolerance, tolerance) << text;
    EXPECT_EQ(count.confidence, Confidence::kInferred);
    EXPECT_EQ(count.source, "somewhere");
  }
  for (const char* text : {"B", "'7 B'", "7M", "7BB", "many"}) {
    EXPECT_THAT(error_of_file(
                    std::string("sources: {here: somewhere}\nmodels:\n  one: {weights: {}, facts: "
                                "unpublished, sources: [here], published: {parameters: ") +
                        text + ", mark: read, source: here}}\n",
                    [](const std::string& path) { ModelCatalog::read(path); }),
                HasSubstr("models.one.published.parameters: no count"))
        << text;
  }
}

TEST(ModelCatalogTest, SameShapesAreOfModelsThatHaveAnArchitecture) {
  for (const ModelFacts& model : shipped().models()) {
    if (model.same_shapes.empty()) continue;
    EXPECT_FALSE(model.hf_config.is_null()) << model.name;
    for (const std::string& other : model.same_shapes) {
      EXPECT_NE(other.find('/'), std::string::npos) << other;
      EXPECT_EQ(shipped().find(other), nullptr) << other;
    }
  }
}

TEST(ModelCatalogTest, KnowsExpertsTargetsAndPlaces) {
  EXPECT_EQ(shipped().find("mixtral-8x7b-instruct-v0.1")->experts(), 8);
  EXPECT_EQ(shipped().find("granite-3.1-3b-a800m-instruct")->experts(), 40);
  EXPECT_EQ(shipped().find("llama3.1-8b")->experts(), 0);
  EXPECT_THAT(shipped().find("llama-7b")->lora_targets, ElementsAre("q_proj", "k_proj"));
  EXPECT_THAT(shipped().find("granite-20b-v2")->gptq_lora_targets, ElementsAre("c_attn", "c_proj"));
  EXPECT_THAT(shipped().find("llama3.1-8b")->weights.at("Vanilla"),
              ElementsAre("/hf-models-pvc/LLaMa/models/hf/llama3.1-8b", "meta-llama/Llama-3.1-8B"));
  EXPECT_EQ(shipped().find("no-such-model"), nullptr);
}

TEST(ModelCatalogTest, ListsAllThatIsWrongWithAFile) {
  EXPECT_EQ(catalog_error<ModelCatalog>(R"(
sources: {here: somewhere}
models:
  one: {weights: {Vanila: [x]}, config: {model_type: llama}, facts: guessed, sources: [there], recalled: [layers]}
  two: {weights: {}, facts: read, sources: [here], published: {parameters: many, mark: read, source: here}}
)"),
            "FILE:4: models.one.weights.Vanila: unknown key; expected one of Vanilla, "
            "GPTQ-Quantized; did you mean "
            "'Vanilla'?\n"
            "FILE: models.one.facts: found 'guessed'; expected one of read, recalled, inferred, "
            "unpublished\n"
            "FILE:4: models.one.recalled: 'layers' is no key of config\n"
            "FILE:4: models.one: unknown source 'there'; expected a key of the table `sources`\n"
            "FILE:5: models.two.config: missing\n"
            "FILE:5: models.two.published.parameters: no count; expected an integer or a figure "
            "like 3.4B");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
