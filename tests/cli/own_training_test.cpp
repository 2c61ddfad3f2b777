// --model, --data, the training arguments' options and --arguments, as a user types them: the job
// that follows, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(OwnTrainingTest, NeedsNoFolderForCounts) {
  const ProgramResult result =
      run_program({"run", "--model", "my-llama", "--data", "pairs.json", "--input-column", "input",
                   "--output-column", "output", "--set", "number_gpus=0", "--set", "max_steps=1"},
                  {{"CUDA_VISIBLE_DEVICES", ""}, {"XDG_DATA_HOME", "/dev/null/none"}}, folder_);
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(OwnTrainingTest, PairsWithoutAnswersMarkAreToldBeforeTheRun) {
  const std::vector<std::string> words = {"--model", "my-llama", "--data", "pairs.json",
                                          "--dry-run"};
  EXPECT_THAT(program(words).err,
              HasSubstr("no '### Response:' in output (pairs.json:1), behind which loss begins: "
                        "--input-column input --output-column output trains on the answer, and "
                        "--response-template None lets all of it bear loss"));
  std::vector<std::string> whole = words;
  whole.insert(whole.end(), {"--response-template", "None"});
  EXPECT_THAT(program(whole).err, Not(HasSubstr("behind which loss begins")));
}

TEST_F(OwnTrainingTest, AModelAndAFileAreEnough) {
  const Json job = own_job();
  EXPECT_EQ(job["experiment"], "finetune_full_benchmark-v1.0.0");
  EXPECT_EQ(job["model"]["name"], "my-llama");
  EXPECT_EQ(job["model"]["weights_directory"], (folder_ / "my-llama").string());
  EXPECT_EQ(job["data"]["path"], (folder_ / "pairs.json").string());
  EXPECT_EQ(job["data"]["model_max_length"], 128) << "what the model has";
  const Json& inputs = job["inputs"];
  EXPECT_EQ(inputs["model_name"], "my-llama");
  for (const char* digest : {"model_config", "model_weights", "model_tokenizer"})
    EXPECT_EQ(inputs[digest].get<std::string>().size(), 32u);
  EXPECT_FALSE(inputs.contains("model_path"));
  EXPECT_EQ(inputs["dataset_id"], "pairs");
  EXPECT_EQ(inputs["training_data"].get<std::string>().size(), 32u);
  EXPECT_FALSE(inputs.contains("training_data_path"));
  EXPECT_FALSE(inputs.contains("learning_rate"));
}

TEST_F(OwnTrainingTest, TheKeyFollowsTheDataWhereverTheyLie) {
  const Json here = own_job();
  fs::create_directory(folder_ / "elsewhere");
  fs::copy(folder_ / "pairs.json", folder_ / "elsewhere");
  EXPECT_EQ(job({"--model", "my-llama", "--data", "elsewhere/pairs.json"})["inputs"],
            here["inputs"]);
  write("pairs.json", "[{\"output\": \"other\"}]");
  EXPECT_NE(own_job()["inputs"]["training_data"], here["inputs"]["training_data"]);
}

// As --set model_name, with the defaults of a model and data of one's own.
TEST_F(OwnTrainingTest, AModelOfTheListGoesByItsName) {
  const Json listed =
      job({"--model", "smollm2-135m", "--weights", "random", "--data", "pairs.json"});
  EXPECT_EQ(listed["inputs"]["model_name"], "smollm2-135m");
  EXPECT_FALSE(listed["inputs"].contains("model_config")) << "its name says what it is";
  EXPECT_EQ(listed["data"]["path"], (folder_ / "pairs.json").string());
}

TEST_F(OwnTrainingTest, EveryOptionReachesTheJob) {
  const Json job = own_job({"--template",
                            "### {{input}}\\n{{output}}",
                            "--response-template",
                            "\\n",
                            "--learning-rate",
                            "2e-5",
                            "--lr-scheduler-type",
                            "cosine_with_min_lr",
                            "--lr-scheduler-kwargs",
                            R"({"min_lr_rate": 0.1})",
                            "--warmup-ratio",
                            "0.1",
                            "--warmup-steps",
                            "3",
                            "--weight-decay",
                            "0.1",
                            "--adam-beta1",
                            "0.8",
                            "--adam-beta2",
                            "0.95",
                            "--adam-epsilon",
                            "1e-6",
                            "--max-grad-norm",
                            "0.25",
                            "--training-seed",
                            "7",
                            "--tf32",
                            "--lora-r",
                            "8",
                            "--lora-alpha",
                            "64",
                            "--lora-dropout",
                            "0.25",
                            "--lora-targets",
                            "q_proj, up_proj"});
  EXPECT_EQ(job["experiment"], "finetune_lora_benchmark-v1.0.0") << "as LoRA's options ask";
  EXPECT_EQ(job["data"]["entry_template"], "### {{input}}\n{{output}}");
  EXPECT_EQ(job["data"]["response_template"], "\n");
  const Json& optimizer = job["optimizer"];
  EXPECT_EQ(optimizer["learning_rate"], 2e-5);
  EXPECT_EQ(optimizer["schedule"], "cosine_with_min_lr");
  EXPECT_EQ(optimizer["schedule_options"], Json({{"min_lr_rate", 0.1}}));
  EXPECT_EQ(optimizer["warmup_ratio"], 0.1);
  EXPECT_EQ(optimizer["warmup_steps"], 3);
  EXPECT_EQ(optimizer["weight_decay"], 0.1);
  EXPECT_EQ(optimizer["beta1"], 0.8);
  EXPECT_EQ(optimizer["beta2"], 0.95);
  EXPECT_EQ(optimizer["epsilon"], 1e-6);
  EXPECT_EQ(optimizer["max_grad_norm"], 0.25);
  EXPECT_EQ(job["seed"], 7);
  EXPECT_EQ(job["precision"]["tf32"], true);
  EXPECT_EQ(job["lora"]["rank"], 8);
  EXPECT_EQ(job["lora"]["alpha"], 64.0);
  EXPECT_EQ(job["lora"]["dropout"], 0.25);
  EXPECT_EQ(job["lora"]["target_modules"], Json({"q_proj", "up_proj"}));
}

TEST_F(OwnTrainingTest, PromptTuningAndColumnsAndTokensReachTheJob) {
  const Json prompt =
      own_job({"--virtual-tokens", "5", "--prompt-init", "TEXT", "--prompt-init-text",
               "Say it:", "--input-column", "input", "--output-column", "output"});
  EXPECT_EQ(prompt["experiment"], "finetune_pt_benchmark-v1.0.0");
  EXPECT_EQ(prompt["prompt"]["virtual_tokens"], 5);
  EXPECT_EQ(prompt["prompt"]["init_text"], "Say it:");
  EXPECT_EQ(prompt["data"]["input_field"], "input");
  EXPECT_EQ(prompt["data"]["output_field"], "output");
  const Json tokens = job({"--model", "my-llama", "--data", "tokens.jsonl"});
  EXPECT_EQ(tokens["data"]["pretokenized"], true) << "found without --pretokenized";
  EXPECT_EQ(tokens["inputs"]["pretokenized"], true);
}

TEST_F(OwnTrainingTest, TargetsAreThoseOfPeftOrWhatARegularExpressionMatches) {
  EXPECT_EQ(own_job({"--lora-r", "2"})["lora"]["target_modules"], Json({"q_proj", "v_proj"}));
  EXPECT_EQ(own_job({"--lora-targets",
                     R"(.*layers\.[01]\.self_attn\.(q|o)_proj)"})["lora"]["target_modules"],
            Json({"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj",
                  "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.o_proj"}));
  EXPECT_EQ(own_job({"--lora-targets", "all-linear"})["lora"]["target_modules"],
            Json({"all-linear"}));
}

TEST_F(OwnTrainingTest, ATargetThatIsNamedTwiceIsOne) {
  EXPECT_EQ(own_job({"--lora-targets", "q_proj,v_proj,q_proj"})["lora"]["target_modules"],
            Json({"q_proj", "v_proj"}));
}

TEST_F(OwnTrainingTest, AnArgumentAtItsUsualValueChangesNoInput) {
  EXPECT_EQ(own_job({"--learning-rate", "1e-5", "--training-seed", "42", "--max-grad-norm",
                     "1"})["inputs"],
            own_job()["inputs"]);
}

TEST_F(OwnTrainingTest, FilesHaveTheNamesOfOtherPrograms) {
  write("arguments.json", R"({"model_name_or_path": "my-llama", "training_data_path": "pairs.json",
    "data_formatter_template": "{{input}}\n### Response: {{output}}",
    "response_template": "\n### Response:", "num_train_epochs": 2.0,
    "per_device_train_batch_size": 3, "gradient_accumulation_steps": 1, "learning_rate": 3e-4,
    "peft_method": "lora", "r": 16, "lora_alpha": 32, "target_modules": ["all-linear"],
    "lora_dropout": 0.0, "save_strategy": "no", "output_dir": "out", "include_tokens_per_second": true,
    "packing": false, "torch_dtype": "float32"})");
  const Json fms = job({"--arguments", "arguments.json", "--ranks", "2"});
  EXPECT_EQ(fms["experiment"], "finetune_lora_benchmark-v1.0.0");
  EXPECT_EQ(fms["batches"]["per_device_batch_size"], 3);
  EXPECT_EQ(fms["inputs"]["batch_size"], 6);
  EXPECT_EQ(fms["batches"]["num_train_epochs"], 2.0);
  EXPECT_EQ(fms["optimizer"]["learning_rate"], 3e-4);
  EXPECT_EQ(fms["lora"]["dropout"], 0.0);
  EXPECT_EQ(fms["precision"]["torch_dtype"], "float32");
  EXPECT_EQ(fms["data"]["entry_template"], "{{input}}\n### Response: {{output}}");
  const Json over = job({"--arguments", "arguments.json", "--learning-rate", "1", "--set", "r=2"});
  EXPECT_EQ(over["optimizer"]["learning_rate"], 1.0) << "options come first";
  EXPECT_EQ(over["lora"]["rank"], 2);

  write(
      "llmforge.yaml",
      "model_id: my-llama\ntrain_path: pairs.json\ncontext_length: 64\nnum_devices: 1\n"
      "num_epochs: 1\ntrain_batch_size_per_device: 2\nlearning_rate: 1e-4\n"
      "lora_config: {r: 8, lora_alpha: 16, lora_dropout: 0.05, bias: none, task_type: CAUSAL_LM,\n"
      "  target_modules: [q_proj, v_proj], modules_to_save: []}\npadding: longest\n");
  const Json llmforge = job({"--arguments", "llmforge.yaml", "--set", "number_gpus=0"});
  EXPECT_EQ(llmforge["data"]["model_max_length"], 64);
  EXPECT_EQ(llmforge["lora"]["rank"], 8);
  EXPECT_EQ(llmforge["lora"]["target_modules"], Json({"q_proj", "v_proj"}));

  write("accelerate.yaml",
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\ndowncast_bf16: 'no'\n"
        "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
        "  fsdp_sync_module_states: true\n  fsdp_use_orig_params: true\n"
        "machine_rank: 0\nmain_training_function: main\nmixed_precision: bf16\nnum_machines: 1\n"
        "num_processes: 2\nuse_cpu: true\n");
  const Json sharded = own_job({"--arguments", "accelerate.yaml", "--text-field", "output"});
  EXPECT_EQ(sharded["device"]["ranks"], 2);
  EXPECT_EQ(sharded["parallel"]["strategy"], "SHARD_GRAD_OP");
  EXPECT_EQ(sharded["precision"]["autocast"], "bf16");
}

// fms-hf-tuning's aLoRA. An older one of its versions calls the text invocation_string.
TEST_F(OwnTrainingTest, AnInvocationMakesALoraAnActivatedOne) {
  const Json option = own_job({"--alora-invocation-string", "\\n### Act:"});
  EXPECT_EQ(option["experiment"], "finetune_lora_benchmark-v1.0.0");
  EXPECT_EQ(option["lora"]["invocation_string"], "\n### Act:");
  for (const char* name : {"alora_invocation_string", "invocation_string"}) {
    write("arguments.yaml",
          std::string("peft_method: alora\nr: 8\n") + name + ": \"\\n### Act:\"\n");
    const Json file = own_job({"--arguments", "arguments.yaml"});
    EXPECT_EQ(file["experiment"], "finetune_lora_benchmark-v1.0.0");
    EXPECT_EQ(file["lora"]["invocation_string"], "\n### Act:");
    EXPECT_EQ(file["inputs"]["alora_invocation_string"], "\\n### Act:");
  }
  write("arguments.yaml", "peft_method: alora\n");
  EXPECT_EQ(own_job({"--arguments", "arguments.yaml", "--alora-invocation-string",
                     "### Act:"})["lora"]["invocation_string"],
            "### Act:");
  EXPECT_THAT(refusal_of_file("peft_method: alora\n"),
              HasSubstr("arguments.yaml: peft_method: is alora, and alora_invocation_string is not "
                        "given; expected with it the text"));
  EXPECT_THAT(refusal_of_file("peft_method: lora\nalora_invocation_string: x\n"),
              HasSubstr("alora_invocation_string: has no effect beside this peft_method; expected "
                        "peft_method: alora"));
  EXPECT_THAT(refusal_of_file("peft_method: alora\nalora_invocation_tokens: [5]\n"),
              HasSubstr("arguments.yaml:2: alora_invocation_tokens: has no equal here; expected "
                        "alora_invocation_string, their text"));
  EXPECT_THAT(
      refusal({"--model", "my-llama", "--data", "pairs.json", "--alora-invocation-string", ""}),
      HasSubstr("--alora-invocation-string has an empty value"));
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "pairs.json", "--experiment",
                       "finetune_gptq-lora_benchmark-v1.0.0", "--alora-invocation-string", "x"}),
              HasSubstr("--alora-invocation-string: unknown property 'alora_invocation_string'; "
                        "expected a property of finetune_gptq-lora_benchmark-v1.0.0"));
}

TEST_F(OwnTrainingTest, DoraIsAskedForByItsNames) {
  EXPECT_EQ(own_job({"--lora-r", "8"})["lora"]["use_dora"], false);
  EXPECT_EQ(own_job({"--use-dora"})["lora"]["use_dora"], true);
  EXPECT_EQ(own_job({"--use-rslora"})["lora"]["use_rslora"], true);
  for (const char* text :
       {"use_peft: true\nuse_dora: true\n", "adapter: lora\npeft_use_dora: true\n",
        "finetuning_type: lora\nuse_dora: true\n"}) {
    write("arguments.yaml", text);
    EXPECT_EQ(own_job({"--arguments", "arguments.yaml"})["lora"]["use_dora"], true) << text;
  }
}

TEST_F(OwnTrainingTest, ModulesTrainWholeUnderTheirNames) {
  const Json both = Json({"embed_tokens", "lm_head"});
  const auto modules = [this](const std::vector<std::string>& words) {
    return own_job(words)["lora"]["modules_to_save"];
  };
  EXPECT_EQ(modules({"--lora-r", "8"}), Json::array());
  EXPECT_EQ(modules({"--lora-modules-to-save", "embed_tokens,lm_head"}), both);
  for (const char* text : {"use_peft: true\nlora_modules_to_save: [embed_tokens, lm_head]\n",
                           "adapter: lora\nlora_modules_to_save: [embed_tokens, lm_head]\n",
                           "finetuning_type: lora\nadditional_target: embed_tokens,lm_head\n",
                           "lora_config: {r: 8, modules_to_save: [embed_tokens, lm_head]}\n"}) {
    write("arguments.yaml", text);
    EXPECT_EQ(modules({"--arguments", "arguments.yaml"}), both) << text;
  }
  EXPECT_THAT(
      refusal({"--model", "my-llama", "--data", "pairs.json", "--lora-modules-to-save",
               "embed_token,lm_head"}),
      HasSubstr("--lora-modules-to-save: 'embed_token' names no module of the model; it has "));
}

TEST_F(OwnTrainingTest, SingleLinearsHaveRanksOfTheirOwn) {
  const Json ranks = {{"q_proj", 3}};
  EXPECT_EQ(own_job({"--lora-rank-pattern", R"({"q_proj": 3})"})["lora"]["rank_pattern"], ranks);
  write("arguments.yaml",
        "lora_config: {r: 8, rank_pattern: {q_proj: 3}, alpha_pattern: {v_proj: 1.5}}\n");
  const Json lora = own_job({"--arguments", "arguments.yaml"})["lora"];
  EXPECT_EQ(lora["rank_pattern"], ranks);
  EXPECT_EQ(lora["alpha_pattern"], Json({{"v_proj", 1.5}}));
  const auto refused = [this](const char* pattern) {
    return refusal({"--model", "my-llama", "--data", "pairs.json", "--lora-rank-pattern", pattern});
  };
  EXPECT_THAT(refused(R"({"q_prj": 3})"),
              HasSubstr("--lora-rank-pattern: 'q_prj' matches no linear that is adapted"));
  EXPECT_THAT(refused(R"({"q_proj": 0.5})"),
              HasSubstr("--lora-rank-pattern: 'q_proj' has 0.5; expected a whole number above 0"));
  EXPECT_THAT(refused(R"({"q_proj(": 3})"),
              HasSubstr("--lora-rank-pattern: 'q_proj(' is no regular"));
  EXPECT_THAT(refused(R"({"q_proj": 4000})"), HasSubstr("--lora-rank-pattern: 4000 does not fit "));
}

// The documents' configuration of accelerate: on 8 processes both 4 groups and 8 shards are right.
TEST_F(OwnTrainingTest, AccelerateDividesRowsAmongRanks) {
  const std::string context =
      "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: \"2\"\n"
      "  fsdp_sharding_strategy: FULL_SHARD\nuse_parallelism_config: \"true\"\n"
      "parallelism_config_cp_size: 2\nmcp: 2\nuse_cpu: true\nnum_processes: 8\n"
      "per_device_train_batch_size: 3\n";
  for (const char* shards :
       {"", "parallelism_config_dp_shard_size: 4\n", "parallelism_config_dp_shard_size: 8\n"}) {
    write("arguments.yaml", context + shards + "parallelism_config_cp_comm_strategy: allgather\n");
    const Json job = own_job({"--arguments", "arguments.yaml"});
    EXPECT_EQ(job["parallel"]["context_ranks"], 2);
    EXPECT_EQ(job["device"]["ranks"], 8);
    EXPECT_EQ(job["batches"]["per_device_batch_size"], 3);
    EXPECT_EQ(job["inputs"]["batch_size"], 12);
  }
  EXPECT_THAT(refusal_of_file(context + "parallelism_config_dp_shard_size: 3\n"),
              HasSubstr("parallelism_config_dp_shard_size: found 3; expected 4, num_processes / "
                        "parallelism_config_cp_size"));
  EXPECT_THAT(refusal_of_file("parallelism_config_cp_size: 2\nmcp: 4\n"),
              HasSubstr("arguments.yaml:2: mcp: says 4, where arguments.yaml:1: "
                        "parallelism_config_cp_size says 2; expected one of them"));
  EXPECT_THAT(
      refusal_of_file("parallelism_config_tp_size: 2\n"),
      HasSubstr("parallelism_config_tp_size: found 2, which has no equal here; expected 1"));
}

TEST_F(OwnTrainingTest, WhatAFileSaysAndHasNoEqualIsNamed) {
  const std::string unknown = refusal_of_file(
      "model_id: my-llama\nlearnin_rate: 1\ndeepspeed: [1]\nbias: all\nworker_resources: x\n"
      "peft_method: dora\nper_device_train_batch_size: 0\npacking: maybe\n");
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:2: learnin_rate: has no equal here; did you mean "
                                 "'learning_rate'?"));
  EXPECT_THAT(unknown,
              HasSubstr("arguments.yaml:3: deepspeed: found a list of 1; expected a text"));
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:4: bias: found 'all', which has no equal here; "
                                 "expected none"));
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:5: worker_resources: found 'x'; expected "
                                 "accelerator_type:NAME: 0.001"));
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:6: peft_method: found 'dora'"));
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:7: per_device_train_batch_size: found 0; expected "
                                 "an integer of at least 1"));
  EXPECT_THAT(unknown, HasSubstr("arguments.yaml:8: packing: found 'maybe'"));
  EXPECT_THAT(refusal_of_file("r: 8\nlora_r: 9\n"),
              HasSubstr("arguments.yaml:2: lora_r: says 9, where arguments.yaml:1: r says 8; "
                        "expected one of them"));
  EXPECT_THAT(refusal_of_file("[1]"), HasSubstr("expected names of arguments and their values"));
  EXPECT_THAT(refusal_of_file("{\"a\": "), HasSubstr("arguments.yaml:"));
  EXPECT_THAT(refusal_of_file("model_id: my-llama\nlearning_rate: fast\n"),
              HasSubstr("arguments.yaml:2: learning_rate: 'fast' is no value of learning_rate; "
                        "expected a number from 0"));
  const std::string together =
      refusal_of_file("model_id: my-llama\nnum_train_epochs: '5'\nlearnin_rate: 1\noptim: adamx\n");
  EXPECT_THAT(together, HasSubstr("arguments.yaml:2: num_train_epochs: '5' is no value of"));
  EXPECT_THAT(together, HasSubstr("arguments.yaml:3: learnin_rate: has no equal here"));
  EXPECT_THAT(together, HasSubstr("arguments.yaml:4: optim: 'adamx' is no value of optim"));
  EXPECT_THAT(refusal({"--arguments", "none.json"}), HasSubstr("none.json"));
}

TEST_F(OwnTrainingTest, WrongModelsAreRefused) {
  EXPECT_THAT(refusal({"--model", "my-llama", "--set", "model_name=smollm2-135m"}),
              HasSubstr("--model: gives what --set model_name gives, too; expected one of them"));
  EXPECT_THAT(
      refusal({"--model", "no-such"}),
      HasSubstr("--model: no-such is no folder; expected the folder of a model, or a hub id "
                "as ORG/NAME; or a name of `sftbench models`"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refusal({"--model", "empty"}),
              HasSubstr("--model: empty has no config.json; expected a folder that "
                        "save_pretrained() made"));
  EXPECT_THAT(refusal({"--model", "my-llama", "--job", "x.json"}), HasSubstr("--model"));
  const ProgramResult absent = program({"--model", "nobody/nothing", "--dry-run"});
  EXPECT_NE(absent.status, 0);
  EXPECT_THAT(absent.out + absent.err, HasSubstr("sftbench weights fetch nobody/nothing"));
}

// The commands are transformers' own: tests run none of them.
TEST_F(OwnTrainingTest, FilesThatHaveToBeConvertedAreNamedWithTheCommand) {
  const auto evidence = [this] { return refusal({"--model", "my-llama", "--data", "pairs.json"}); };
  fs::rename(folder_ / "my-llama/tokenizer.json", folder_ / "my-llama/tokenizer.model");
  EXPECT_THAT(evidence(), HasSubstr("t.AutoTokenizer.from_pretrained(sys.argv[1])"
                                    ".save_pretrained(sys.argv[1])' "));
  fs::rename(folder_ / "my-llama/model.safetensors", folder_ / "my-llama/pytorch_model.bin");
  EXPECT_THAT(evidence(), HasSubstr("transformers makes them of its pytorch_model.bin: python3 -c "
                                    "'import sys, transformers as t; "
                                    "t.AutoModelForCausalLM.from_pretrained(sys.argv[1], "
                                    "dtype=\"auto\").save_pretrained(sys.argv[1])' " +
                                    (folder_ / "my-llama").string()));
}

TEST_F(OwnTrainingTest, WrongDataAreRefused) {
  const auto refused = [this](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "my-llama"});
    return refusal(more);
  };
  EXPECT_THAT(refused({"--data", "none.json"}),
              HasSubstr("--data: no such file: none.json; expected a file"));
  EXPECT_THAT(
      refused({"--data", "my-llama"}),
      HasSubstr("my-llama: the folder is a model's: it has config.json; expected a folder of "
                "data"));
  EXPECT_THAT(refused({"--data", "pairs.json", "--template", "{{inptu}} {{output}}"}),
              HasSubstr("--template: inptu: no such field; found input, output, which the template "
                        "asks for (pairs.json:1); did you mean 'input'?"));
  EXPECT_THAT(
      refused({"--data", "pairs.json", "--template", "{input}"}),
      HasSubstr("--template: names no field: '{input}'; expected a text with {{name}} where "
                "an entry's fields go"));
  EXPECT_THAT(refused({"--data", "pairs.json", "--text-field", "text"}),
              HasSubstr("--text-field: text: no such field; found input, output (pairs.json:1)"));
  EXPECT_THAT(
      refused({"--data", "pairs.json", "--input-column", "inptu", "--output-column", "output"}),
      HasSubstr("--input-column: inptu: no such field; found input, output (pairs.json:1); did you "
                "mean 'input'?"));
  write("mixed.jsonl", "{\"output\": 1}\n");
  EXPECT_THAT(refused({"--data", "mixed.jsonl", "--text-field", "output"}),
              HasSubstr("--text-field: output: the field is a number (mixed.jsonl:1); expected a "
                        "string"));
  write("texts.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(refused({"--data", "texts.jsonl"}),
              HasSubstr("--data: output: no such field; found text (texts.jsonl:1); expected "
                        "--text-field NAME, --template TEXT, or --input-column and --output-column "
                        "NAME"));
  write("broken.json", "[{\"output\": \"a\"}, ");
  EXPECT_THAT(refused({"--data", "broken.json"}),
              HasSubstr("broken.json:1: the file ends within its array"));
  EXPECT_THAT(refused({"--data", "pairs.json", "--set", "training_data_path=pairs.json"}),
              HasSubstr("--data: gives what --set training_data_path gives, too"));
}

// --- the data configuration of fms-hf-tuning -----------------------------------------------------

class DataConfigurationTest : public OwnTrainingTest {
 protected:
  // As `--arguments` names it, with `handlers` of the one dataset.
  Json job_with(const std::string& handlers) const {
    configure(handlers);
    return job({"--arguments", "arguments.json"});
  }
  std::string refusal_of(const std::string& handlers) const {
    configure(handlers);
    return refusal({"--arguments", "arguments.json", "--dry-run"});
  }
  void configure(const std::string& handlers) const {
    write("data.yaml",
          "dataprocessor:\n  type: default\n  sampling_stopping_strategy: first_exhausted\n"
          "  sampling_seed: 66\ndatasets:\n  - name: own\n    data_paths: [pairs.json]\n"
          "    sampling: 1.0\n    data_handlers:\n" +
              handlers);
    write("arguments.json",
          R"({"model_name_or_path": "my-llama", "data_config_path": "data.yaml"})");
  }
};

TEST_F(DataConfigurationTest, HandlersAreFormsOfAnEntry) {
  const Json columns = job_with(
      "      - name: tokenize_and_apply_input_masking\n        arguments:\n"
      "          remove_columns: all\n          batched: false\n          fn_kwargs:\n"
      "            input_column_name: input\n            output_column_name: output\n");
  EXPECT_EQ(columns["data"]["input_field"], "input");
  EXPECT_EQ(columns["data"]["output_field"], "output");
  EXPECT_EQ(columns["data"]["path"], (folder_ / "pairs.json").string());
  const Json formatted = job_with(
      "      - name: apply_custom_data_formatting_template\n        arguments:\n"
      "          fn_kwargs:\n            dataset_text_field: text\n"
      "            template: '### {{input}}: {{output}}'\n"
      "      - name: tokenize\n        arguments:\n          fn_kwargs: {text_column_name: "
      "text}\n");
  EXPECT_EQ(formatted["data"]["entry_template"], "### {{input}}: {{output}}");
  const Json texts = job_with(
      "      - name: add_tokenizer_eos_token\n        arguments: {}\n"
      "      - name: tokenize\n        arguments: {fn_kwargs: {text_column_name: input}}\n");
  EXPECT_EQ(texts["data"]["text_field"], "input");
}

TEST_F(DataConfigurationTest, ConversationsAreThoseOfTheDocuments) {
  write("pairs.json", R"([{"turns": [{"role": "user", "content": "a"}]}])");
  write("chat.jinja", "{{ messages }}");
  const std::string handler =
      "      - name: tokenize_and_apply_chat_template_with_masking\n        arguments:\n"
      "          remove_columns: all\n          fn_kwargs:\n"
      "            conversation_column_name: \"turns\"\n";
  configure(handler);
  const Json given = job({"--arguments", "arguments.json", "--chat-template", "chat.jinja"});
  EXPECT_EQ(given["data"]["conversation_field"], "turns");
  write("arguments.yaml",
        "model_name_or_path: my-llama\ndataprocessor: {chat_template: chat.jinja}\ndatasets:\n"
        "  - data_paths: [pairs.json]\n    data_handlers:\n" +
            handler);
  EXPECT_EQ(job({"--arguments", "arguments.yaml"})["data"]["chat_template"], "{{ messages }}")
      << "in the file of arguments itself";
}

TEST_F(DataConfigurationTest, WhatHasNoEqualIsNamed) {
  EXPECT_THAT(refusal_of("      - name: skip_samples_with_large_columns\n        arguments: {}\n"),
              HasSubstr("data.yaml:10: datasets[0].data_handlers[0]: the handler "
                        "skip_samples_with_large_columns has no equal here; expected "
                        "model_max_length, to which entries are cut"));
  EXPECT_THAT(refusal_of("      - name: tokenise\n        arguments: {}\n"),
              HasSubstr("did you mean 'tokenize'?"));
  EXPECT_THAT(
      refusal_of("      - name: tokenize\n        arguments: {fn_kwargs: {color: 1}}\n"),
      HasSubstr("datasets[0].data_handlers[0].arguments.fn_kwargs.color: has no equal here; "
                "expected dataset_text_field, max_length, text_column_name, truncation"));
  write("two.yaml", "datasets:\n  - data_paths: [a]\n  - data_paths: [b]\n");
  EXPECT_THAT(refusal_of_file("data_config_path: two.yaml\n"), HasSubstr("no such file: a"));
  write("other.yaml", "dataset: []\n");
  EXPECT_THAT(refusal_of_file("data_config_path: other.yaml\n"),
              HasSubstr("did you mean 'datasets'?"));
  EXPECT_THAT(refusal_of_file("data_config_path: none.yaml\n"), HasSubstr("none.yaml"));
  write("paths.yaml",
        "datasets:\n  - data_paths: [a, b]\n    split: {train: 0.8, validation: 0.3}\n");
  const std::string paths = refusal_of_file("data_config_path: paths.yaml\n");
  EXPECT_THAT(paths,
              HasSubstr("datasets[0].data_paths: found a list of 2; expected a list of one file, "
                        "folder or dataset of the hub"));
  EXPECT_THAT(paths,
              HasSubstr("datasets[0].split: found a mapping; expected train and validation, two "
                        "shares that add up to 1 or less"));
}

TEST_F(DataConfigurationTest, ASplitIsEvaluated) {
  write("split.yaml",
        "datasets:\n  - data_paths: [pairs.json]\n    split: {train: 0.75, validation: 0.25}\n");
  write("arguments.yaml",
        "model_name_or_path: my-llama\ndata_config_path: split.yaml\neval_strategy: steps\n"
        "eval_steps: 7\nper_device_eval_batch_size: 3\n");
  const Json evaluation = job({"--arguments", "arguments.yaml"})["evaluation"];
  EXPECT_EQ(evaluation["split"], 0.25);
  EXPECT_EQ(evaluation["strategy"], "steps");
  EXPECT_EQ(evaluation["steps"], 7);
  EXPECT_EQ(evaluation["per_device_batch_size"], 3);
}

class MixtureTest : public OwnTrainingTest {
 protected:
  // Two sets, `first` and `second` of which are further lines.
  std::vector<std::string> words(const std::string& first, const std::string& second) const {
    write("mixed.yaml",
          "dataprocessor: {type: default, seed: 66, sampling_stopping_strategy: first_exhausted}\n"
          "datasets:\n  - data_paths: [pairs.json]\n" +
              first +
              "    data_handlers:\n      - name: tokenize_and_apply_input_masking\n"
              "        arguments:\n          fn_kwargs: {input_column_name: input, "
              "output_column_name: output}\n"
              "  - data_paths: [tokens.jsonl]\n" +
              second);
    write("arguments.yaml", "model_name_or_path: my-llama\ndata_config_path: mixed.yaml\n");
    return {"--arguments", "arguments.yaml"};
  }
};

TEST_F(MixtureTest, SetsAreMixedByTheirSharesAndHaveFormsOfTheirOwn) {
  const Json given = job(words("    sampling: 0.25\n", "    sampling: 0.75\n"));
  const Json& mixture = given["data"]["mixture"];
  EXPECT_EQ(mixture["stopping_strategy"], "first_exhausted");
  EXPECT_EQ(mixture["sets"][0]["path"], (folder_ / "pairs.json").string());
  EXPECT_EQ(mixture["sets"][0]["input_field"], "input");
  EXPECT_EQ(mixture["sets"][0]["share"], 0.25);
  EXPECT_EQ(mixture["sets"][1]["pretokenized"], true) << "found in its first entry";
  EXPECT_EQ(given["data"]["sampling_seed"], 66);
  EXPECT_EQ(given["data"]["dataset_id"], "pairs+tokens");
  const std::string named = given["inputs"]["data_mixture"];
  EXPECT_THAT(named, HasSubstr("training_data"));
  EXPECT_THAT(named, Not(HasSubstr("pairs.json"))) << "its content names a set";
}

TEST_F(MixtureTest, ASplitOfASetIsEvaluated) {
  const Json given = job(words("    split: {train: 0.5, validation: 0.5}\n", ""));
  EXPECT_EQ(given["data"]["mixture"]["sets"][0]["held_out"], 0.5);
  EXPECT_EQ(given["data"]["mixture"]["sets"][1]["held_out"], 0.0);
  EXPECT_EQ(given["evaluation"]["strategy"], "epoch");
}

TEST_F(MixtureTest, TrainsAndEvaluates) {
  std::vector<std::string> given = words("    split: {train: 0.5, validation: 0.5}\n", "");
  given.insert(given.end(), {"--set", "max_steps=2"});
  const ProgramResult run = program(given);
  EXPECT_EQ(run.status, 0) << run.err << run.out;
}

TEST_F(MixtureTest, SharesThatDoNotFitAreNamed) {
  EXPECT_THAT(
      refusal(words("    sampling: 0.5\n", "    sampling: 0.25\n")),
      HasSubstr("mixed.yaml:3: datasets: the shares (sampling) add up to 0.75; expected 1"));
  EXPECT_THAT(refusal(words("    sampling: 1.0\n", "")),
              HasSubstr("mixed.yaml:9: datasets[1]: has no sampling, and 1 of 2 sets have one; "
                        "expected a share for each set, or none"));
  EXPECT_THAT(refusal(words("    sampling: 0.7\n", "    sampling: 0.6\n")),
              HasSubstr("the shares (sampling) add up to 1.3; expected 1"));
  EXPECT_THAT(refusal(words("    sampling: -1\n", "    sampling: 2\n")),
              AllOf(HasSubstr("mixed.yaml:4: datasets[0].sampling: found -1; expected a share "
                              "above 0, at most 1"),
                    HasSubstr("datasets[1].sampling: found 2")));
  EXPECT_THAT(refusal(words("    sampling: 0.0\n", "    sampling: 1.0\n")),
              HasSubstr("datasets[0].sampling: found 0.0"));
  EXPECT_THAT(refusal(words("    sampling: much\n", "")),
              HasSubstr("mixed.yaml:4: datasets[0].sampling: found 'much'; expected a share"));
}

TEST_F(MixtureTest, AMixtureOfASpaceIsCheckedAsWellBeforeAnythingIsWritten) {
  const auto problem = [this](const std::string& mixture) {
    std::string text;
    for (const char* command : {"run", "sweep", "expand", "predict"}) {
      const ProgramResult result =
          program({"--model", "my-llama", "--set", "data_mixture=" + mixture}, command);
      EXPECT_EQ(result.status, 2) << command << result.out << result.err;
      text = result.err;
    }
    EXPECT_FALSE(fs::exists(folder_ / "results"));
    return text;
  };
  EXPECT_THAT(problem(R"({"datasets": []})"),
              HasSubstr("data_mixture: has no datasets; expected a list of them"));
  EXPECT_THAT(problem(R"({"sets": []})"), HasSubstr("found sets; expected datasets"));
  EXPECT_THAT(problem(R"({"datasets": [{}]})"), HasSubstr("datasets[0] has no training_data_path"));
  EXPECT_THAT(problem(R"({"datasets": [{"training_data_path": "pairs.json", "color": 1}]})"),
              HasSubstr("datasets[0].color: no such property; a set has conversation_column"));
  EXPECT_THAT(problem(R"({"datasets": [{"training_data_path": "pairs.json", "sampling": 0.7},
                          {"training_data_path": "tokens.jsonl", "sampling": 0.6}]})"),
              HasSubstr("data_mixture: sampling: the shares add up to 1.3; expected 1"));
}

// --- evaluation ----------------------------------------------------------------------------------

TEST_F(OwnTrainingTest, HeldOutDataAreAnInputByTheirContent) {
  write("held_out.json", "[{\"input\": \"x\", \"output\": \"y\"}]");
  const Json given = own_job({"--eval-data", "held_out.json", "--eval-batch-size", "2"});
  EXPECT_EQ(given["evaluation"]["path"], (folder_ / "held_out.json").string());
  EXPECT_EQ(given["evaluation"]["strategy"], "epoch") << "who gives data wants them evaluated";
  EXPECT_EQ(given["evaluation"]["per_device_batch_size"], 2);
  const Json digest = given["inputs"]["validation_data"];
  fs::rename(folder_ / "held_out.json", folder_ / "elsewhere.json");
  EXPECT_EQ(own_job({"--eval-data", "elsewhere.json"})["inputs"]["validation_data"], digest);
  EXPECT_FALSE(given["inputs"].contains("validation_data_path"));
  EXPECT_EQ(own_job({"--eval-split", "0.5"})["inputs"]["eval_split"], 0.5);
  EXPECT_FALSE(own_job()["inputs"].contains("eval_strategy"));
}

TEST_F(OwnTrainingTest, AFolderIsTheFilesInIt) {
  fs::create_directories(folder_ / "set");
  write("set/train-1.jsonl", "{\"output\": \"b\"}\n");
  write("set/train-0.jsonl", "{\"output\": \"a\"}\n");
  write("set/test-0.jsonl", "{\"output\": \"c\"}\n");
  const std::vector<std::string> words = {"--model", "my-llama", "--data", "set/"};
  const Json given = job(words);
  EXPECT_EQ(given["data"]["dataset_id"], "set");
  EXPECT_EQ(given["data"]["path"], (folder_ / "set/").string());
  write("set/test-0.jsonl", "another");
  EXPECT_EQ(job(words)["inputs"]["training_data"], given["inputs"]["training_data"]);
  write("set/train-0.jsonl", "{\"output\": \"d\"}\n");
  EXPECT_NE(job(words)["inputs"]["training_data"], given["inputs"]["training_data"]);
  const ProgramResult shown =
      program({"show", "set", "--tokenizer", "my-llama", "--response-template", "None", "-n", "2"},
              "dataset");
  EXPECT_THAT(shown.out, HasSubstr("d"));
  EXPECT_THAT(shown.out, HasSubstr("b"));
  write("set/train-0.jsonl", "{\"text\": \"d\"}\n");
  EXPECT_THAT(refusal(words), HasSubstr("(set/train-0.jsonl:1)"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "empty"}),
              HasSubstr("empty: the folder has no data; expected files .json, .jsonl, .csv, "
                        ".parquet or .arrow"));
}

TEST_F(OwnTrainingTest, WhatCannotBeEvaluatedIsRefused) {
  const auto refused = [this](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "my-llama", "--data", "pairs.json"});
    return refusal(more);
  };
  EXPECT_THAT(refused({"--eval-data", "none.json"}),
              HasSubstr("--eval-data: no such file: none.json"));
  EXPECT_THAT(refused({"--eval-data", "my-llama"}), HasSubstr("my-llama: the folder is a model's"));
  EXPECT_THAT(
      refused({"--eval-data", "tokens.jsonl", "--text-field", "output"}),
      HasSubstr("--text-field: output: no such field; found input_ids, labels (tokens.jsonl:1)"));
  EXPECT_THAT(refused({"--eval-split", "-1"}), HasSubstr("--eval-split: -1 is no value of"));
  EXPECT_THAT(refused({"--eval-split", "0.1", "--eval-steps", "0"}),
              HasSubstr("--eval-steps: 0 is no value of"));
  EXPECT_THAT(refused({"--eval-split", "0.1", "--eval-strategy", "step"}),
              HasSubstr("did you mean 'steps'?"));
  const ProgramResult nothing =
      program({"--model", "my-llama", "--data", "pairs.json", "--eval-steps", "3", "--dry-run"});
  EXPECT_THAT(nothing.err, HasSubstr("--eval-steps 3 has no effect without validation_data_path "
                                     "or eval_split"));
}

TEST_F(OwnTrainingTest, TextsBeforeAndAfterTrainingAreOfHeldOutPrompts) {
  const std::vector<std::string> pairs = {"--input-column", "input", "--output-column", "output"};
  const auto with = [&pairs](std::vector<std::string> more) {
    more.insert(more.begin(), pairs.begin(), pairs.end());
    return more;
  };
  const Json evaluation = own_job(with({"--eval-split", "1", "--eval-on-start", "--generate", "3",
                                        "--max-new-tokens", "9"}))["evaluation"];
  EXPECT_EQ(evaluation["on_start"], true);
  EXPECT_EQ(evaluation["generated"], 3);
  EXPECT_EQ(evaluation["max_new_tokens"], 9);
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "pairs.json", "--generate", "3"}),
              HasSubstr("--generate: no entries are held out; expected --eval-split X or "
                        "--eval-data FILE with it"));
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "pairs.json", "--max-new-tokens", "3"}),
              HasSubstr("--max-new-tokens: no text is written; expected --generate N with it"));
}

TEST_F(OwnTrainingTest, FilesSayWhatIsEvaluated) {
  write("arguments.json", R"({"model_name_or_path": "my-llama", "training_data_path": "pairs.json",
    "validation_data_path": "pairs.json", "eval_strategy": "steps", "do_eval": true, "eval_steps": 5,
    "load_best_model_at_end": true, "metric_for_best_model": "eval_loss", "greater_is_better": false,
    "save_strategy": "steps", "save_steps": 5, "output_dir": "out", "save_model_dir": "out"})");
  const Json fms = job({"--arguments", "arguments.json"});
  EXPECT_EQ(fms["evaluation"]["path"], (folder_ / "pairs.json").string());
  EXPECT_EQ(fms["evaluation"]["steps"], 5);
  EXPECT_EQ(fms["save"]["best_model"], true);
  EXPECT_EQ(fms["save"]["output_directory"], (folder_ / "out").string());
  EXPECT_EQ(fms["save"]["checkpoint_directory"], (folder_ / "out").string());
  write("llmforge.yaml",
        "model_id: my-llama\ntrain_path: pairs.json\nvalid_path: pairs.json\n"
        "eval_batch_size_per_device: 4\n");
  const Json llmforge = job({"--arguments", "llmforge.yaml"});
  EXPECT_EQ(llmforge["evaluation"]["strategy"], "epoch");
  EXPECT_EQ(llmforge["evaluation"]["per_device_batch_size"], 4);
}

TEST_F(OwnTrainingTest, FilesSayWhatAnOutputFolderGets) {
  const std::string head = R"({"model_name_or_path": "my-llama", "output_dir": "out",
    "training_data_path": "pairs.json", )";
  write("arguments.json", head + R"("logging_strategy": "steps", "logging_steps": 5,
    "save_total_limit": 2, "resume_from_checkpoint": "False"})");
  const Json save = job({"--arguments", "arguments.json"})["save"];
  EXPECT_EQ(save["strategy"], "epoch");
  EXPECT_EQ(save["total_limit"], 2);
  EXPECT_EQ(save["log_strategy"], "steps");
  EXPECT_EQ(save["log_steps"], 5);
  EXPECT_EQ(save["from_nothing"], true);
  const Json over = job(
      {"--arguments", "arguments.json", "--output-dir", "other", "--save-strategy", "no"})["save"];
  EXPECT_EQ(over["output_directory"], (folder_ / "other").string());
  EXPECT_EQ(over["checkpoint_directory"], "");
  write("arguments.json", head + R"("logging_steps": 1})");
  EXPECT_EQ(job({"--arguments", "arguments.json"})["save"]["log_strategy"], "epoch");
}

// --- conversations -------------------------------------------------------------------------------

class ConversationTrainingTest : public OwnTrainingTest {
 protected:
  ConversationTrainingTest() {
    const std::string answered =
        R"({"role": "user", "content": "one"}, {"role": "assistant", "content": "two"})";
    write("chats.jsonl", "{\"messages\": [" + answered + "]}\n{\"messages\": [" + answered + ", " +
                             answered + "]}\n");
    write("chat.jinja",
          "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
          "{% if add_generation_prompt %}<assistant>{% endif %}");
  }

  std::string given_template() const { return read_file(folder_ / "chat.jinja"); }

  const std::vector<std::string> words_ = {"--model", "my-llama", "--data", "chats.jsonl"};
  std::vector<std::string> with(std::vector<std::string> more) const {
    more.insert(more.begin(), words_.begin(), words_.end());
    return more;
  }
};

TEST_F(ConversationTrainingTest, TheColumnIsFoundAndTheTemplateStandsInTheJob) {
  const Json given = job(with({"--chat-template", "chat.jinja"}));
  EXPECT_EQ(given["data"]["conversation_field"], "messages");
  EXPECT_THAT(given["data"]["chat_template"].get<std::string>(), HasSubstr("{% for m in messages"));
  EXPECT_EQ(given["inputs"]["chat_template"].get<std::string>().size(), 32u) << "a digest";
  fs::rename(folder_ / "chat.jinja", folder_ / "renamed.jinja");
  EXPECT_EQ(job(with({"--chat-template", "renamed.jinja"}))["inputs"], given["inputs"]);
}

TEST_F(ConversationTrainingTest, TrainsOnWhatAssistantsSay) {
  const std::vector<std::string> steps = {"--set", "max_steps=2", "--output", "results"};
  std::vector<std::string> more = {"--chat-template", "chat.jinja"};
  more.insert(more.end(), steps.begin(), steps.end());
  const ProgramResult run = program(with(more));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("chats.jsonl: the entries are conversations (messages)"));

  fs::copy(folder_ / "chat.jinja", folder_ / "my-llama" / "chat_template.jinja");
  EXPECT_EQ(program(with(steps)).status, 0) << "with the template of the model's folder";
  EXPECT_EQ(job(words_)["data"]["chat_template"], given_template());
}

TEST_F(ConversationTrainingTest, WithoutATemplateTheRunSaysWhatGivesOne) {
  const ProgramResult run = program(with({"--set", "max_steps=1", "--output", "results"}));
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.out + run.err, HasSubstr("has no chat template, which conversations need; "
                                           "--chat-template FILE gives one"));
}

TEST_F(ConversationTrainingTest, WhatIsWrongIsSaidBeforeAnythingIsMeasured) {
  EXPECT_THAT(refusal(with({"--chat-template", "none.jinja"})),
              HasSubstr("--chat-template: none.jinja is no file; expected a file with a Jinja "
                        "template, or a text with {{ }} or {% %}"));
  write("bad.jinja", "one\n{% if %}");
  EXPECT_THAT(refusal(with({"--chat-template", "bad.jinja"})),
              HasSubstr("bad.jinja:2: Expected an expression, got '%}'"));
  EXPECT_THAT(refusal(with({"--conversation-column", "turns"})),
              HasSubstr("--conversation-column: turns: no such field; found messages "
                        "(chats.jsonl:1)"));
  write("broken.jsonl", R"({"messages": [{"content": "a"}]})");
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "broken.jsonl"}),
              HasSubstr("--data: messages: message 0 has no role (broken.jsonl:1)"));
  const ProgramResult both = program(
      with({"--conversation-column", "messages", "--template", "{{messages}}", "--dry-run"}));
  EXPECT_NE(both.status, 0);
  EXPECT_THAT(
      refusal({"--model", "my-llama", "--data", "pairs.json", "--chat-template", "chat.jinja"}),
      HasSubstr("--chat-template: is given, and nothing says that entries are conversations; "
                "expected --conversation-column NAME beside it, or entries with messages"));
}

TEST_F(ConversationTrainingTest, DatasetShowMarksWhatAssistantsSay) {
  const ProgramResult shown =
      program({"show", "chats.jsonl", "--tokenizer", "my-llama", "--chat-template", "chat.jinja",
               "-n", "1", "--format", "json"},
              "dataset");
  ASSERT_EQ(shown.status, 0) << shown.err;
  const Json rows = Json::parse(shown.out);
  EXPECT_EQ(rows.front()["label"], -100);
  EXPECT_EQ(rows.back()["label"], rows.back()["id"]);
  EXPECT_THAT(program({"show", "chats.jsonl", "--tokenizer", "my-llama"}, "dataset").err,
              HasSubstr("the tokenizer of my-llama has no chat template"));
}

TEST_F(OwnTrainingTest, FormsThatExcludeEachOtherEndUnsupported) {
  const auto ending = [this](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "my-llama", "--data", "pairs.json", "--dry-run"});
    const ProgramResult result = program(more);
    EXPECT_NE(result.status, 0);
    return result.out + result.err;
  };
  EXPECT_THAT(
      ending({"--template", "{{input}}", "--pretokenized"}),
      HasSubstr("--pretokenized and --template each say what an entry is; one of them works"));
  EXPECT_THAT(ending({"--lora-targets", "q_proj|"}), Not(HasSubstr("INTERNAL")));
  EXPECT_THAT(ending({"--lora-targets", "(q_proj"}),
              HasSubstr("--lora-targets: '(q_proj' is no regular expression"));
  EXPECT_THAT(ending({"--lora-targets", ".*nothing"}),
              HasSubstr("matches no linear of the model from end to end; it has "));
}

TEST_F(OwnTrainingTest, WrongNumbersAreRefusedUnderTheOptionsName) {
  for (const auto& [option, value] :
       std::vector<std::pair<const char*, const char*>>{{"--learning-rate", "fast"},
                                                        {"--learning-rate", "-1"},
                                                        {"--learning-rate", "nan"},
                                                        {"--adam-beta1", "1"},
                                                        {"--warmup-ratio", "2"},
                                                        {"--warmup-steps", "1.5"},
                                                        {"--lora-r", "0"},
                                                        {"--lora-alpha", "x"},
                                                        {"--lora-dropout", "1"},
                                                        {"--training-seed", "-1"},
                                                        {"--virtual-tokens", "0"},
                                                        {"--weight-decay", "-0.1"},
                                                        {"--lr-scheduler-type", "cosin"},
                                                        {"--eval-batch-size", "-1"},
                                                        {"--lr-scheduler-kwargs", "[1]"}}) {
    EXPECT_THAT(refusal({"--model", "my-llama", option, value}),
                testing::AnyOf(HasSubstr(std::string(option) + ": '" + value + "' is no value of "),
                               HasSubstr(std::string(option) + ": " + value + " is no value of ")))
        << option << " " << value;
  }
  EXPECT_THAT(refusal({"--model", "my-llama", "--lora-r", "8", "--lora-r", "9"}),
              HasSubstr("--lora-r"));
}

TEST_F(OwnTrainingTest, ASpaceHasThemAsProperties) {
  write("space.yaml",
        "sampleStoreIdentifier: s\n"
        "experiments: [{experimentIdentifier: finetune_lora_benchmark-v1.0.0, actuatorIdentifier: "
        "SFTTrainer}]\nentitySpace:\n"
        "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
        "- {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
        "- {identifier: model_max_length, propertyDomain: {values: [64]}}\n"
        "- {identifier: batch_size, propertyDomain: {values: [1]}}\n"
        "- {identifier: learning_rate, propertyDomain: {values: [1.0e-5, 1.0e-4]}}\n"
        "- {identifier: target_modules, propertyDomain: {values: [all-linear]}}\n");
  const ProgramResult listed = program({"space.yaml", "--format", "json"}, "expand");
  EXPECT_EQ(listed.status, 0) << listed.err;
  const Json rows = Json::parse(listed.out);
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_THAT(listed.err, Not(HasSubstr("ado")));
}

TEST_F(OwnTrainingTest, DatasetShowPrintsTokensAndLabels) {
  const ProgramResult shown =
      program({"show", "pairs.json", "--tokenizer", "my-llama", "--input-column", "input",
               "--output-column", "output", "-n", "1", "--format", "json"},
              "dataset");
  ASSERT_EQ(shown.status, 0) << shown.err;
  const Json rows = Json::parse(shown.out);
  ASSERT_GE(rows.size(), 4u) << "<s> a b </s>";
  EXPECT_EQ(rows.front()["label"], -100);
  EXPECT_EQ(rows[1]["label"], -100) << "of a";
  EXPECT_EQ(rows.back()["label"], rows.back()["id"]);
  EXPECT_EQ(rows.back()["loss"], true);
  EXPECT_EQ(rows[0]["loss"], false);

  EXPECT_THAT(program({"show", "pairs.json", "--tokenizer", "my-llama", "--response-template",
                       "None", "--first", "2"},
                      "dataset")
                  .err,
              HasSubstr("--first: found 2; expected an entry from 0 to 1"));
  EXPECT_THAT(program({"show", "pairs.json", "--input-column", "input"}, "dataset").err,
              HasSubstr("--input-column: is given alone; expected --output-column with it"));
  EXPECT_THAT(program({"show", "none.json"}, "dataset").err, HasSubstr("none.json"));
}

// --- weights merge -------------------------------------------------------------------------------

TEST_F(OwnTrainingTest, AnAdapterIsMergedIntoTheBaseThatItNamesOrThatIsGiven) {
  const std::string adapter = std::string(SFTBENCH_TEST_DATA) + "/adapters/llama-lora_qv/final";
  const auto merge = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "merge");
    return program(words, "weights");
  };
  const ProgramResult merged = merge({adapter, "--model", "my-llama", "-o", "merged"});
  EXPECT_EQ(merged.status, 0) << merged.err;
  EXPECT_THAT(merged.err, HasSubstr("linears of my-llama adapted; beside them config.json"));
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "merged" / file)) << file;
  }
  fs::copy(adapter, folder_ / "adapter");
  Json config = read_json_file((folder_ / "adapter/adapter_config.json").string());
  config["base_model_name_or_path"] = "my-llama";
  write("adapter/adapter_config.json", config.dump());
  EXPECT_EQ(merge({"adapter", "-o", "named"}).status, 0);
  EXPECT_EQ(read_file(folder_ / "named/model.safetensors"),
            read_file(folder_ / "merged/model.safetensors"));

  const auto refused = [&](const std::vector<std::string>& words) {
    const ProgramResult result = merge(words);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(refused({"adapter", "-o", "named"}),
              HasSubstr("named: is there already; expected a new folder, or an empty one"));
  EXPECT_THAT(refused({adapter, "-o", "other"}),
              HasSubstr("base_model_name_or_path: names no base model; expected --model DIR"));
  EXPECT_THAT(refused({adapter, "-o", "other", "--model", "org/none"}),
              HasSubstr("--model: org/none is no folder, and no model of the hub that is here"));
  EXPECT_THAT(refused({"my-llama", "-o", "other"}), HasSubstr("adapter_config.json"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
