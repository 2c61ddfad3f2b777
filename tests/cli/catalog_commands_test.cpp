// expand, experiments, models, gpus: what they print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "cli/definition_list.h"
#include "cli/expand.h"
#include "cli/experiments.h"
#include "cli/gpus.h"
#include "cli/models.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

const std::string kTwelve = SFTBENCH_SOURCE_DIR "/experiments/spaces/cpu_smoke.yaml";

// stdout of one command line, or the text of its error. Messages go to stderr, as app.cpp sets it
// up.
std::string output_of(std::vector<std::string> arguments) {
  static const bool kToStderr = [] {
    spdlog::set_default_logger(spdlog::stderr_logger_mt("catalog_commands_test"));
    return true;
  }();
  EXPECT_TRUE(kToStderr);
  CLI::App app;
  int exit_code = -1;
  add_expand_command(app, exit_code);
  add_experiments_command(app, exit_code);
  add_models_command(app, exit_code);
  add_gpus_command(app, exit_code);
  std::reverse(arguments.begin(), arguments.end());
  ::testing::internal::CaptureStdout();
  try {
    app.parse(arguments);
  } catch (const InputError& error) {
    ::testing::internal::GetCapturedStdout();
    return error.what();
  } catch (const CLI::ParseError& error) {
    ::testing::internal::GetCapturedStdout();
    return error.what();
  }
  EXPECT_EQ(exit_code, 0);
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout();
}

int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(ExpandTest, FormatsHaveOneRowPerEntity) {
  EXPECT_EQ(lines(output_of({"expand", kTwelve})), 13);
  EXPECT_EQ(lines(output_of({"expand", kTwelve, "--format", "csv"})), 13);
  EXPECT_EQ(lines(output_of({"expand", kTwelve, "--format", "jsonl"})), 12);
  EXPECT_EQ(lines(output_of({"expand", kTwelve, "--format", "md"})), 14);
  EXPECT_EQ(Json::parse(output_of({"expand", kTwelve, "--format", "json"})).size(), 12U);
  EXPECT_EQ(lines(output_of({"expand", kTwelve, "--entity", "3", "--format", "jsonl"})), 1);
}

TEST(ExpandTest, RowsSayWhyAnEntityIsInvalid) {
  const std::string text = output_of(
      {"expand", kTwelve, "--set", "number_gpus=2", "--format", "jsonl", "--entity", "0"});
  const Json row = Json::parse(text);
  EXPECT_EQ(row["verdict"], "invalid");
  EXPECT_EQ(row["reason"][0]["code"], "RULE_1");
  EXPECT_EQ(row["reason"][0]["message"], "batch_size 1 cannot be divided evenly by number_gpus 2");
  EXPECT_EQ(row["reason"][1]["code"], "RULE_5");
  EXPECT_THAT(
      output_of({"expand", kTwelve, "--set", "number_gpus=2"}),
      HasSubstr("RULE_1: batch_size 1 cannot be divided evenly by number_gpus 2; RULE_5: "));
}

TEST(ExpandTest, BlocksOfALargeSpaceMakeOneDocument) {
  std::vector<std::string> ranged = {
      "expand", kTwelve, "--set", "gradient_checkpointing=true", "--set", "fast_moe=[0, 1, 2, 4]"};
  std::string list = "[1";
  for (int i = 2; i <= 1500; ++i) list += ", " + std::to_string(i);
  ranged.insert(ranged.end(), {"--set", "batch_size=" + list + "]", "--format"});
  const int64_t entities = int64_t{2} * 1500 * 4;
  auto csv = ranged;
  csv.emplace_back("csv");
  EXPECT_EQ(lines(output_of(csv)), entities + 1);
  auto json = ranged;
  json.emplace_back("json");
  const Json rows = Json::parse(output_of(json));
  ASSERT_EQ(static_cast<int64_t>(rows.size()), entities);
  for (int64_t i = 0; i < entities; i += 997) EXPECT_EQ(rows[static_cast<size_t>(i)]["index"], i);
}

TEST(ExperimentsTest, ListsAndDescribes) {
  EXPECT_THAT(output_of({"experiments"}),
              HasSubstr("finetune_full_benchmark-v1.0.0       full              4        30"));
  const std::string full = output_of({"experiments", "finetune_full_benchmark-v1.0.0"});
  EXPECT_THAT(full, HasSubstr("\nRequired properties\n  model_name "));
  EXPECT_THAT(full, HasSubstr("an integer from 1 to 4096 [entries]"));
  EXPECT_THAT(full, HasSubstr("learning_rate              1e-05"));
  const Json json =
      Json::parse(output_of({"experiments", "finetune_full_benchmark-v1.0.0", "--format", "json"}));
  EXPECT_EQ(json["properties"].size(), 34U);
  EXPECT_EQ(json["measured"].size(), 23U);
  EXPECT_EQ(output_of({"experiments", "finetune_full_benchmrk-v1.0.0"}),
            "unknown experiment 'finetune_full_benchmrk-v1.0.0'; expected one of "
            "finetune_full_benchmark-v1.0.0, finetune_full_stability-v1.0.0, "
            "finetune_gptq-lora_benchmark-v1.0.0, finetune_lora_benchmark-v1.0.0, "
            "finetune_pt_benchmark-v1.0.0, finetune_qlora_benchmark-v1.0.0; did you mean "
            "'finetune_full_benchmark-v1.0.0'?");
  EXPECT_THAT(output_of({"experiments", "finetune_gtpq-lora_benchmark-v1.0.0"}),
              HasSubstr("\nAlso spelled finetune_gtpq-lora_benchmark-v1.0.0\n"));
}

TEST(ExperimentsTest, TheBeginningOfANameIsEnough) {
  EXPECT_EQ(output_of({"experiments", "finetune_lora"}),
            output_of({"experiments", "finetune_lora_benchmark-v1.0.0"}));
  for (const char* name : {"finetune_full", "full"})
    EXPECT_EQ(output_of({"experiments", name}),
              output_of({"experiments", "finetune_full_benchmark-v1.0.0"}));
  EXPECT_THAT(output_of({"experiments", "finetune_f"}),
              HasSubstr("'finetune_f' is the beginning of several names; expected more of one of "
                        "finetune_full_benchmark-v1.0.0, finetune_full_stability-v1.0.0"));
  EXPECT_THAT(output_of({"experiments", "lor"}), HasSubstr("unknown experiment 'lor'"));
}

TEST(ModelsTest, ThoseWithoutAnArchitectureTrainFromTheirFilesAlone) {
  EXPECT_THAT(output_of({"models", "allam-1-13b"}),
              HasSubstr("from its files alone: its architecture is not published"));
  EXPECT_THAT(output_of({"models", "--format", "md"}),
              testing::ContainsRegex("granite-8b-japanese [^\n]*\\| files +\\|"));
  const Json known = Json::parse(output_of({"models", "smollm2-135m", "--format", "json"}));
  EXPECT_EQ(known["architecture_known"], true);
  const Json unknown = Json::parse(output_of({"models", "allam-1-13b", "--format", "json"}));
  EXPECT_EQ(unknown["architecture_known"], false);
  EXPECT_EQ(unknown["trains"], true);
  EXPECT_THAT(output_of({"models", "--format", "csv"}),
              testing::ContainsRegex("granite-8b-japanese,[^\n]*,files,"));
}

TEST(ModelsTest, ListsAndDescribesWithSources) {
  EXPECT_EQ(lines(output_of({"models"})), 111);
  EXPECT_THAT(output_of({"models"}), testing::ContainsRegex("granite-3.1-2b .* yes  "));
  EXPECT_THAT(output_of({"models"}), testing::ContainsRegex("llava-v1.6-mistral-7b .* yes  "));
  const std::string full = output_of({"models", "granite-3.1-2b"});
  EXPECT_THAT(full, HasSubstr("parameters       2533525504 (2.534 B)"));
  EXPECT_THAT(full, HasSubstr("inferred in:"));
  EXPECT_THAT(output_of({"models", "granite-4.0-h-small"}),
              HasSubstr("max_position_embeddings   131072 (recalled)"));
  const Json json = Json::parse(output_of({"models", "allam-1-13b", "--format", "json"}));
  EXPECT_EQ(json["facts"], "unpublished");
  EXPECT_TRUE(json["parameters"].is_null());
  EXPECT_EQ(output_of({"models", "granite-31-2b"}),
            "unknown model 'granite-31-2b'; expected a model of `sftbench models`; did you mean "
            "'granite-3.1-2b'?");
}

TEST(ModelsTest, APartOfANameListsTheRowsThatHaveIt) {
  const auto names = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "json"});
    std::vector<std::string> found;
    for (const Json& row : Json::parse(output_of(words)))
      found.push_back(row.begin()->get<std::string>());
    return found;
  };
  EXPECT_THAT(names({"models", "SmolLM2"}),
              testing::UnorderedElementsAre("smollm2-135m", "smollm2-360m", "smollm2-1.7b"));
  EXPECT_THAT(names({"gpus", "rtx 40", "--sort", "memory_GiB"}),
              testing::AllOf(testing::SizeIs(testing::Gt(3)), testing::Each(HasSubstr("RTX-40"))));
  const Json gpus = Json::parse(output_of({"gpus", "--sort", "USD/h", "--format", "json"}));
  for (size_t i = 1; i < gpus.size(); ++i) {
    const Json &before = gpus[i - 1]["USD/h"], &price = gpus[i]["USD/h"];
    EXPECT_TRUE(price.is_null() || (before.is_number() && before <= price)) << i;
  }
  EXPECT_TRUE(gpus[0]["USD/h"].is_number());
  EXPECT_THAT(names({"models", "--family", "qwen3", "--max-parameters", "2B"}),
              testing::UnorderedElementsAre("qwen3-0.6b", "qwen3-1.7b"));
  EXPECT_THAT(output_of({"models", "--min-parameters", "1x"}),
              HasSubstr("a whole number from 1 to 1000000000000000: 50k, 1.5M"));
  EXPECT_EQ(names({"models", "--family", "gemma3"}), names({"models", "--family", "gemma3_text"}));
  EXPECT_GT(names({"models", "--family", "gemma"}).size(),
            names({"models", "--family", "gemma3"}).size());
  EXPECT_THAT(output_of({"models", "--family", "qwen4"}),
              AllOf(HasSubstr("--family: unknown family 'qwen4'; expected one of bloom, "),
                    HasSubstr("did you mean 'qwen2'?")));
  EXPECT_THAT(output_of({"models", "--min-parameters", "2B", "--max-parameters", "1B"}),
              HasSubstr("no model is left"));
  EXPECT_THAT(output_of({"models", "--sort", "size"}),
              HasSubstr("--sort: unknown column 'size'; expected one of model, family, "));
}

TEST(ModelsTest, ThoseThatFitAreThoseThatPredictSaysFit) {
  const auto fitting = [](const char* method) {
    std::vector<std::string> found;
    for (const Json& row : Json::parse(
             output_of({"models", "--fits", "RTX-4090", "--method", method, "--format", "json"}))) {
      EXPECT_LE(row["memory_GiB"], 24);
      EXPECT_GT(row["tokens/s"], 0);
      found.push_back(row["model"]);
    }
    return found;
  };
  using testing::Contains;
  using testing::Not;
  EXPECT_THAT(fitting("full"),
              testing::AllOf(Contains("llama3.2-1b"), Not(Contains("llama3.2-3b"))));
  EXPECT_THAT(fitting("lora"),
              testing::AllOf(Contains("llama3.1-8b"), Not(Contains("gemma2-27b"))));
  EXPECT_GT(fitting("qlora").size(), fitting("lora").size());
  EXPECT_THAT(output_of({"models", "--fits", "RTX-4091"}),
              HasSubstr("--fits: unknown GPU 'RTX-4091'"));
  EXPECT_THAT(output_of({"models", "--method", "full"}), HasSubstr("--method requires --fits"));
}

TEST(GpusTest, ListsAndDescribes) {
  EXPECT_EQ(lines(output_of({"gpus"})), 75);
  EXPECT_THAT(output_of({"gpus", "NVIDIA H100 80GB HBM3"}), HasSubstr("989.4 TFLOP/s, dense"));
  EXPECT_THAT(output_of({"gpus", "NVIDIA-H100-PCX"}),
              HasSubstr("did you mean 'NVIDIA-H100-PCIe'?"));
  EXPECT_EQ(
      Json::parse(output_of({"gpus", "L40S", "--format", "json"}))["peak_flops_per_s"]["float32"],
      91.6e12);
}

TEST(DefinitionListTest, WrapsTextsBesideTheirTerms) {
  EXPECT_EQ(definition_list({{"a", "one"}, {"bcd", "two\nthree"}}),
            "  a    one\n  bcd  two\n       three\n");
  const std::string text =
      definition_list({{std::string(50, 'x'), "after a long term"}, {"y", "z"}});
  EXPECT_EQ(text, "  " + std::string(50, 'x') + "\n     after a long term\n  y  z\n");
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  std::istringstream wrapped(definition_list({{"term", words}}));
  for (std::string line; std::getline(wrapped, line);) EXPECT_LE(line.size(), 100U);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
