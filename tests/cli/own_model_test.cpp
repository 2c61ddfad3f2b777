// What a model of one's own says against a run: its linears, its dtype, its family. All commands
// say it alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class OwnModelTest : public OwnTrainingTest {
 protected:
  void edit_config(const std::string& key, const Json& value) const {
    const std::string path = (folder_ / "my-llama/config.json").string();
    Json config = read_json_file(path);
    config[key] = value;
    write("my-llama/config.json", config.dump());
  }

  ProgramResult ask(const char* command, std::vector<std::string> more) const {
    more.insert(more.begin(), {"--model", "my-llama", "--data", "pairs.json"});
    return program(more, command);
  }

  // What `run` and `sweep` refuse alike, with status 2 and nothing written.
  std::string mistake(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--model", "my-llama"};
    const bool has_data = !more.empty() && more.front() == "--data";
    if (!has_data) words.insert(words.end(), {"--data", "pairs.json"});
    words.insert(words.end(), more.begin(), more.end());
    std::string said;
    for (const char* command : {"sweep", "run"}) {
      const ProgramResult result = program(words, command);
      EXPECT_EQ(result.status, 2) << command << ": " << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_FALSE(fs::exists(folder_ / "results"));
      const std::string before =
          std::exchange(said, result.err.substr(result.err.find("sftbench:")));
      EXPECT_THAT(before, testing::AnyOf("", said));
    }
    return said;
  }

  // Of `expand`; `predict`, `sweep` and `run` say the same. `predicted`: of a family that only
  // `predict` takes.
  Json verdict_of_all(const std::vector<std::string>& more, bool predicted = false) const {
    const auto with = [&more](std::vector<std::string> words) {
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    const ProgramResult expand = ask("expand", with({"--format", "json"}));
    EXPECT_EQ(expand.status, 0) << expand.err;
    Json row = Json::parse(expand.out).at(0);
    const bool valid = row["verdict"] == "valid", invalid = row["verdict"] == "invalid";
    std::string reason;
    if (!valid) {
      const Json& first = row["reason"].at(0);
      reason = first["code"].get<std::string>() + ": " + first["message"].get<std::string>();
    }
    const int status = valid ? 0 : invalid ? 3 : 4;
    const ProgramResult run = ask("run", with({"--dry-run"}));
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(reason));
    const ProgramResult predict =
        ask("predict", with({"--flops-per-s", "1e12", "--inside-gb-per-s", "10"}));
    EXPECT_EQ(predict.status, predicted ? 0 : status) << predict.err;
    EXPECT_THAT(predict.err,
                HasSubstr(predicted ? "It is predicted as the llama of its sizes" : reason));
    const ProgramResult sweep = ask("sweep", with({"--dry-run", "--format", "json"}));
    EXPECT_EQ(sweep.status, 0) << sweep.err;
    if (!valid) {
      EXPECT_EQ(Json::parse(sweep.out).at(0)["reason"], reason);
    }
    row["text"] = reason;
    row["log"] = expand.err;
    return row;
  }
};

TEST_F(OwnModelTest, TargetsThatNameNoLinearAreRefusedBeforeAnythingStarts) {
  EXPECT_THAT(mistake({"--lora-targets", "q_prj"}),
              AllOf(HasSubstr("--lora-targets: 'q_prj' matches no linear of the model; it has "),
                    HasSubstr("did you mean 'q_proj'?")));
  EXPECT_THAT(mistake({"--set", "target_modules=[q_proj,v_prj]"}), HasSubstr("'v_prj' matches no"));
  EXPECT_THAT(
      mistake({"--lora-targets", ".*nothing"}),
      HasSubstr("--lora-targets: '.*nothing' matches no linear of the model from end to end"));
}

// Files hold what bitsandbytes skips as it was. The head is skipped in any case.
TEST_F(OwnModelTest, LinearsThatBitsandbytesSkipsAreRefusedBeforeAnythingStarts) {
  const auto run_with = [this](const Json& skipped) {
    edit_config("quantization_config", {{"quant_method", "bitsandbytes"},
                                        {"load_in_4bit", true},
                                        {"bnb_4bit_quant_type", "nf4"},
                                        {"llm_int8_skip_modules", skipped}});
    return ask("run", {"--method", "qlora", "--dry-run"});
  };
  for (const Json& skipped : {Json(), Json({"lm_head", "multi_modal_projector"})}) {
    const ProgramResult result = run_with(skipped);
    EXPECT_EQ(result.status, 0) << result.err;
  }
  for (const char* module : {"model.layers.0.self_attn.q_proj", "q_proj", "self_attn"}) {
    const ProgramResult result = run_with({"lm_head", module});
    EXPECT_EQ(result.status, 4) << module;
    EXPECT_THAT(result.err,
                HasSubstr("the weights of my-llama leave model.layers.0.self_attn.q_proj dense "
                          "(quantization_config.llm_int8_skip_modules of config.json)"));
  }
}

TEST_F(OwnModelTest, NotesSayWhatWasTyped) {
  const std::vector<std::string> steps = {"--warmup-steps", "3", "--dry-run"};
  std::vector<std::string> options = steps;
  options.insert(options.end(), {"--warmup-ratio", "0.1"});
  EXPECT_THAT(ask("run", options).err,
              HasSubstr("--warmup-ratio 0.1 has no effect since --warmup-steps is above 0"));
  std::vector<std::string> set = steps;
  set.insert(set.end(), {"--set", "warmup_ratio=0.1"});
  EXPECT_THAT(ask("run", set).err,
              HasSubstr("warmup_ratio 0.1 has no effect since --warmup-steps is above 0"));
}

// Beside options, or a model of one's own, what --set says is the command line's as well.
TEST_F(OwnModelTest, WhatSetContradictsIsRefusedBeforeAnythingIsMeasured) {
  EXPECT_THAT(mistake({"--set", "number_gpus=4", "--set", "gpu_model=L40S", "--set", "batch_size=4",
                       "--set", "context_parallel=3"}),
              HasSubstr("--set context_parallel: 3 divides rows among ranks, and 4 of them"));
  EXPECT_THAT(mistake({"--set", "bf16=true", "--set", "accelerate_config_mixed_precision=fp16"}),
              HasSubstr("--set bf16: true contradicts accelerate_config_mixed_precision fp16"));
}

TEST_F(OwnModelTest, AnEntryOfSetAndOfAJobIsLookedAtBeforeAnythingStarts) {
  write("chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  const std::vector<std::string> named = {"--experiment", "full",
                                          "--set",        "number_gpus=0",
                                          "--set",        "batch_size=1",
                                          "--set",        "model_max_length=64",
                                          "--set",        "model_name=smollm2-135m",
                                          "--weights",    "random"};
  const auto with = [&named](std::vector<std::string> more) {
    more.insert(more.begin(), named.begin(), named.end());
    return more;
  };
  EXPECT_THAT(refusal(with({"--set", "training_data_path=chats.jsonl"})),
              HasSubstr("output: no such field"));
  Json job = this->job({"--model", "my-llama", "--data", "pairs.json", "--text-field", "output"});
  job["optimizer"]["schedule"] = "warmup_stable_decay";
  write("job.json", job.dump());
  EXPECT_THAT(refusal({"--job", "job.json"}),
              AllOf(HasSubstr("job.json: optimizer.schedule"), HasSubstr("num_decay_steps")));
  job["optimizer"]["schedule"] = "cosine";
  job["data"]["text_field"] = "answer";
  write("job.json", job.dump());
  EXPECT_THAT(refusal({"--job", "job.json"}), HasSubstr("answer: no such field"));
  EXPECT_FALSE(fs::exists(folder_ / "results"));
}

TEST_F(OwnModelTest, AFolderThatLacksAFileIsRefusedBeforeAnythingStarts) {
  for (const char* file : {"tokenizer.json", "model.safetensors"}) {
    fs::rename(folder_ / "my-llama" / file, folder_ / "aside");
    EXPECT_THAT(mistake({}), AllOf(HasSubstr("--model: the folder of my-llama lacks files"),
                                   HasSubstr(std::string("(no ") + file)));
    fs::rename(folder_ / "aside", folder_ / "my-llama" / file);
  }
  fs::resize_file(folder_ / "my-llama/model.safetensors", 100);
  EXPECT_THAT(mistake({}), HasSubstr("model.safetensors: truncated"));
  write("my-llama/tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})");
  EXPECT_THAT(mistake({}), HasSubstr("tokenizer.json: model.type: unsupported model 'Unigram'"));
  write("my-llama/config.json", "{");
  EXPECT_THAT(mistake({}), HasSubstr((folder_ / "my-llama/config.json").string() + ":1: not JSON"));
}

TEST_F(OwnModelTest, ConversationsWithoutAChatTemplateAreRefusedBeforeAnythingStarts) {
  write("chats.jsonl",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
        "\n");
  const fs::path config = folder_ / "my-llama/tokenizer_config.json";
  Json tokenizer = read_json_file(config.string());
  tokenizer.erase("chat_template");
  write("my-llama/tokenizer_config.json", tokenizer.dump());
  EXPECT_THAT(
      mistake({"--data", "chats.jsonl"}),
      AllOf(HasSubstr("has no chat template"), HasSubstr("--chat-template FILE gives one")));
}

TEST_F(OwnModelTest, ARankThatDoesNotFitHasOneVerdict) {
  EXPECT_THAT(mistake({"--lora-r", "64"}),
              HasSubstr("--lora-r: 64 does not fit model.layers.0.self_attn."));
  EXPECT_THAT(mistake({"--method", "lora", "--set", "r=64"}),
              HasSubstr("--set r: 64 does not fit model.layers.0.self_attn."));
  const Json usual = verdict_of_all({"--lora-r", "2"});
  EXPECT_EQ(usual["verdict"], "valid");
  EXPECT_THAT(usual["log"].get<std::string>(),
              HasSubstr("no --lora-targets: adapted are q_proj, v_proj"));
  EXPECT_EQ(verdict_of_all({"--lora-targets", "all-linear"})["verdict"], "valid");
}

// What options contradict is said under their names, and not under those of properties.
TEST_F(OwnModelTest, OptionsThatContradictAreRefusedBeforeAnythingStarts) {
  const struct {
    std::vector<std::string> words;
    const char* said;
  } cases[] = {
      {{"--input-column", "input"},
       "--input-column: is given alone; with --output-column it works"},
      {{"--eval-data", "pairs.json", "--eval-split", "0.1"},
       "--eval-data: --eval-data and --eval-split each say what is evaluated; one of them works"},
      {{"--lr-scheduler-type", "polynomial", "--lr-scheduler-kwargs", R"({"power": "x"})"},
       "--lr-scheduler-kwargs: learning-rate schedule polynomial: option power: found \"x\"; "
       "expected a number"},
      {{"--set", "batch_size=3", "--ranks", "2"},
       "--ranks: batch_size 3 cannot be divided evenly by --ranks 2; a multiple of it works"},
      {{"--tokenizer", "nowhere"}, "--tokenizer: the tokenizer nowhere is not at hand"},
      {{"--arguments", "arguments.yaml"}, "arguments.yaml:1: lora_r: r 64 does not fit"}};
  write("arguments.yaml", "lora_r: 64\nuse_peft: true\n");
  for (const auto& [words, said] : cases) {
    EXPECT_THAT(mistake(words), HasSubstr(said)) << words.front();
    std::vector<std::string> asked = {
        "--model", "my-llama",          "--data", "pairs.json", "--flops-per-s",
        "1e12",    "--inside-gb-per-s", "10"};
    asked.insert(asked.end(), words.begin(), words.end());
    const ProgramResult predicted = program(asked, "predict");
    EXPECT_EQ(predicted.status, 2);
    EXPECT_THAT(predicted.err, HasSubstr(said)) << words.front();
  }
}

TEST_F(OwnModelTest, AFirstEntryThatCannotBeTrainedOnIsRefusedBeforeAnythingStarts) {
  write("ids.jsonl", "{\"input_ids\": [1, 99999]}\n");
  write("labels.jsonl", "{\"input_ids\": [1, 2], \"labels\": [1]}\n");
  write("chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  EXPECT_THAT(mistake({"--data", "ids.jsonl"}),
              HasSubstr("ids.jsonl:1: input_ids: position 1 is 99999; expected a list of ids"));
  EXPECT_THAT(mistake({"--data", "labels.jsonl"}),
              HasSubstr("labels.jsonl:1: labels: has 1 label for 2 input_ids"));
  EXPECT_THAT(mistake({"--data", "tokens.jsonl", "--eval-data", "ids.jsonl"}),
              HasSubstr("ids.jsonl:1: input_ids: position 1 is 99999; expected a list of ids"));
  EXPECT_THAT(mistake({"--data", "chats.jsonl", "--chat-template",
                       "{% for m in messages %}{{ raise_exception('no') }}{% endfor %}"}),
              HasSubstr("chats.jsonl:1: messages: chat_template:1: the template refuses: no"));
}

TEST_F(OwnModelTest, AFamilyAndExpertsHaveOneVerdict) {
  EXPECT_THAT(mistake({"--set", "fast_moe=1", "--set", "number_gpus=0", "--set",
                       "fms_hf_tuning_version=3.0.0"}),
              HasSubstr("--set fast_moe: 1: model_name my-llama has no experts"));
  edit_config("model_type", "gptj");
  edit_config("architectures", Json::array());
  EXPECT_THAT(verdict_of_all({}, /*predicted=*/true)["text"].get<std::string>(),
              HasSubstr("its family, gptj, is not one that this version trains"));
}

TEST_F(OwnModelTest, OfManyEntitiesEachHasItsOwnTargets) {
  write("space.yaml",
        "sampleStoreIdentifier: s\n"
        "experiments: [{experimentIdentifier: finetune_lora_benchmark-v1.0.0, actuatorIdentifier: "
        "SFTTrainer}]\nentitySpace:\n"
        "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
        "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
        "- {identifier: target_modules, propertyDomain: {values: [all-linear, q_prj]}}\n"
        "- {identifier: r, propertyDomain: {values: [2, 4]}}\n"
        "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
        "- {identifier: batch_size, propertyDomain: {values: [1, 2]}}\n");
  const ProgramResult expand = program({"space.yaml", "--format", "json"}, "expand");
  ASSERT_EQ(expand.status, 0) << expand.err;
  for (const Json& row : Json::parse(expand.out)) {
    const bool misspelt = row["entity_id"].get<std::string>().find("q_prj") != std::string::npos;
    EXPECT_EQ(row["verdict"], misspelt ? "unsupported" : "valid") << row.dump();
  }
}

// --- precision -----------------------------------------------------------------------------------

TEST_F(OwnModelTest, Float16OverABfloat16ModelIsWarnedOf) {
  const auto log_of = [this](std::vector<std::string> more) {
    more.emplace_back("--dry-run");
    const ProgramResult run = ask("run", more);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.err;
  };
  const char* range = "over a model that config.json says is bfloat16: what exceeds 65504 becomes";
  EXPECT_THAT(log_of({"--set", "torch_dtype=float16"}), Not(HasSubstr(range))) << "float32";
  edit_config("dtype", "bfloat16");
  EXPECT_THAT(log_of({"--set", "torch_dtype=float16"}),
              HasSubstr(std::string("torch_dtype float16 ") + range +
                        " infinite; bfloat16 or float32 has its range"));
  EXPECT_THAT(
      log_of({"--set", "torch_dtype=float32", "--set", "accelerate_config_mixed_precision=fp16"}),
      HasSubstr(std::string("accelerate_config_mixed_precision fp16, which computes in "
                            "float16, ") +
                range + " infinite; bf16 or no has its range"));
  for (const char* fine : {"torch_dtype=float32", "torch_dtype=bfloat16"})
    EXPECT_THAT(log_of({"--set", fine}), Not(HasSubstr(range)));
  EXPECT_THAT(log_of({"--set", "torch_dtype=float16", "--weights", "random"}),
              Not(HasSubstr(range)))
      << "nothing was trained in them";
  edit_config("dtype", "float16");
  EXPECT_THAT(log_of({"--set", "torch_dtype=bfloat16"}), Not(HasSubstr("range")));
}

TEST_F(OwnModelTest, TheWarningStandsInTheResult) {
  edit_config("dtype", "bfloat16");
  const ProgramResult run = run_program(
      {"run", "--model", "my-llama", "--data", "pairs.json", "--response-template", "None", "--set",
       "max_steps=1", "--set", "torch_dtype=float16", "--threads", "1", "--format", "json"},
      {{"CUDA_VISIBLE_DEVICES", ""}, {"SFTBENCH_ENGINE", ""}}, folder_);
  ASSERT_EQ(run.status, 0) << run.err << run.out;
  const Json result = Json::parse(run.out);
  std::vector<std::string> warnings;
  for (const Json& warning : result["extra"]["warnings"]) warnings.push_back(warning);
  EXPECT_THAT(warnings, Contains(HasSubstr("torch_dtype float16 over a model that config.json says "
                                           "is bfloat16")));
}

// --- names ---------------------------------------------------------------------------------------

TEST_F(OwnModelTest, NamesAsPeopleWriteThemAreHints) {
  const auto refusal_of = [this](const std::string& model) {
    return refusal({"--experiment", "finetune_lora", "--set", "model_name=" + model, "--set",
                    "number_gpus=0", "--set", "batch_size=1", "--set", "model_max_length=64"});
  };
  for (const char* name : {"Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x7B-v0.1"}) {
    EXPECT_THAT(refusal_of(name),
                HasSubstr("expected a model (`sftbench models`; any other goes with --model "
                          "DIR|ID); mixtral-8x7b-instruct-v0.1 has the same shapes; did you mean "
                          "'mixtral-8x7b-instruct-v0.1'?"))
        << name;
  }
  EXPECT_THAT(refusal_of("meta-llama/Llama-3.1-8B-Instruct"),
              HasSubstr("did you mean 'llama3.1-8b'?"));
  EXPECT_THAT(refusal_of("Jamba-v0.1"), Not(HasSubstr("did you mean")));
}

TEST_F(OwnModelTest, RecommendSaysWhereAModelThatIsNotHereComesFrom) {
  const auto problem = [this](const std::string& model) {
    const ProgramResult result =
        run_program({"recommend", "--model", model, "--entries", "1000"},
                    {{"HF_HOME", (folder_ / "hub").string()}, {"HF_HUB_CACHE", ""}}, folder_);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  const std::string absent = problem("org/x");
  EXPECT_THAT(absent,
              HasSubstr("org/x is none of `sftbench models`, and its config.json is not on this "
                        "machine; fetch it: sftbench weights fetch --config-only org/x"));
  EXPECT_THAT(absent, HasSubstr("--model DIR"));
  EXPECT_THAT(absent, Not(HasSubstr("is not published")));
  EXPECT_THAT(problem("Mixtral-8x7B-v0.1"),
              HasSubstr("mixtral-8x7b-instruct-v0.1 has the same shapes; did you mean "
                        "'mixtral-8x7b-instruct-v0.1'?"));
}

TEST_F(OwnModelTest, AModelIsPredictedByTheShapesOfAListedOne) {
  const auto told = [this](std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"--model", "Qwen/QwQ-32B"});
    const ProgramResult result = run_program(
        words, {{"HF_HOME", (folder_ / "hub").string()}, {"HF_HUB_CACHE", ""}}, folder_);
    EXPECT_TRUE(result.status == 0 || result.status == 3) << result.err;
    return result.err;
  };
  for (const char* method : {"lora", "qlora"}) {
    EXPECT_THAT(
        told({"predict", "--method", method, "--set", "gpu_model=H100", "--set", "number_gpus=1"}),
        HasSubstr("model_name Qwen/QwQ-32B is taken for qwen2.5-32b"))
        << method;
  }
  EXPECT_THAT(told({"recommend", "--entries", "1000", "--length", "512", "--gpus", "H100"}),
              HasSubstr("Qwen/QwQ-32B has the shapes of qwen2.5-32b"));
}

TEST_F(OwnModelTest, AConfigThatIsNoObjectIsNamedByEveryCommand) {
  write("my-llama/config.json", "[1, 2]");
  for (const char* command : {"expand", "predict", "run", "sweep"}) {
    const ProgramResult result = ask(command, {});
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("my-llama/config.json: found array; expected a JSON object"))
        << command;
  }
}

TEST_F(OwnModelTest, AGpuModelAloneIsOneGpu) {
  const ProgramResult result = ask("predict", {"--set", "gpu_model=H100"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no number_gpus: 1"));
  EXPECT_THAT(result.out, HasSubstr("1 rank"));
}

TEST_F(OwnModelTest, AMisspelledMethodIsNearItsShortName) {
  const ProgramResult result = ask("expand", {"--method", "qlroa"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'qlora'?"));
}

TEST_F(OwnModelTest, AFormOfDataBesideLengthsOfIsRefused) {
  const ProgramResult result = program({"--model", "my-llama", "--lengths-of", "pairs.json",
                                        "--template", "{{input}}", "--set", "gpu_model=H100"},
                                       "predict");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--template: has no effect on --lengths-of"));
}

TEST_F(OwnModelTest, ARecommendationBeyondTheModelsPositionsSaysSoAndPrintsItsCommandOnOneLine) {
  edit_config("max_position_embeddings", 128);
  const auto recommended = [this](const char* length) {
    return program({"--model", "my-llama", "--entries", "10", "--length", length, "--gpus", "H100",
                    "--max-gpus", "1"},
                   "recommend")
        .out;
  };
  const std::string text = recommended("129");
  EXPECT_THAT(text, HasSubstr("model_max_length 129 is beyond the 128 positions"));
  EXPECT_THAT(recommended("128"), Not(HasSubstr("is beyond")));
  const size_t command = text.find("  measure it  sftbench run ");
  ASSERT_NE(command, std::string::npos) << text;
  const std::string line = text.substr(command, text.find('\n', command) - command);
  EXPECT_THAT(line, testing::EndsWith(" --set max_steps=10"));
  EXPECT_GT(line.size(), 100u);
}

TEST_F(OwnModelTest, AnExplanationSaysThatAResultIsSimulated) {
  const ProgramResult run = ask("run", {"--set", "gpu_model=H100", "--backend", "simulate"});
  ASSERT_EQ(run.status, 0) << run.err;
  std::string result;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
    if (entry.path().extension() == ".json") result = entry.path().string();
  }
  EXPECT_THAT(program({result}, "explain").err, HasSubstr("the result is simulated"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
