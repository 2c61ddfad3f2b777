// import, predict --score and recommend: what they print, what they leave, what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/import.h"
#include "cli/predict.h"
#include "cli/recommend.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DecidingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);  // the program's log is on stderr, a library's on stdout
    const char* name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() /
              ("sftbench-decide-" + std::to_string(::getpid()) + "-" + name);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    spdlog::set_level(spdlog::level::info);
    std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name, const std::string& content) {
    write_file_atomic(folder_ / name, content);
    return (folder_ / name).string();
  }

  // stdout of one command line, or the text of its error.
  static std::string output_of(std::vector<std::string> arguments, int expected_exit_code = 0) {
    CLI::App app;
    int exit_code = -1;
    add_import_command(app, exit_code);
    add_predict_command(app, exit_code);
    add_recommend_command(app, exit_code);
    std::reverse(arguments.begin(), arguments.end());
    ::testing::internal::CaptureStdout();
    std::string error;
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& e) {
      error = e.what();
    } catch (const InputError& e) {
      error = e.what();
    } catch (const RunError& e) {
      error = e.what();
    }
    std::fflush(stdout);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(exit_code == expected_exit_code, error.empty());
    return error.empty() ? out : error;
  }

  std::filesystem::path folder_;
};

const std::string kTable =
    "experiment_id,model_name,gpu_model,number_gpus,model_max_length,batch_size,"
    "dataset_tokens_per_second,is_valid\n"
    "SFTTrainer.finetune_lora_benchmark-v1.0.0,llama3-8b,NVIDIA-A100-SXM4-80GB,1,1024,8,3500,1\n"
    "SFTTrainer.finetune_full_benchmark-v1.0.0,llama3-8b,NVIDIA-A100-SXM4-80GB,1,8192,64,,0\n"
    "SFTTrainer.finetune_full_benchmark-v1.0.0,my-own,NVIDIA-A100-SXM4-80GB,1,8192,64,1,1\n";

TEST_F(DecidingTest, ImportedRowsAreScored) {
  const std::string out =
      output_of({"import", file("table.csv", kTable), "--as", "ado", "-o", folder_.string()});
  EXPECT_THAT(out, HasSubstr("out_of_memory"));
  EXPECT_THAT(out, HasSubstr("model_name: found 'my-own'"));
  const std::string evidence = (folder_ / "evidence" / "table.jsonl").string();
  EXPECT_TRUE(std::filesystem::exists(evidence));
  const Json scores =
      Json::parse(output_of({"predict", "--score", folder_.string(), "--format", "json"}));
  EXPECT_EQ(scores[0]["name"], "all");
  EXPECT_EQ(scores[0]["rows"], 1);
  const Json rows =
      Json::parse(output_of({"predict", "--score", evidence, "--rows", "--format", "json"}));
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["verdict"], "oom");
  EXPECT_THAT(output_of({"predict", "--score", evidence}), HasSubstr("said_oom"));
}

TEST_F(DecidingTest, WhatIsWrongWithAnImportIsNamed) {
  const std::string table = file("table.csv", kTable);
  EXPECT_THAT(output_of({"import", table, "--as", "wandb"}), HasSubstr("unknown layout 'wandb'"));
  EXPECT_THAT(output_of({"import", table}), HasSubstr("--as is required"));
  EXPECT_THAT(output_of({"import", (folder_ / "none.csv").string(), "--as", "ado"}),
              HasSubstr("none.csv"));
  EXPECT_THAT(output_of({"import", table, "--as", "ado", "--map", "batch_size"}),
              HasSubstr("--map: found 'batch_size'; expected NAME=COLUMN"));
  EXPECT_THAT(output_of({"import", table, "--as", "ado", "--set", "r=1", "--set", "r=2"}),
              HasSubstr("--set r: given twice"));
  EXPECT_THAT(output_of({"import", table, "--as", "ado", "--stack", "nemo"}),
              HasSubstr("unknown stack 'nemo'"));
  EXPECT_THAT(output_of({"import", file("empty.csv", "model_name\nllama3-8b\n"), "--as", "ado",
                         "-o", folder_.string()}),
              HasSubstr("no row became evidence"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "evidence"));
}

TEST_F(DecidingTest, WhatIsWrongWithEvidenceIsNamed) {
  EXPECT_THAT(output_of({"predict", "--score", folder_.string()}), HasSubstr("has no evidence"));
  EXPECT_THAT(output_of({"predict", "--score", file("e.jsonl", "")}), HasSubstr("is empty"));
  EXPECT_THAT(output_of({"predict", "--score", file("e.jsonl", "{}")}),
              HasSubstr("e.jsonl:1: schema: is missing"));
  EXPECT_THAT(output_of({"predict", "space.yaml", "--score", "e.jsonl"}),
              HasSubstr("--score: is given beside a space"));
}

TEST_F(DecidingTest, OwnMeasurementsSharpenWhatIsPredictedOfTheirDevice) {
  output_of({"import", file("table.csv", kTable), "--as", "ado", "--stack", "sftbench", "-o",
             folder_.string()});
  const std::vector<std::string> question = {"predict",
                                             "--experiment",
                                             "finetune_lora_benchmark-v1.0.0",
                                             "--set",
                                             "model_name=llama3-8b",
                                             "--set",
                                             "gpu_model=NVIDIA-A100-SXM4-80GB",
                                             "--set",
                                             "number_gpus=1",
                                             "--set",
                                             "model_max_length=1024",
                                             "--set",
                                             "batch_size=8",
                                             "--format",
                                             "json"};
  const auto interval = [&question](const std::vector<std::string>& further) {
    std::vector<std::string> arguments = question;
    arguments.insert(arguments.end(), further.begin(), further.end());
    const std::string out = output_of(arguments);  // here the log goes there, too
    const Json json = Json::parse(out.substr(out.find('{')));
    const Json& seconds = json["step_seconds"];
    // One statistic: what is moved is moved everywhere.
    EXPECT_EQ(seconds["expected"], seconds["interval"]["expected"]);
    EXPECT_NEAR(json["padded_tokens_per_second"].get<double>() * seconds["expected"].get<double>(),
                4 * 8 * 1024, 1e-6);
    EXPECT_EQ(json["memory_bytes"]["needed"], json["memory_bytes"]["interval"]["expected"]);
    return std::pair(seconds["interval"], seconds["total"].get<double>());
  };
  const auto [before, arithmetic] = interval({});
  const auto [after, same] = interval({"--evidence", folder_.string()});
  EXPECT_EQ(same, arithmetic);
  EXPECT_EQ(before["expected"], arithmetic);
  EXPECT_THAT(after["basis"].get<std::string>(), HasSubstr("1 own measurement"));
  const double measured = 4 * 8 * 1024 / 3500.0;  // four micro-batches a step
  EXPECT_LT(std::abs(after["expected"].get<double>() - measured),
            std::abs(arithmetic - measured) / 2);
  EXPECT_LT(after["high"].get<double>() - after["low"].get<double>(),
            before["high"].get<double>() - before["low"].get<double>());
  std::vector<std::string> as_table = question;
  as_table.back() = "table";
  EXPECT_THAT(output_of(as_table), Not(HasSubstr("by arithmetic")));
  as_table.insert(as_table.end(), {"--evidence", folder_.string()});
  EXPECT_THAT(output_of(as_table), HasSubstr(cell_text(after["expected"]) + " s, " +
                                             cell_text(arithmetic) + " s by arithmetic"));
  EXPECT_THAT(
      output_of({"recommend", "--model", "llama3-8b", "--entries", "1000", "--gpus", "A100-80G",
                 "--max-gpus", "1", "--stack", "sftbench", "--evidence", folder_.string()}),
      HasSubstr("rests on 1 own measurement"));
  EXPECT_THAT(output_of({"recommend", "--model", "llama3-8b", "--entries", "1000", "--evidence",
                         (folder_ / "none").string()}),
              HasSubstr("does not exist"));
}

std::vector<std::string> rows_of(const char* length, const std::vector<std::string>& further) {
  std::vector<std::string> arguments = {"predict",
                                        "--experiment",
                                        "finetune_lora_benchmark-v1.0.0",
                                        "--set",
                                        "model_name=llama3-8b",
                                        "--set",
                                        "gpu_model=NVIDIA-A100-SXM4-80GB",
                                        "--set",
                                        "number_gpus=1",
                                        "--set",
                                        std::string("model_max_length=") + length,
                                        "--set",
                                        "batch_size=2",
                                        "--set",
                                        "gradient_accumulation_steps=1",
                                        "--format",
                                        "json"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return arguments;
}

std::string texts_of(const std::vector<int>& words) {
  std::string lines;
  for (const int count : words)
    lines += "{\"text\": \"" + std::string(static_cast<size_t>(2 * count), 'a') + "\"}\n";
  return lines;
}

TEST_F(DecidingTest, TheWorstBatchOfADatasetIsNamed) {
  const std::string data = file("data.jsonl", texts_of({3, 5, 400, 4, 6, 5, 7, 3}));
  const Json worst = Json::parse(
      output_of(rows_of("4096", {"--lengths-of", data, "--lengths-field", "text"})))["worst_batch"];
  EXPECT_EQ(worst["longest_entry"], 2);
  EXPECT_EQ(worst["rows"], 2);
  EXPECT_EQ(worst["steps"], 4);
  EXPECT_GT(worst["length"], worst["mean_row_length"]);
  EXPECT_LT(worst["out_of_memory_risk"], 0.01);
}

// Full rows do not fit. What the data have does, and the verdict and the exit status say so.
TEST_F(DecidingTest, TheLengthsOfTheDataDecideWhatFits) {
  const auto parsed = [](const std::string& out) {
    return Json::parse(out.substr(out.find("{\n")));
  };
  const char* length = "131072";
  const Json full = parsed(output_of(rows_of(length, {}), 3));
  EXPECT_EQ(full["verdict"], "oom");
  EXPECT_EQ(full["fits"], false);
  const std::string data = file("data.jsonl", texts_of({3, 5, 400, 4, 6, 5, 7, 3}));
  const Json counted =
      parsed(output_of(rows_of(length, {"--lengths-of", data, "--lengths-field", "text"})));
  const Json trained = parsed(output_of(rows_of(length, {"--data", data, "--text-field", "text"})));
  for (const Json& json : {counted, trained}) {
    EXPECT_EQ(json["verdict"], "fits");
    EXPECT_EQ(json["fits"], true);
    EXPECT_EQ(json["memory_bytes"]["needed"], json["worst_batch"]["memory_bytes"][1]);
    EXPECT_FALSE(json.contains("less_memory"));
    // Of time, rows are as long as they are on average.
    EXPECT_LT(json["step_seconds"]["expected"].get<double>(),
              full["step_seconds"]["expected"].get<double>() / 1000);
  }
  EXPECT_EQ(counted["worst_batch"], trained["worst_batch"]);
}

// Sets one behind the other are rows as those of one file.
TEST_F(DecidingTest, TheLengthsOfSeveralSetsAreCounted) {
  const auto parsed = [](const std::string& out) {
    return Json::parse(out.substr(out.find("{\n")));
  };
  const std::string first = texts_of({3, 5, 4, 6}), second = texts_of({5, 400, 7, 3});
  const std::string one = file("one.jsonl", first + second);
  const std::string a = file("a.jsonl", first), b = file("b.jsonl", second);
  const std::string axolotl =
      file("axolotl.yaml", "datasets:\n  - {path: " + a +
                               ", type: completion, field: text}\n  - {path: " + b +
                               ", type: completion, field: text}\n");
  const Json alone =
      parsed(output_of(rows_of("4096", {"--data", one, "--text-field", "text"})))["worst_batch"];
  EXPECT_EQ(alone["longest_entry"], 5);
  for (const std::vector<std::string>& several :
       {std::vector<std::string>{"--arguments", axolotl},
        {"--set", R"(data_mixture={"datasets": [{"training_data_path": ")" + a +
                      R"(", "dataset_text_field": "text"}, {"training_data_path": ")" + b +
                      R"(", "dataset_text_field": "text"}]})"}}) {
    EXPECT_EQ(parsed(output_of(rows_of("4096", several)))["worst_batch"], alone) << several[0];
  }
  const Json drawn = parsed(output_of(rows_of(
      "4096",
      {"--set",
       R"(data_mixture={"datasets": [{"sampling": 0.5, "training_data_path": ")" + a +
           R"(", "dataset_text_field": "text"}, {"sampling": 0.5, "training_data_path": ")" + b +
           R"(", "dataset_text_field": "text"}]})"})))["worst_batch"];
  EXPECT_EQ(drawn["longest_entry"], 5) << "wherever it stands in the mixture";
  EXPECT_GE(drawn["steps"], 4);
}

std::vector<std::string> asked(std::vector<std::string> further) {
  std::vector<std::string> arguments = {"recommend", "--model", "llama3.1-8b"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return arguments;
}

TEST_F(DecidingTest, RecommendationsComeAsTableAndAsJson) {
  const std::string text = output_of(asked({"--entries", "1000", "--gpus", "A100-80G,H100"}));
  EXPECT_THAT(text, HasSubstr("cheapest"));
  EXPECT_THAT(text, HasSubstr("sftbench run --experiment finetune_lora_benchmark-v1.0.0"));
  EXPECT_THAT(text, HasSubstr("USD/h"));
  EXPECT_THAT(text, HasSubstr("cost_USD"));
  EXPECT_THAT(text, HasSubstr("USD_per_Mtoken"));
  EXPECT_THAT(output_of(asked({"--entries", "10", "--gpus", "H100"})),
              testing::Not(HasSubstr("0 to 0 ")));
  const Json json = Json::parse(output_of(asked({"--entries", "1000", "--format", "json"})));
  EXPECT_EQ(json["tokens"], 1000 * 2048);
  EXPECT_EQ(json["cheapest"]["inputs"]["model_name"], "llama3.1-8b");
  EXPECT_FALSE(json["front"].empty());
  EXPECT_EQ(json["prices"]["currency"], "USD");
}

TEST_F(DecidingTest, ARecommendationSaysWhatItAssumesAndTakesItFromSet) {
  const std::vector<std::string> words = {"--entries", "1000", "--gpus", "A100-80G,H100"};
  const auto with = [&words](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return output_of(asked(more));
  };
  const std::string text = with({});
  EXPECT_THAT(text, testing::StartsWith("  assumes  trained by transformers (--stack)\n"));
  EXPECT_THAT(text, HasSubstr("products in bfloat16"));
  EXPECT_THAT(text, HasSubstr("LoRA of rank 4 on q_proj, v_proj"));
  EXPECT_THAT(text, HasSubstr("each of 1000 entries has 2048 tokens"));
  EXPECT_THAT(text, HasSubstr("is the cheapest below"));
  EXPECT_THAT(text, HasSubstr("by its own profile"));
  EXPECT_THAT(with({"--method", "gptq-lora"}), HasSubstr(" over 4-bit weights (--set r=N"));
  EXPECT_THAT(with({"--stack", "sftbench"}), testing::Not(HasSubstr("by its own profile")));
  const std::string larger = with({"--set", "r=16", "--set", "target_modules=all-linear"});
  EXPECT_THAT(larger, HasSubstr("LoRA of rank 16 on all-linear"));
  EXPECT_THAT(larger, HasSubstr("--set r=16"));
  EXPECT_THAT(with({"--set", "r=4,8"}), HasSubstr("--set: gives several values"));
  EXPECT_THAT(with({"--set", "rank=4"}), HasSubstr("rank"));
  EXPECT_THAT(with({"--set", "r=none"}), HasSubstr("is no value of r"));
  EXPECT_THAT(with({"--set", "batch_size=4"}), HasSubstr("expected --batch"));
  EXPECT_THAT(output_of(asked({"--entries", "1000"})),
              HasSubstr("GPUs have no price on demand or reserved, and are not"));
}

TEST_F(DecidingTest, OwnGpusAreAskedNoPrice) {
  const std::vector<std::string> words = {"--entries", "1000", "--gpus", "RTX-3090", "--own", "2"};
  const std::string text = output_of(asked(words));
  EXPECT_THAT(text, AllOf(HasSubstr("yours: 2 x NVIDIA-GeForce-RTX-3090, ranked by time"),
                          HasSubstr("fastest"), Not(HasSubstr("cheapest")), Not(HasSubstr("USD"))));
  const auto refused = [&words](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return output_of(asked(more));
  };
  EXPECT_THAT(output_of(asked({"--entries", "1000", "--gpus", "RTX-3090", "--own", "3"})),
              HasSubstr("2 GPUs of 3: a step of 32 rows is not divided among 3, one of 30 or 33 is "
                        "(--batch)"));
  EXPECT_THAT(
      output_of(asked({"--entries", "1000", "--gpus", "RTX-3090", "--own", "3", "--batch", "33"})),
      Not(HasSubstr("GPUs of 3")));
  EXPECT_THAT(refused({"--budget", "5"}), HasSubstr("--budget: given beside --own"));
  EXPECT_THAT(refused({"--max-gpus", "5"}), HasSubstr("--max-gpus excludes --own"));
  EXPECT_THAT(output_of(asked({"--entries", "1000", "--own", "2"})),
              HasSubstr("--own: names no GPU; expected --gpus NAME"));
}

TEST_F(DecidingTest, WhatNobodyRentsIsRankedByTime) {
  const auto with = [](const char* gpus) {
    return output_of(asked({"--entries", "1000", "--gpus", gpus, "--max-gpus", "1"}));
  };
  EXPECT_THAT(with("RTX-4090,RTX-A5500"),
              AllOf(HasSubstr("NVIDIA-RTX-A5500: not considered for cost: no price"),
                    HasSubstr("cheapest"), HasSubstr("\nno price  NVIDIA-RTX-A5500")));
  EXPECT_THAT(with("RTX-A5500"), AllOf(HasSubstr("RTX-A5500, ranked by time: not considered for "),
                                       HasSubstr("fastest")));
}

TEST_F(DecidingTest, AnUnlistedCardIsRecommendedByItsFigures) {
  const std::vector<std::string> card = {"--entries",         "1000", "--gpus",       "My-Card",
                                         "--memory-gb-per-s", "900",  "--memory-gib", "24",
                                         "--inside-gb-per-s", "20"};
  EXPECT_THAT(output_of(asked(card)),
              AllOf(HasSubstr("unknown GPU 'My-Card'"), HasSubstr("--flops-per-s")));
  std::vector<std::string> words = card;
  words.insert(words.end(), {"--flops-per-s", "1e14"});
  EXPECT_THAT(output_of(asked(words)),
              AllOf(HasSubstr("--set gpu_model=My-Card"),
                    HasSubstr("My-Card, ranked by time: not considered for cost: no price")));
  EXPECT_THAT(output_of(asked({"--entries", "1000", "--gpus", "My-Card", "--memory-gb-per-s", "900",
                               "--memory-gib", "24", "--flops-per-s", "1e14", "--own", "4"})),
              HasSubstr("--own: 4 of a GPU that is not listed; expected --inside-gb-per-s"));
  words[3] = "My-Card,H100";
  EXPECT_THAT(output_of(asked(words)), HasSubstr("--gpus: several, beside figures of a machine"));
}

TEST_F(DecidingTest, ARecommendationIsMarkdown) {
  const std::string text =
      output_of(asked({"--entries", "1000", "--gpus", "A100-80G", "--format", "md"}));
  EXPECT_THAT(text, HasSubstr("| cheapest"));
  EXPECT_THAT(text, HasSubstr("- **measure it**: sftbench run"));
  EXPECT_THAT(output_of(asked({"--entries", "10", "--format", "htm"})),
              HasSubstr("--format: unknown format 'htm'; expected one of table, json, jsonl, csv, "
                        "md"));
}

TEST_F(DecidingTest, ARecommendationSaysWhatEnergyItTakesAtMost) {
  const Json json =
      Json::parse(output_of(asked({"--entries", "1000", "--gpus", "L40S", "--format", "json"})));
  const Json& best = json["cheapest"];
  EXPECT_DOUBLE_EQ(best["energy_kwh_at_most"].get<double>(),
                   best["hours"].get<double>() * best["gpus"].get<double>() * 0.350);
  EXPECT_TRUE(best["energy_kwh"].is_null()) << "nothing was measured";
  EXPECT_THAT(output_of(asked({"--entries", "1000", "--gpus", "L40S"})),
              HasSubstr("by what the board takes"));
}

TEST_F(DecidingTest, ADatasetSaysHowManyEntriesAndHowLong) {
  const std::string data =
      file("data.jsonl", "{\"text\": \"one two three\"}\n{\"text\": \"four\"}\n");
  const auto recommended = [&](const std::string& option) {
    return Json::parse(output_of(
        asked({option, data, "--text-field", "text", "--format", "json", "--gpus", "L40S"})));
  };
  const Json json = recommended("--dataset");
  EXPECT_EQ(json, recommended("--data"));  // as `run` names it
  EXPECT_EQ(json["entries"], 2);
  EXPECT_LT(json["tokens"].get<double>(), 40);
  const Json& inputs = json["assumes"]["inputs"];
  EXPECT_EQ(inputs["training_data_path"], data);
  EXPECT_EQ(inputs["dataset_text_field"], "text");
  EXPECT_FALSE(inputs.contains("dataset_id")) << "the experiment's data, which nobody asked about";
}

TEST_F(DecidingTest, EveryFormOfDataIsCounted) {
  std::string texts, chats;
  for (int i = 1; i <= 40; ++i) {
    texts += "{\"text\": \"" + std::string(static_cast<size_t>(i), 'a') + "\"}\n";
    chats += R"({"messages": [{"role": "user", "content": "a"}]})"
             "\n";
  }
  const std::string file_of_texts = file("texts.jsonl", texts);
  const auto recommended = [&](std::vector<std::string> further) {
    further.insert(further.end(), {"--format", "json", "--gpus", "L40S", "--length", "64"});
    return Json::parse(output_of(asked(further)));
  };
  const Json padded = recommended({"--data", file_of_texts, "--text-field", "text"});
  EXPECT_EQ(padded["entries"], 40);
  const Json packed =
      recommended({"--data", file_of_texts, "--text-field", "text", "--padding", "packed"});
  EXPECT_LT(packed["entries"].get<int>(), 40);
  EXPECT_EQ(packed["tokens"], padded["tokens"]);
  EXPECT_EQ(packed["cheapest"]["padding"], "packed");
  const Json longest =
      recommended({"--data", file_of_texts, "--text-field", "text", "--padding", "longest"});
  EXPECT_EQ(longest["cheapest"]["padding"], "longest");
  EXPECT_GT(padded["considered"], longest["considered"]) << "both are tried";
  const Json longer =
      recommended({"--data", file_of_texts, "--text-field", "text", "--tokens", "1M"});
  EXPECT_DOUBLE_EQ(longer["tokens"].get<double>(), 1e6);
  EXPECT_EQ(recommended({"--tokens", "64k"})["entries"], 1000);
  EXPECT_EQ(recommended({"--data", file("chats.jsonl", chats), "--chat-template",
                         "{% for m in messages %}{{ m.content }}{% endfor %}"})["entries"],
            40);
  EXPECT_EQ(recommended({"--data", file("pairs.csv", "q,a\none,two\nthree,four\n"), "--template",
                         "{{q}} {{a}}"})["entries"],
            2);
  EXPECT_THAT(output_of(asked({"--data", file_of_texts, "--text-field", "txt"})),
              AllOf(HasSubstr("txt: no such field; found text"), HasSubstr("39 more lines")));
  EXPECT_THAT(
      output_of(asked({"--data", file("qa.csv", "q,a\none,two\n")})),
      HasSubstr("output: no such field; found q, a; expected --text-field NAME, --template"));
  EXPECT_THAT(output_of(asked({"--tokens", "1M", "--entries", "5"})),
              HasSubstr("--tokens: given beside --entries; expected one of them"));
  EXPECT_THAT(output_of(asked({"--tokens", "1.5x"})),
              HasSubstr("a whole number from 1 to 1000000000000000: 50k, 1.5M"));
}

// LLM.int8 holds a byte of a weight and a float32 of each of its rows; NF4 half a byte and its
// scales.
TEST_F(DecidingTest, QuantizedMethodsTakeTheirBytes) {
  const auto parameters = [](const char* method) {
    return Json::parse(output_of({"predict", "--method", method, "--set", "model_name=llama3.1-8b",
                                  "--set", "gpu_model=Tesla-T4", "--set", "number_gpus=1", "--set",
                                  "batch_size=1", "--set", "model_max_length=1024", "--set",
                                  "torch_dtype=float16", "--stack", "transformers", "--format",
                                  "json"}))["memory_bytes"]["parameters"]
        .get<double>();
  };
  const double weights = 32.0 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336);
  const double rows = 32.0 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096);
  const double eight = weights + 4 * rows, four = weights * (0.5 + 1.0 / 64 + 4.0 / 64 / 256);
  EXPECT_NEAR(parameters("lora-8bit") - parameters("qlora"), eight - four, 0.002 * eight);
  EXPECT_THAT(output_of({"predict", "--set", "method=qlora", "--set", "model_name=llama3.1-8b",
                         "--set", "gpu_model=Tesla-T4", "--set", "number_gpus=1", "--set",
                         "batch_size=1", "--set", "model_max_length=1024", "--set",
                         "torch_dtype=float16", "--stack", "transformers", "--tokens", "50M"}),
              AllOf(HasSubstr("llama3.1-8b, qlora, 1 rank, by transformers-bitsandbytes"),
                    HasSubstr("50000000 tokens are 12208 steps")));
  const auto of_stack = [](const std::string& method, const std::string& stack) {
    return output_of({"recommend", "--model", "qwen2.5-1.5b", "--method", method, "--stack", stack,
                      "--gpus", "RTX 4080", "--max-gpus", "1", "--entries", "1000"});
  };
  EXPECT_THAT(of_stack("qlora", "transformers-trl"), HasSubstr("by transformers-bitsandbytes-trl"));
  EXPECT_THAT(of_stack("lora-8bit", "transformers-liger"),
              HasSubstr("by transformers-bitsandbytes-8bit-liger"));
  EXPECT_THAT(output_of({"recommend", "--model", "qwen2.5-1.5b", "--method", "qlora", "--gpus",
                         "RTX 4080", "--max-gpus", "1", "--entries", "1000"}),
              AllOf(HasSubstr("over 4-bit weights"), HasSubstr("transformers-bitsandbytes"),
                    HasSubstr("sftbench run"), testing::Not(HasSubstr("not trained"))));
  EXPECT_THAT(
      output_of({"recommend", "--model", "qwen2.5-1.5b", "--method", "lora-8bit", "--gpus",
                 "RTX 4080", "--max-gpus", "1", "--entries", "1000"}),
      AllOf(HasSubstr("predicted, and not trained"), testing::Not(HasSubstr("sftbench run"))));
}

TEST_F(DecidingTest, AModelOfOnesOwnIsRecommendedFor) {
  const std::string config = read_file(SFTBENCH_TEST_DATA "/training/llama/config.json");
  std::filesystem::create_directory(folder_ / "my-llama");
  file("my-llama/config.json", config);
  const std::string folder = (folder_ / "my-llama").string();
  const std::vector<std::string> further = {"--entries", "100", "--gpus", "L40S", "--length", "64"};
  std::vector<std::string> words = {"recommend", "--model", folder};
  words.insert(words.end(), further.begin(), further.end());
  const std::string text = output_of(words);
  EXPECT_THAT(text, HasSubstr(folder + " --set"));
  EXPECT_THAT(text, testing::Not(HasSubstr("model_name=")));
  words.insert(words.end(), {"--format", "json"});
  EXPECT_EQ(Json::parse(output_of(words))["model"], "my-llama");
  std::filesystem::create_directory(folder_ / "empty");
  words[2] = (folder_ / "empty").string();
  EXPECT_THAT(output_of(words), HasSubstr("has no config.json"));
}

TEST_F(DecidingTest, AGpuThatIsNotTrainedOnHasNoCommandOfThisProgram) {
  const auto recommended = [](const char* gpu) {
    return output_of({"recommend", "--model", "llama3.1-8b", "--entries", "1000", "--gpus", gpu});
  };
  EXPECT_THAT(recommended("MI300X"), AllOf(HasSubstr("another program: AMD-Instinct-MI300X"),
                                           Not(HasSubstr("measure it"))));
  EXPECT_THAT(recommended("H100"), HasSubstr("measure it"));
}

TEST_F(DecidingTest, DataWithoutTokensAreRefused) {
  const auto recommended = [this](const std::string& lines) {
    return output_of({"recommend", "--model", "smollm2-135m", "--data", file("data.jsonl", lines),
                      "--gpus", "H100"});
  };
  EXPECT_THAT(recommended("{\"output\": \"\"}\n"), HasSubstr("--data: has no tokens"));
  EXPECT_THAT(recommended("{\"output\": \"\"}\n{\"output\": \"a few words\"}\n"),
              HasSubstr("cheapest"));
}

TEST_F(DecidingTest, WhatIsWrongWithAQuestionIsNamed) {
  const std::string entries = "--entries";
  const auto error = [&](std::vector<std::string> further) {
    further.insert(further.begin(), {entries, "1000"});
    return output_of(asked(further));
  };
  EXPECT_THAT(output_of(asked({})), HasSubstr("--data: not given"));
  EXPECT_THAT(output_of({"recommend", "--model", "llama-3.1", "--entries", "5"}),
              HasSubstr("unknown model 'llama-3.1'"));
  EXPECT_THAT(error({"--method", "dora"}), HasSubstr("unknown method 'dora'"));
  EXPECT_THAT(error({"--gpus", "RTX-9090"}), HasSubstr("unknown GPU 'RTX-9090'"));
  EXPECT_THAT(error({"--deadline", "soon"}), HasSubstr("--deadline: found 'soon'"));
  EXPECT_THAT(error({"--deadline", "-1h"}), HasSubstr("--deadline: found '-1h'"));
  EXPECT_THAT(error({"--deadline", "6w"}),
              HasSubstr("--deadline: found '6w'; expected a duration from 0.001 to 1000000000 s"));
  EXPECT_THAT(error({"--deadline", "1e300h"}), HasSubstr("--deadline: found '1e300h'"));
  EXPECT_THAT(error({"--deadline", "1s"}),
              testing::ContainsRegex("the fastest that fits: .*, 0[.]0[0-9]+ h, [0-9.]+ USD; "));
  EXPECT_THAT(error({"--budget", "0"}), HasSubstr("--budget"));
  EXPECT_THAT(error({"--gpus", "NVIDIA-H20", "--budget", "10"}), HasSubstr("--budget"));
  EXPECT_THAT(error({"--max-oom-risk", "2"}), HasSubstr("--max-oom-risk: found '2'"));
  EXPECT_THAT(
      error({"--method", "full", "--gpus", "NVIDIA-L4", "--max-gpus", "1", "--max-oom-risk", "1%"}),
      HasSubstr("runs out of memory with"));
  EXPECT_THAT(error({"--dataset", "x.jsonl"}), HasSubstr("--entries: given beside --data"));
  EXPECT_THAT(error({"--prices", file("p.yaml", "currency: EUR\nprices: []\nkey: 1\n")}),
              HasSubstr("p.yaml:3: key"));
  EXPECT_THAT(error({"--format", "html"}), HasSubstr("html"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
