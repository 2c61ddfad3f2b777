#include "sftbench/huggingface/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "huggingface/test_folder.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelListTest : public testing::Test {
 protected:
  ~ModelListTest() override { fs::remove_all(folder_); }

  std::vector<std::string> read(const std::string& yaml) {
    write_file_atomic(path_, yaml);
    notes_.clear();
    return described(read_model_list(path_, notes_));
  }
  static std::vector<std::string> described(const std::vector<FetchRequest>& requests) {
    std::vector<std::string> texts;
    for (const FetchRequest& request : requests)
      texts.push_back(request.name + " = " + request.hub_id + "@" + request.revision);
    return texts;
  }
  std::string problem(const std::string& yaml) {
    try {
      read(yaml);
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  }

  fs::path folder_ = test_folder();
  std::string path_ = (folder_ / "models.yaml").string();
  std::vector<std::string> notes_;
};

template <typename Call>
std::string input_problem(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST_F(ModelListTest, ReadsTheFormOfTheDocuments) {
  EXPECT_THAT(read("smollm2-135m:\n  Vanilla: HuggingFaceTB/SmolLM2-135M\n"),
              ElementsAre("smollm2-135m = HuggingFaceTB/SmolLM2-135M@main"));
}

TEST_F(ModelListTest, ReadsEveryWeightTypeAndBareIds) {
  EXPECT_THAT(
      read("a:\n  Vanilla: org/a\n  QPTQ-Quantized: org/a-gptq@v1\n"
           "b: org/b\n"
           "c: {GPTQ-Quantized: /models/c}\n"),
      ElementsAre("a = org/a@main", "a (QPTQ-Quantized) = org/a-gptq@v1", "b = org/b@main"));
  EXPECT_THAT(notes_, ElementsAre("c.GPTQ-Quantized is the folder /models/c: nothing to fetch"));
}

TEST_F(ModelListTest, ReadsTheCatalogThatShips) {
  const std::string shipped = std::string(SFTBENCH_SOURCE_DIR) + "/config/models.yaml";
  const auto requests = described(read_model_list(shipped, notes_));
  EXPECT_THAT(requests, testing::Contains("smollm2-135m = HuggingFaceTB/SmolLM2-135M@main"));
  EXPECT_THAT(notes_, testing::Contains(HasSubstr("allam-1-13b is the folder ")));
}

TEST_F(ModelListTest, NamesEverythingThatIsWrong) {
  EXPECT_EQ(problem("a: {Vanila: org/a}\nb: {Vanilla: }\nc: {Vanilla: 'org/../c'}\nd: 'x y'\n"),
            path_ +
                ":1: a.Vanila: unknown key; expected one of Vanilla, GPTQ-Quantized, "
                "QPTQ-Quantized; did you mean 'Vanilla'?\n" +
                path_ + ":2: b.Vanilla: found nothing; expected a hub id like ORG/NAME\n" + path_ +
                ":3: c.Vanilla: 'org/../c' is no hub id; expected a hub id like ORG/NAME\n" +
                path_ + ":4: d: 'x y' is no hub id; expected a hub id like ORG/NAME");
  EXPECT_THAT(problem("[a, b]"),
              HasSubstr("expected models by name, like `smollm2-135m: {Vanilla: "));
  for (const char* none : {"", "{}", "[]", "[a]", "7"})
    EXPECT_THAT(problem(none), HasSubstr("expected models by name")) << none;
}

TEST_F(ModelListTest, NamesChooseAmongThoseOfTheFile) {
  read("a: {Vanilla: org/a, GPTQ-Quantized: org/g}\nbee: org/b\n");
  const auto listed = read_model_list(path_, notes_);
  EXPECT_THAT(described(choose_models(listed, {"a"}, "f")),
              ElementsAre("a = org/a@main", "a (GPTQ-Quantized) = org/g@main"));
  EXPECT_EQ(choose_models(listed, {}, "f").size(), 3u);
  EXPECT_EQ(
      input_problem([&] {
        choose_models(listed, {"bea", "zzzzzz"}, "f");
      }),
      "model 'bea' is not to be fetched by f; expected one of a, a (GPTQ-Quantized), bee; did "
      "you mean 'bee'?\n"
      "model 'zzzzzz' is not to be fetched by f; expected one of a, a (GPTQ-Quantized), bee");
}

TEST(FindModelsTest, TakesModelsOfTheCatalogAndHubIds) {
  const ModelCatalog& catalog = Catalog::shipped().models;
  const auto requests =
      find_models({"smollm2-135m", "llama3-8b@refs/pr/1", "org/any@v1", "org/any"}, catalog);
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].hub_id, "HuggingFaceTB/SmolLM2-135M");
  EXPECT_EQ(requests[1].hub_id, "meta-llama/Meta-Llama-3-8B") << "a place behind the folder";
  EXPECT_EQ(requests[1].revision, "refs/pr/1");
  EXPECT_EQ(requests[2].name, "org/any");
  EXPECT_EQ(requests[2].revision, "v1");
  EXPECT_EQ(requests[3].revision, "main");
}

TEST(FindModelsTest, NamesEveryModelThatCannotBeFetched) {
  const ModelCatalog& catalog = Catalog::shipped().models;
  EXPECT_EQ(input_problem([&] {
              find_models({"smollm2-135n", "allam-1-13b", "smollm2-135m@../x"}, catalog);
            }),
            "unknown model 'smollm2-135n'; expected a model of `sftbench models`, or a hub id like "
            "ORG/NAME; did you mean 'smollm2-135m'?\n"
            "model 'allam-1-13b' is not on a hub; its weights are known only as "
            "/hf-models-pvc/allam-1-13b-instruct-20240607; expected its folder under model_map of "
            "--config\n"
            "'../x' is no revision; expected NAME@REVISION");
}

TEST(HubNameTest, WhatCouldLeadElsewhereIsNoName) {
  for (const char* good : {"org/name", "gpt2", "HuggingFaceTB/SmolLM2-135M", "a/b@main",
                           "a/b@refs/pr/1", "a/b_c.d-e@v1.0"}) {
    EXPECT_EQ(hub_name_problem(good), "") << good;
  }
  for (const char* bad :
       {"", "/", "a/", "/b", "../b", "a/..", "a/b/c", "a--b/c", "a/b?x=1", "a/b c", "a/b\n", "a/b@",
        "a/b@../c", "a/b@/c", "a/b@c/", "a/b@x?y", "a/.b", "a/b@.git", "a/b@x/.y"}) {
    EXPECT_NE(hub_name_problem(bad), "") << bad;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
