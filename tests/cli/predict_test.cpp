// predict: what it prints and what it refuses. The figures themselves:
// tests/predict/cost_model_test.
#include "cli/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// stdout of one command line, or the text of its error.
std::string output_of_words(std::vector<std::string> arguments) {
  CLI::App app;
  int exit_code = -1;
  add_predict_command(app, exit_code);
  std::reverse(arguments.begin(), arguments.end());
  ::testing::internal::CaptureStdout();
  std::string error;
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    error = e.what();
  } catch (const InputError& e) {
    for (const Diagnostic& diagnostic : e.diagnostics()) error += to_string(diagnostic) + "\n";
  } catch (const RunError& e) {
    error = std::string(to_string(e.code())) + ": " + e.what();
  }
  std::fflush(stdout);
  const std::string out = ::testing::internal::GetCapturedStdout();
  const bool dies = out.find("beside tensors): does not fit") != std::string::npos ||
                    out.find("\n  \"verdict\": \"oom\"") != std::string::npos;
  EXPECT_EQ(exit_code, !error.empty() ? -1 : dies ? 3 : 0);
  return error.empty() ? out : error;
}

std::string output_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"predict", "--experiment", "finetune_full_benchmark-v1.0.0",
                                       "--set", "model_max_length=1024"});
  return output_of_words(std::move(arguments));
}

std::vector<std::string> eight_gpus(std::vector<std::string> further) {
  std::vector<std::string> arguments = {
      "--set", "model_name=llama3.1-8b", "--set", "number_gpus=8",
      "--set", "batch_size=16",          "--set", "distributed_backend=FSDP"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return arguments;
}

std::vector<std::string> on_cpu(std::vector<std::string> further) {
  std::vector<std::string> arguments = {
      "--set", "model_name=smollm2-135m", "--set", "number_gpus=0", "--set", "batch_size=2"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return arguments;
}

const std::string kGpu = "gpu_model=NVIDIA-H100-80GB-HBM3";

// What it says of one configuration, whatever the GPU is called there.
Json answer_for(const std::string& gpu) {
  Json answer =
      Json::parse(output_of(eight_gpus({"--set", "gpu_model=" + gpu, "--format", "json"})));
  answer.erase("entity_id");
  return answer;
}

TEST(PredictTest, AGpuHasOneAnswerUnderEachOfItsNames) {
  for (const char* product : {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "L40S"}) {
    const Json expected = answer_for(product);
    ASSERT_TRUE(expected.contains("step_seconds")) << expected;
    for (const std::string& alias : Catalog::shipped().gpus.find(product)->aliases)
      EXPECT_EQ(answer_for(alias), expected) << alias;
  }
}

// Behind what the log says.
Json answer_in(const std::string& output) {
  return Json::parse(output.substr(output.find("{\n")));
}

TEST(PredictTest, ACardThatIsNotListedIsWhatTheCommandLineSaysOfIt) {
  const auto answer = [](std::vector<std::string> further, const char* gpus = "number_gpus=1") {
    std::vector<std::string> words = {"predict",
                                      "--model",
                                      "llama3.1-8b",
                                      "--method",
                                      "lora",
                                      "--set",
                                      "gpu_model=My-Card",
                                      "--set",
                                      "batch_size=2",
                                      "--set",
                                      gpus,
                                      "--set",
                                      "model_max_length=1024"};
    words.insert(words.end(), further.begin(), further.end());
    return output_of_words(std::move(words));
  };
  EXPECT_THAT(
      answer({"--memory-gib", "40"}),
      AllOf(HasSubstr("unknown GPU 'My-Card'"),
            HasSubstr("or what a card has: --flops-per-s, --memory-gb-per-s and --memory-gib")));
  const std::vector<std::string> known = {"--flops-per-s", "1e14", "--memory-gb-per-s", "900"};
  const auto seconds = [&](const std::string& gib) {
    std::vector<std::string> words = known;
    words.insert(words.end(), {"--memory-gib", gib, "--format", "json"});
    return answer_in(answer(words));
  };
  EXPECT_EQ(seconds("40")["verdict"], "fits");
  EXPECT_EQ(seconds("12")["verdict"], "oom");
  // Twice the products' rate: faster, and not by more than twice.
  std::vector<std::string> twice = {"--flops-per-s", "2e14", "--memory-gb-per-s", "900",
                                    "--memory-gib",  "40",   "--format",          "json"};
  const double slow = seconds("40")["step_seconds"]["total"],
               fast = answer_in(answer(twice))["step_seconds"]["total"];
  EXPECT_LT(fast, slow * 0.7);
  EXPECT_GT(fast, slow * 0.5);
  std::vector<std::string> several = known;
  several.insert(several.end(), {"--memory-gib", "40"});
  EXPECT_THAT(answer(several, "number_gpus=2"),
              HasSubstr("--inside-gb-per-s: not given, and not known of My-Card"));
}

TEST(PredictTest, CountsCopiesToTheHost) {
  const auto seconds = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--set", kGpu, "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(output_of(eight_gpus(words)))["step_seconds"]["host_copies"].get<double>();
  };
  EXPECT_GT(seconds({"--set", "offload_optimizer=true"}), 0);
  EXPECT_EQ(seconds({}), 0);
}

// Of files only a run knows how long entries are.
TEST(PredictTest, LearnedPositionsEnd) {
  const auto of_gpt2 = [](const std::string& length) {
    return output_of_words({"predict", "--experiment", "finetune_full_benchmark-v1.0.0", "--set",
                            "model_name=gpt2", "--set", "number_gpus=1", "--set", "batch_size=1",
                            "--set", "model_max_length=" + length, "--set", kGpu});
  };
  EXPECT_THAT(of_gpt2("1024"), HasSubstr("full, 1 rank"));
  EXPECT_THAT(of_gpt2("2048"),
              HasSubstr("UNSUPPORTED: model_max_length 2048: model_name gpt2 has learned 1024 "
                        "positions; rows of that length work"));
}

TEST(PredictTest, WhatHasNoEffectOnOneEntityIsRefused) {
  const auto error = [](std::vector<std::string> further) {
    further.insert(further.end(), {"--set", kGpu});
    return output_of(eight_gpus(std::move(further)));
  };
  EXPECT_THAT(error({"--sort", "tokens_per_s"}), HasSubstr("--sort: is of a table"));
  EXPECT_THAT(error({"--limit", "1"}), HasSubstr("--limit: is of a table"));
  EXPECT_THAT(error({"--rows"}), HasSubstr("--rows: belongs to --score"));
  EXPECT_THAT(error({"--lengths-tokenizer", "/nope"}), HasSubstr("belongs to --lengths-of"));
  EXPECT_THAT(error({"--flops-per-s", "1e-300"}), HasSubstr("a number from 1000000 to 1e+21"));
  const auto of_stack = [](const char* method, const char* stack) {
    return output_of_words({"predict", "--method", method, "--stack", stack, "--model",
                            "llama3.1-8b", "--set", "number_gpus=1", "--set", kGpu, "--set",
                            "batch_size=1", "--set", "model_max_length=1024", "--set",
                            "torch_dtype=float16"});
  };
  EXPECT_THAT(of_stack("lora-8bit", "sftbench"),
              HasSubstr("--stack: sftbench has no weights in 8 bits"));
  EXPECT_THAT(of_stack("lora-8bit", "transformers-trl"),
              HasSubstr("by transformers-bitsandbytes-8bit-trl"));
  EXPECT_THAT(of_stack("lora-8bit", "transformers-bitsandbytes"),
              HasSubstr("by transformers-bitsandbytes-8bit"));
  EXPECT_THAT(of_stack("qlora", "transformers-bitsandbytes-8bit-trl"),
              HasSubstr("by transformers-bitsandbytes-trl"));
  EXPECT_THAT(of_stack("lora-8bit", "torchtune"),
              HasSubstr("--stack: torchtune has no weights in 8 bits"));
  const auto of_model = [](const char* method, const char* model) {
    return output_of_words({"predict", "--method", method, "--model", model, "--set",
                            "number_gpus=1", "--set", kGpu, "--set", "batch_size=1"});
  };
  EXPECT_THAT(of_model("qlora", "unsloth/llama-3-8b-bnb-4bit"), HasSubstr("over 4-bit weights"));
  EXPECT_THAT(of_model("lora", "unsloth/llama-3-8b-bnb-4bit"), HasSubstr("qlora works"));
  EXPECT_THAT(of_model("lora", "llama-3.1-8b"), HasSubstr("did you mean 'llama3.1-8b'?"));
  EXPECT_THAT(of_stack("qlora", "transformers-liger"),
              HasSubstr("by transformers-bitsandbytes-liger"));
}

TEST(PredictTest, SaysThatItIsAPredictionAndWhatItIsMadeOf) {
  const std::string out = output_of(eight_gpus({"--set", kGpu}));
  EXPECT_THAT(out, HasSubstr("prediction, nothing was measured: llama3.1-8b, full, FULL_SHARD on 8 "
                             "ranks"));
  EXPECT_THAT(out, AllOf(HasSubstr(" of 79.18 GiB ("), HasSubstr("): fits")));
  EXPECT_THAT(out, HasSubstr("all_gather"));
  EXPECT_THAT(out, HasSubstr("in nine of ten cases"));
  EXPECT_THAT(out, HasSubstr("fits but thrashes"));
  EXPECT_THAT(output_of(eight_gpus({"--set", kGpu, "--memory-gib", "10"})),
              AllOf(HasSubstr(" of 10 GiB ("), HasSubstr("): does not fit")));
}

TEST(PredictTest, AsJsonItHasEveryPartAndTheMarkOfAPrediction) {
  const Json json = Json::parse(output_of(eight_gpus({"--set", kGpu, "--format", "json"})));
  EXPECT_EQ(json["prediction"], true);
  EXPECT_EQ(json["strategy"], "FULL_SHARD");
  EXPECT_EQ(json["ranks"], 8);
  double total = 0;
  for (const char* part : {"parameters", "gradients", "optimizer_state", "gathered", "activations",
                           "logits", "workspace"}) {
    total += json["memory_bytes"][part].get<double>();
  }
  EXPECT_DOUBLE_EQ(json["memory_bytes"]["total"], total);
  const Json& seconds = json["step_seconds"];
  EXPECT_DOUBLE_EQ(seconds["total"], seconds["compute"].get<double>() +
                                         seconds["communication_exposed"].get<double>() +
                                         seconds["optimizer"].get<double>() +
                                         seconds["host"].get<double>());
  EXPECT_LT(seconds["interval"]["low"], seconds["total"]);
  EXPECT_GT(seconds["interval"]["high"], seconds["total"]);
  EXPECT_GT(seconds["interval"]["measurements"], 0);
  const Json& odds = json["odds"];
  EXPECT_NEAR(
      odds["fits"].get<double>() + odds["thrashes"].get<double>() + odds["oom"].get<double>(), 1,
      1e-12);
  double sent = 0;
  for (const Json& collective : json["collectives"]) {
    sent += collective["sent_bytes_per_step"].get<double>();
  }
  EXPECT_DOUBLE_EQ(json["sent_bytes_per_step"], sent);
}

TEST(PredictTest, WhatIsGivenReplacesWhatTheCatalogsSay) {
  const auto step = [](const std::vector<std::string>& further) {
    std::vector<std::string> arguments = {"--set", kGpu, "--format", "json"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return Json::parse(output_of(eight_gpus(arguments)))["step_seconds"];
  };
  EXPECT_LT(step({"--flops-per-s", "1e15"})["compute"].get<double>(),
            step({})["compute"].get<double>());
  EXPECT_GT(step({"--inside-gb-per-s", "1"})["communication"].get<double>(),
            step({})["communication"].get<double>());
  const Json apart = step({"--no-overlap"});
  // The difference of two sums of some hundred terms of up to 13 s.
  EXPECT_NEAR(apart["communication_exposed"].get<double>(), apart["communication"].get<double>(),
              1e-9);
  EXPECT_EQ(step({"--between-gb-per-s", "0.1"}), step({})) << "there is one node";
}

TEST(PredictTest, WhatOthersHoldIsNoMemoryOfTheProgram) {
  const auto memory = [](std::vector<std::string> further) {
    further.insert(further.end(), {"--set", kGpu, "--format", "json"});
    const Json json = Json::parse(output_of(eight_gpus(std::move(further))));
    return std::pair<double, std::string>(json["memory_bytes"]["available"], json["verdict"]);
  };
  EXPECT_EQ(memory({"--free-gib", "30.5"}).first, 30.5 * (1 << 30));
  EXPECT_EQ(memory({"--free-gib", "20"}).second, "oom") << "it needs 26 GiB";
  EXPECT_NEAR(memory({"--free-gib", "100"}).first, 79.18 * (1 << 30), 1) << "no more than there is";
  EXPECT_THAT(output_of(eight_gpus({"--set", kGpu, "--free-gib", "0"})), HasSubstr("--free-gib"));
}

TEST(PredictTest, SaysWhatTheAllocatorKeepsAndWhatIsFar) {
  const auto of = [](const std::string& stack, const std::string& length) {
    return output_of_words({"predict", "--experiment", "lora", "--set",
                            "model_name=mistral-7b-v0.1", "--set", "number_gpus=1", "--set", kGpu,
                            "--set", "batch_size=1", "--set", "model_max_length=" + length,
                            "--stack", stack});
  };
  EXPECT_THAT(of("transformers", "1024"),
              AllOf(HasSubstr("as nvidia-smi shows it"), HasSubstr(" measurements of other"),
                    HasSubstr("wider for rows of 1024 tokens")));
  EXPECT_THAT(of("sftbench", "1024"), Not(HasSubstr("nvidia-smi")));
}

// Rented machines with L40S have one interface of 100 Gb/s, which the four GPUs of a node share.
TEST(PredictTest, SeveralNodesNameTheirNetwork) {
  const std::string text = output_of(
      eight_gpus({"--set", "gpu_model=L40S", "--set", "number_nodes=2", "--entity", "0"}));
  EXPECT_THAT(text, HasSubstr("2.75 GB/s of a rank, 11 of a node"));
}

TEST(PredictTest, ASpaceIsATableThatCanBeRankedAndFiltered) {
  const auto of_space = [](std::vector<std::string> further) {
    std::vector<std::string> arguments = {"--set", kGpu, "--set", "batch_size=8,16,4096,12"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    arguments = eight_gpus(arguments);
    // eight_gpus sets a batch of 16.
    arguments.erase(arguments.begin() + 4, arguments.begin() + 6);
    return output_of(arguments);
  };
  const Json rows = Json::parse(of_space({"--format", "json"}));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["verdict"], "fits");
  EXPECT_EQ(rows[2]["verdict"], "oom");
  EXPECT_EQ(rows[3]["verdict"], "invalid");
  EXPECT_THAT(rows[3]["reason"].get<std::string>(), HasSubstr("RULE_1"));
  EXPECT_EQ(Json::parse(of_space({"--format", "json", "--verdict", "oom"})).size(), 1u);
  const Json ranked = Json::parse(of_space({"--format", "json", "--sort", "tokens_per_s"}));
  EXPECT_GT(ranked[0]["tokens_per_s"], ranked[1]["tokens_per_s"]);
  EXPECT_EQ(ranked[3]["verdict"], "invalid") << "what is not predicted comes last";
  EXPECT_EQ(Json::parse(of_space({"--format", "json", "--limit", "2"})).size(), 2u);
  EXPECT_THAT(of_space({"--sort", "tokens"}), HasSubstr("--sort: found 'tokens'"));
  EXPECT_THAT(of_space({"--verdict", "fit"}), HasSubstr("did you mean 'fits'?"));
}

TEST(PredictTest, AnotherStackTakesLongerAndAnUnknownOneIsRefused) {
  const auto step = [](const std::string& stack) {
    return Json::parse(output_of(eight_gpus(
        {"--set", kGpu, "--format", "json", "--stack", stack})))["step_seconds"]["total"];
  };
  EXPECT_LT(step("sftbench").get<double>(), step("fms-hf-tuning").get<double>());
  EXPECT_THAT(output_of(eight_gpus({"--set", kGpu, "--stack", "hf"})),
              HasSubstr("--stack: unknown stack 'hf'"));
}

TEST(PredictTest, ExactMemoryWantsABuildForGpusAndOneEntityOnOne) {
  const std::vector<std::string> one = {"--set", kGpu, "--exact"};
  EXPECT_THAT(output_of(eight_gpus(one)),
              AllOf(HasSubstr("UNSUPPORTED: there is no libsftbench_phantom.so"),
                    HasSubstr("docs/internals/building.md")));
  const std::string two = "gradient_accumulation_steps=[1, 2]";
  EXPECT_THAT(output_of(eight_gpus({"--set", kGpu, "--set", two, "--exact"})),
              AllOf(HasSubstr("--exact"), HasSubstr("several entities"), HasSubstr("--entity")));
  EXPECT_THAT(output_of(on_cpu({"--flops-per-s", "1e12", "--memory-gb-per-s", "50", "--exact"})),
              HasSubstr("the entity trains on CPUs"));
}

TEST(PredictTest, OfCpusNothingIsKnown) {
  ::setenv("XDG_DATA_HOME", testing::TempDir().c_str(), 1);  // where no probe of this machine is
  EXPECT_THAT(output_of(on_cpu({})), HasSubstr("--flops-per-s: not given, and not known of CPUs"));
  EXPECT_THAT(output_of(on_cpu({"--flops-per-s", "2e11"})), HasSubstr("full, 1 rank\n"));
  EXPECT_THAT(output_of(on_cpu({"--flops-per-s", "2e11", "--ranks", "2"})),
              HasSubstr("--inside-gb-per-s: not given, and not known of CPUs"));
  EXPECT_THAT(
      output_of(on_cpu({"--flops-per-s", "2e11", "--ranks", "2", "--inside-gb-per-s", "2"})),
      HasSubstr("FULL_SHARD on 2 ranks"));
  EXPECT_THAT(output_of(on_cpu({"--flops-per-s", "-1"})), HasSubstr("--flops-per-s"));
}

// Each line is what `predict` says of that configuration, typed as the line says it.
TEST(PredictTest, NamesWhatMakesItFit) {
  const std::vector<std::string> asked = {
      "predict", "--format",      "json",  "--set", "model_name=llama3.1-8b",
      "--set",   "number_gpus=8", "--set", kGpu};
  const auto with = [&asked](const Json& changes) {
    std::map<std::string, Json> values = {{"batch_size", 64},
                                          {"model_max_length", 8192},
                                          {"gradient_checkpointing", false},
                                          {"experiment", "finetune_full_benchmark-v1.0.0"}};
    for (const auto& [property, value] : changes.items()) values[property] = value;
    std::vector<std::string> words = asked;
    for (const auto& [property, value] : values) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (property == "experiment") words.insert(words.end(), {"--experiment", text});
      if (property != "experiment") words.insert(words.end(), {"--set", property + "=" + text});
    }
    const std::string out = output_of_words(words);
    EXPECT_EQ(out.front(), '{') << out;
    return Json::parse(out);
  };
  const Json json = with(Json::object());
  ASSERT_EQ(json["verdict"], "oom");
  ASSERT_GE(json["less_memory"].size(), 4u);
  std::set<std::string> properties;
  for (const Json& one : json["less_memory"]) {
    properties.insert(one["changes"].begin().key());
    const Json typed = with(one["changes"]);
    EXPECT_EQ(typed["memory_bytes"]["needed"], one["memory_bytes"]) << one;
    EXPECT_EQ(typed["verdict"], one["verdict"]) << one;
    EXPECT_GT(one["saved_bytes"], 0) << one;
    EXPECT_FALSE(one["time_factor"].is_null()) << one;
  }
  EXPECT_THAT(properties, ::testing::IsSupersetOf(
                              {"gradient_checkpointing", "batch_size", "model_max_length"}));
  ASSERT_EQ(json["to_fit"]["verdict"], "fits");
  EXPECT_EQ(with(json["to_fit"]["changes"])["verdict"], "fits");
  EXPECT_FALSE(with(json["to_fit"]["changes"]).contains("less_memory"));
}

// Somebody with one GPU hears first what needs no other, and that 4 bits would do.
TEST(PredictTest, OneSwitchThatIsEnoughComesBeforeMoreGpus) {
  const Json json = Json::parse(output_of_words(
      {"predict", "--format", "json", "--experiment", "finetune_lora_benchmark-v1.0.0", "--stack",
       "transformers", "--set", "model_name=llama3.1-8b", "--set", "number_gpus=1", "--set",
       "gpu_model=RTX-3090", "--set", "batch_size=8", "--set", "model_max_length=2048", "--set",
       "gradient_accumulation_steps=1"}));
  ASSERT_EQ(json["verdict"], "oom");
  EXPECT_EQ(json["to_fit"]["changes"],
            Json({{"batch_size", 1}, {"gradient_accumulation_steps", 8}}));
  std::vector<bool> more_gpus;
  std::set<std::string> experiments;
  for (const Json& one : json["less_memory"]) {
    more_gpus.push_back(one["changes"].contains("number_gpus") || !one["trains_alike"]);
    experiments.insert(one["changes"].value("experiment", ""));
  }
  EXPECT_TRUE(std::is_sorted(more_gpus.begin(), more_gpus.end())) << json["less_memory"];
  EXPECT_EQ(experiments.count("finetune_qlora_benchmark-v1.0.0"), 1u);
}

TEST(PredictTest, SaysWhereNoSwitchIsEnough) {
  const std::string out = output_of_words(
      {"predict", "--experiment", "finetune_lora_benchmark-v1.0.0", "--set",
       "model_name=llama3.1-70b", "--set", "number_gpus=1", "--set", "batch_size=1", "--set",
       "gpu_model=T4", "--set", "torch_dtype=float16", "--set", "model_max_length=512"});
  EXPECT_THAT(out, HasSubstr("no switch is enough: sftbench recommend names GPUs"));
}

TEST(PredictTest, WhatCannotBeTrainedOrPredictedIsRefusedByName) {
  EXPECT_THAT(output_of({"--set", "model_name=llama3.1-8b", "--set", "number_gpus=8", "--set", kGpu,
                         "--set", "batch_size=15"}),
              HasSubstr("RULE_1"));
  EXPECT_THAT(output_of(eight_gpus({"--set", kGpu, "--set", "optim=lomo", "--set",
                                    "gradient_accumulation_steps=1"})),
              HasSubstr("optim lomo"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
