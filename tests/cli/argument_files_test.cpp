// --arguments given several times, values that are JSON in a text, and the keys of other programs
// that change something here, change nothing, or are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/own_training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ArgumentFilesTest : public OwnTrainingTest {
 protected:
  ArgumentFilesTest() {
    write("accelerate.yaml",
          "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
          "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_offload_params: false\n"
          "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 2\nuse_cpu: true\n");
    write("fms.json", R"({"model_name_or_path": "my-llama", "training_data_path": "pairs.json",
      "per_device_train_batch_size": 3, "learning_rate": 3e-4, "peft_method": "lora", "r": 16,
      "bf16": null, "fsdp": "", "packing": false})");
  }

  static std::vector<std::string> files(const std::vector<std::string>& names) {
    std::vector<std::string> words;
    for (const std::string& name : names) words.insert(words.end(), {"--arguments", name});
    return words;
  }

  ProgramResult dry_run(const std::vector<std::string>& names,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = files(names);
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back("--dry-run");
    return program(words);
  }

  Json job_of(const std::string& text) const {
    write("arguments.yaml",
          "model_name_or_path: my-llama\ntraining_data_path: pairs.json\n" + text);
    return job(files({"arguments.yaml"}));
  }
  std::string notes_of(const std::string& text) const {
    write("arguments.yaml",
          "model_name_or_path: my-llama\ntraining_data_path: pairs.json\n" + text);
    const ProgramResult result = dry_run({"arguments.yaml"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  }
};

// --- several files -------------------------------------------------------------------------------

TEST_F(ArgumentFilesTest, AcceleratesConfigurationAndTheArgumentsAreOneTraining) {
  for (const auto& order : {std::vector<std::string>{"accelerate.yaml", "fms.json"},
                            std::vector<std::string>{"fms.json", "accelerate.yaml"}}) {
    const Json job = this->job(files(order));
    EXPECT_EQ(job["parallel"]["strategy"], "SHARD_GRAD_OP");
    EXPECT_EQ(job["precision"]["autocast"], "bf16");
    EXPECT_EQ(job["device"]["ranks"], 2);
    EXPECT_EQ(job["batches"]["per_device_batch_size"], 3);
    EXPECT_EQ(job["inputs"]["batch_size"], 6) << "by the processes of the other file";
    EXPECT_EQ(job["optimizer"]["learning_rate"], 3e-4);
    EXPECT_EQ(job["lora"]["rank"], 16);
  }
  EXPECT_EQ(
      program({"--arguments", "accelerate.yaml", "--arguments", "fms.json", "--count"}, "expand")
          .status,
      0)
      << "as every command with a space";
}

TEST_F(ArgumentFilesTest, ALaterFileComesFirstUnderWhateverNameAndTheLogSaysSo) {
  write("later.yaml",
        "learning_rate: 1e-3\nlora_r: 4\nbatch_size: 8\nnum_devices: 4\nfp16: true\n"
        "lora_alpha: 16\nmodel_id: my-llama\n");
  const ProgramResult result = dry_run({"accelerate.yaml", "fms.json", "later.yaml"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json job = Json::parse(result.out);
  EXPECT_EQ(job["optimizer"]["learning_rate"], 1e-3);
  EXPECT_EQ(job["lora"]["rank"], 4);
  EXPECT_EQ(job["inputs"]["batch_size"], 8);
  EXPECT_EQ(job["device"]["ranks"], 4);
  EXPECT_EQ(job["precision"]["autocast"], "fp16");
  EXPECT_THAT(result.err, HasSubstr("fms.json:2: learning_rate gives way to later.yaml:1: "
                                    "learning_rate"));
  EXPECT_THAT(result.err, HasSubstr("fms.json:2: r gives way to later.yaml:2: lora_r"));
  EXPECT_THAT(result.err, HasSubstr("fms.json:2: per_device_train_batch_size gives way to "
                                    "later.yaml:3: batch_size"));
  EXPECT_THAT(result.err,
              HasSubstr("accelerate.yaml:8: num_processes gives way to later.yaml:4: num_devices"));
  EXPECT_THAT(result.err,
              HasSubstr("accelerate.yaml:6: mixed_precision gives way to later.yaml:5: fp16"));
  EXPECT_THAT(result.err, Not(HasSubstr("model_name_or_path gives way"))) << "says the same";
}

TEST_F(ArgumentFilesTest, OptionsAndSetComeBeforeAllFiles) {
  const Json job = this->job({"--arguments", "accelerate.yaml", "--arguments", "fms.json",
                              "--learning-rate", "1", "--set", "r=2"});
  EXPECT_EQ(job["optimizer"]["learning_rate"], 1.0);
  EXPECT_EQ(job["lora"]["rank"], 2);
}

TEST_F(ArgumentFilesTest, WhatOneFileSaysTwiceIsRefusedAndSoIsWhatDeepspeedsFileDisputes) {
  write("later.yaml", "r: 4\nlora_r: 5\n");
  EXPECT_THAT(refusal(files({"fms.json", "later.yaml"})),
              HasSubstr("later.yaml:2: lora_r: says 5, where later.yaml:1: r says 4"));
  write("ds.json", R"({"optimizer": {"type": "AdamW", "params": {"lr": 2e-4}}})");
  write("later.yaml", "deepspeed: ds.json\n");
  EXPECT_THAT(refusal(files({"fms.json", "later.yaml"})),
              HasSubstr("ds.json:1: optimizer.params.lr: says '2e-4', where fms.json:2: "
                        "learning_rate says '3e-4'; expected one of them"));
}

TEST_F(ArgumentFilesTest, AllThatIsWrongWithAllFilesIsNamed) {
  write("one.yaml", "learnin_rate: 1\nreport_to: tensorboard\n");
  write("two.yaml", "bias: all\nlora_r: 0\n");
  EXPECT_THAT(
      refusal(files({"one.yaml", "two.yaml"})),
      AllOf(HasSubstr("one.yaml:1: learnin_rate: has no equal here"),
            HasSubstr("one.yaml:2: report_to: tensorboard has no folder to write to; expected"),
            HasSubstr("two.yaml:1: bias: found 'all'"),
            HasSubstr("two.yaml:2: lora_r: 0 is no value of r")));
  EXPECT_THAT(refusal(files({"fms.json", "none.yaml"})), HasSubstr("none.yaml"));
}

TEST_F(ArgumentFilesTest, ASweepOverThemNamesTheFilesOfACell) {
  const ProgramResult listed =
      program({"--arguments", "accelerate.yaml", "--arguments", "fms.json", "--dry-run"}, "sweep");
  EXPECT_EQ(listed.status, 0) << listed.err;
}

// The ranks of a batch are those that --set asks for.
TEST_F(ArgumentFilesTest, TheBatchFollowsTheGpusThatSetAsksFor) {
  write("gpus.yaml",
        "num_processes: 8\nper_device_train_batch_size: 3\nmodel_id: my-llama\n"
        "train_path: pairs.json\n");
  const Json asked =
      job({"--arguments", "gpus.yaml", "--set", "number_gpus=2", "--set", "gpu_model=L40S"});
  EXPECT_EQ(asked["device"]["ranks"], 2);
  EXPECT_EQ(asked["inputs"]["batch_size"], 6);
}

// Without FSDP and DeepSpeed, these programs hand several ranks to DDP.
TEST_F(ArgumentFilesTest, SeveralRanksOfLlamaFactoryAndAxolotlTrainUnderDdp) {
  const std::string axolotl = "base_model: my-llama\nsequence_len: 64\n";
  const std::string factory =
      "model_name_or_path: my-llama\nfinetuning_type: lora\ncutoff_len: 64\n";
  const auto strategy = [this](const std::string& text) {
    write("own.yaml", text);
    return job({"--arguments", "own.yaml", "--data", "pairs.json", "--text-field", "output",
                "--ranks", "2"})["parallel"]["strategy"];
  };
  EXPECT_EQ(strategy(axolotl), "DDP");
  EXPECT_EQ(strategy(factory), "DDP");
  EXPECT_EQ(strategy(axolotl + "fsdp: [full_shard]\n"), "FULL_SHARD");
  EXPECT_EQ(strategy(axolotl + "fsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n"),
            "FULL_SHARD");
  EXPECT_EQ(strategy("model_name_or_path: my-llama\nmax_length: 64\n"), "FULL_SHARD")
      << "the experiments' default";
  write("zero.json", R"({"zero_optimization": {"stage": 2}})");
  EXPECT_EQ(strategy(factory + "deepspeed: zero.json\n"), "SHARD_GRAD_OP");
}

// --stack says it in any case. On processors this program is predicted.
TEST_F(ArgumentFilesTest, AFileOfAnotherProgramIsPredictedAsThatProgramTrainsIt) {
  const auto predicted = [this](const std::string& text, std::vector<std::string> more) {
    write("own.yaml",
          "model_name_or_path: some/other\nfinetuning_type: lora\ncutoff_len: 64\n" + text);
    std::vector<std::string> words = {"--arguments", "own.yaml", "--set",
                                      "model_name=smollm2-135m"};
    words.insert(words.end(), more.begin(), more.end());
    return program(words, "predict").out;
  };
  const std::vector<std::string> gpu = {"--set", "gpu_model=L40S", "--set", "number_gpus=1"};
  EXPECT_THAT(predicted("", gpu), HasSubstr("trained by transformers (--stack)"));
  EXPECT_THAT(predicted("use_unsloth: true\n", gpu), HasSubstr("trained by unsloth (--stack)"));
  write("zero.json", R"({"zero_optimization": {"stage": 2}})");
  EXPECT_THAT(predicted("deepspeed: zero.json\n", gpu),
              HasSubstr("trained by deepspeed (--stack)"));
  EXPECT_THAT(predicted("quantization_bit: 4\nquantization_method: bitsandbytes\n", gpu),
              HasSubstr("trained by transformers-bitsandbytes (--stack)"));
  EXPECT_THAT(predicted("", {"--set", "number_gpus=0", "--flops-per-s", "1e10"}),
              HasSubstr("trained by sftbench (--stack)"));
  EXPECT_THAT(
      predicted("", {"--set", "gpu_model=L40S", "--set", "number_gpus=1", "--stack", "sftbench"}),
      HasSubstr("trained by sftbench (--stack)"));
}

TEST_F(ArgumentFilesTest, AModelThatIsSetComesBeforeTheFilesAndTheFileSaysTheRest) {
  write("own.yaml", "model_name_or_path: some/other\nfinetuning_type: lora\ncutoff_len: 64\n");
  const ProgramResult asked =
      program({"--arguments", "own.yaml", "--set", "model_name=smollm2-135m", "--set",
               "number_gpus=0", "--flops-per-s", "1e10"},
              "predict");
  EXPECT_EQ(asked.status, 0) << asked.err;
  EXPECT_THAT(asked.err,
              HasSubstr("--set model_name: own.yaml:1: model_name_or_path some/other gives way"));
  EXPECT_THAT(asked.out, HasSubstr("smollm2-135m, lora"));
}

TEST_F(ArgumentFilesTest, WhatLlamaFactoryAndAxolotlLeaveOutIsTheirDefault) {
  const auto job_with = [this](const std::string& text, std::vector<std::string> more) {
    write("own.yaml", text);
    std::vector<std::string> words = {"--arguments", "own.yaml",     "--data",
                                      "pairs.json",  "--text-field", "output"};
    words.insert(words.end(), more.begin(), more.end());
    return job(words);
  };
  const std::string factory =
      "model_name_or_path: my-llama\nfinetuning_type: lora\ncutoff_len: 64\n";
  const Json lora = job_with(factory, {});
  EXPECT_EQ(lora["batches"]["gradient_accumulation_steps"], 1);
  EXPECT_EQ(lora["lora"]["rank"], 8);
  EXPECT_EQ(lora["lora"]["alpha"], 16);
  EXPECT_EQ(lora["lora"]["dropout"], 0);
  EXPECT_EQ(lora["lora"]["target_modules"], Json::array({"all-linear"}));
  EXPECT_EQ(lora["activations"]["gradient_checkpointing"], true);
  const Json said =
      job_with(factory + "lora_rank: 4\n", {"--set", "gradient_accumulation_steps=2"});
  EXPECT_EQ(said["batches"]["gradient_accumulation_steps"], 2);
  EXPECT_EQ(said["lora"]["rank"], 4);
  EXPECT_EQ(said["lora"]["alpha"], 8) << "twice the rank that is given";

  const Json axolotl = job_with("base_model: my-llama\nsequence_len: 64\n", {});
  EXPECT_EQ(axolotl["batches"]["gradient_accumulation_steps"], 1);
  EXPECT_EQ(axolotl["activations"]["gradient_checkpointing"], false);
}

// --- dictionaries as text ------------------------------------------------------------------------

TEST_F(ArgumentFilesTest, DictionariesMayBeTextsAsTransformersTakesThem) {
  for (const char* text : {R"('{"use_reentrant": true}')", R"('{"use_reentrant": "true"}')",
                           "{use_reentrant: true}", R"("{'use_reentrant': True}")"}) {
    const Json job = job_of(std::string("gradient_checkpointing_kwargs: ") + text + "\n");
    EXPECT_EQ(job["activations"]["use_reentrant"], true) << text;
  }
  const Json rates = job_of(
      "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: '{\"min_lr_rate\": 0.1}'\n");
  EXPECT_EQ(rates["optimizer"]["schedule_options"], Json({{"min_lr_rate", 0.1}}));
  EXPECT_EQ(job_of("optim_args: null\nlr_scheduler_kwargs: {}\n")["optimizer"]["schedule"],
            "cosine");
}

TEST_F(ArgumentFilesTest, FsdpMayBeSaidAsTransformersSaysIt) {
  const std::string ranks = "use_cpu: true\nnum_processes: 2\nper_device_train_batch_size: 1\n";
  const std::string config =
      R"({"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "fsdp_use_orig_params": true,
          "activation_checkpointing": false, "xla": false, "min_num_params": 0})";
  write("fsdp.json", config);
  std::string line = config;
  std::replace(line.begin(), line.end(), '\n', ' ');
  for (const std::string& given : {"'" + line + "'", line, std::string("fsdp.json")}) {
    const Json job = job_of(ranks + "fsdp: full_shard auto_wrap\nfsdp_config: " + given + "\n");
    EXPECT_EQ(job["parallel"]["strategy"], "FULL_SHARD") << given;
    EXPECT_EQ(job["parallel"]["layer_class"], "LlamaDecoderLayer");
    EXPECT_EQ(job["activations"]["gradient_checkpointing"], false);
  }
  EXPECT_EQ(job_of(ranks + "fsdp: [shard_grad_op, auto_wrap]\n")["parallel"]["strategy"],
            "SHARD_GRAD_OP");
  EXPECT_THAT(refusal_of_file("fsdp: full_shard speedy\n"),
              HasSubstr("arguments.yaml:1: fsdp: found 'speedy', which has no equal here"));
}

TEST_F(ArgumentFilesTest, DeepspeedsConfigurationMayStandInTheFile) {
  const std::string ranks = "use_cpu: true\nnum_processes: 2\nper_device_train_batch_size: 1\n";
  for (const char* block :
       {"{zero_optimization: {stage: 1}}", R"('{"zero_optimization": {"stage": 1}}')"}) {
    EXPECT_EQ(job_of(ranks + "deepspeed: " + block + "\n")["parallel"]["strategy"], "SHARD_OPTIM")
        << block;
  }
  EXPECT_THAT(refusal_of_file("deepspeed:\n  zero_optimization:\n    stage: 4\n"),
              HasSubstr("arguments.yaml:3: zero_optimization.stage: found 4; expected 0 (DDP), 1"));
}

TEST_F(ArgumentFilesTest, TextsThatAreNoDictionariesAreNamed) {
  EXPECT_THAT(refusal_of_file("gradient_checkpointing_kwargs: '{\"use_reentrant\": '\n"),
              HasSubstr("arguments.yaml:1: gradient_checkpointing_kwargs: found "
                        "'{\"use_reentrant\": '; expected {\"use_reentrant\": false}"));
  EXPECT_THAT(refusal_of_file("gradient_checkpointing_kwargs: '{\"a\": 1}'\n"),
              HasSubstr("gradient_checkpointing_kwargs.a: has no equal here; expected "
                        "use_reentrant"));
  EXPECT_THAT(refusal_of_file("lora_config: 3\n"),
              HasSubstr("lora_config: found 3; expected a mapping of arguments"));
  EXPECT_THAT(refusal_of_file("optim_args: rank=8\n"),
              HasSubstr("optim_args: has no equal here; expected the defaults of optim"));
}

// The command line of fms-hf-tuning for GPTQ-LoRA.
TEST_F(ArgumentFilesTest, KernelsOfGptqSayThatWeightsAreQuantized) {
  fs::copy(fs::path(SFTBENCH_TEST_DATA) / "gptq/llama", folder_ / "quantized");
  fs::copy_file(fs::path(SFTBENCH_TEST_DATA) / "training/tokenizer/tokenizer.json",
                folder_ / "quantized/tokenizer.json");
  write("arguments.json",
        R"({"model_name_or_path": "quantized", "training_data_path": "pairs.json",
            "peft_method": "lora", "target_modules": ["q_proj", "v_proj"], "torch_dtype": "float16",
            "fp16": true, "bf16": false, "fast_kernels": [true, true, true],
            "fused_lora": ["auto_gptq", true], "auto_gptq": ["triton_v2"]})");
  const Json gptq = job(files({"arguments.json"}));
  EXPECT_EQ(gptq["tuning"], "gptq-lora");
  EXPECT_EQ(gptq["precision"]["torch_dtype"], "float16");
  EXPECT_THAT(refusal_of_file("auto_gptq: [triton_v2]\n"),
              HasSubstr("auto_gptq: quantizes weights, and nothing asks for LoRA"));
}

// --- LLMForge ------------------------------------------------------------------------------------

TEST_F(ArgumentFilesTest, LlmforgesCheckpointingAndResourcesAreTaken) {
  EXPECT_EQ(job_of("no_gradient_checkpoint: True\n")["activations"]["gradient_checkpointing"],
            false);
  EXPECT_EQ(job_of("no_gradient_checkpoint: false\n")["activations"]["gradient_checkpointing"],
            true);
  const std::string gpus = "num_devices: 8\ntrainer_resources: {}\nworker_resources:\n";
  for (const auto& [name, model] : {std::pair{"A10G", "NVIDIA-A10G"},
                                    {"L4", "NVIDIA-L4"},
                                    {"A100-40G", "NVIDIA-A100-SXM4-40GB"},
                                    {"A100-80G", "NVIDIA-A100-SXM4-80GB"},
                                    {"H100", "NVIDIA-H100-80GB-HBM3"}}) {
    const Json job = job_of(gpus + "  accelerator_type:" + name + ": 0.001\n");
    EXPECT_EQ(job["device"]["gpu_model"], model);
    EXPECT_EQ(job["device"]["ranks"], 8);
  }
  const std::string told = notes_of(
      "num_devices: 4\ntrainer_resources: {memory: 150_323_855_360}\nworker_resources:\n"
      "  memory: 53_687_091_200\n  accelerator_type:A10G: 0.001\n");
  EXPECT_THAT(told, HasSubstr("no effect here, where rank 0 gathers no whole model to save it: "
                              "trainer_resources.memory"));
  EXPECT_THAT(told, HasSubstr("no effect here, where a launcher or a worker chooses the host: "
                              "worker_resources.memory"));
}

// Its page: by default, stage 3 with parameters and the optimizer's state offloaded.
TEST_F(ArgumentFilesTest, LlmforgeOffloadsUnlessItsFileSaysOtherwise) {
  const std::string file = "num_devices: 8\nworker_resources: {'accelerator_type:A10G': 0.001}\n";
  const Json job = job_of(file);
  EXPECT_EQ(job["parallel"]["strategy"], "FULL_SHARD");
  EXPECT_EQ(job["parallel"]["offload"], true);
  EXPECT_EQ(job["optimizer"]["offload_state"], true);
  EXPECT_THAT(notes_of(file), HasSubstr("LLMForge without deepspeed: stage 3"));
  write("zero.json", R"({"zero_optimization": {"stage": 3}})");
  EXPECT_EQ(job_of(file + "deepspeed: {config_path: zero.json}\n")["parallel"]["offload"], false);
  EXPECT_EQ(job_of("num_devices: 8\ngpu_model: A10G\n")["parallel"]["offload"], false);
}

// Where the next larger one does not fit, or is tight.
TEST_F(ArgumentFilesTest, LlmforgesOpenBatchIsTheLargestThatIsPredictedToFit) {
  const std::string file =
      "num_devices: 8\nworker_resources: {'accelerator_type:A10G': 0.001}\ncontext_length: 2048\n"
      "lora_config: {r: 8, lora_alpha: 16, target_modules: [q_proj, v_proj]}\n";
  write("llmforge.yaml", "training_data_path: pairs.json\n" + file);
  const std::vector<std::string> words = {"--arguments", "llmforge.yaml", "--model",
                                          "llama3.1-8b", "--weights",     "random"};
  const Json found = job(words);
  const int64_t batch = found["batches"]["per_device_batch_size"];
  EXPECT_GT(batch, 1);
  const auto verdict = [&](int64_t of_device) {
    std::vector<std::string> asked = {"predict", "--stack",   "sftbench",  "--format",
                                      "json",    "--padding", "max_length"};
    asked.insert(asked.end(), words.begin(), words.end());
    asked.insert(asked.end(), {"--set", "batch_size=" + std::to_string(8 * of_device)});
    const ProgramResult result = run_program(asked, {}, folder_);
    return Json::parse(result.out)["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict(batch), "fits");
  EXPECT_NE(verdict(2 * batch), "fits");
  write("llmforge.yaml", "training_data_path: pairs.json\ntrain_batch_size_per_device: 1\n" + file);
  EXPECT_EQ(job(words)["batches"]["per_device_batch_size"], 1);
}

TEST_F(ArgumentFilesTest, ResourcesThatMeanNothingAreRefused) {
  EXPECT_THAT(
      refusal_of_file("worker_resources: {'accelerator_type:L40X': 0.001}\n"),
      AllOf(HasSubstr("worker_resources.accelerator_type:L40X: unknown GPU 'L40X'; expected "
                      "a GPU of `sftbench gpus`"),
            HasSubstr("did you mean")));
  EXPECT_THAT(refusal_of_file("worker_resources: {'accelerator_type:A10G': 0.001}\n"
                              "gpu_model: L40S\n"),
              HasSubstr("gpu_model: says 'L40S', where arguments.yaml:1: "
                        "worker_resources.accelerator_type:A10G says"));
  EXPECT_THAT(refusal_of_file("trainer_resources: {'accelerator_type:H100': 0.001}\n"),
              HasSubstr("has no equal here: all ranks train on one GPU model; expected "
                        "worker_resources"));
  EXPECT_THAT(refusal_of_file("no_gradient_checkpoint: maybe\n"),
              HasSubstr("no_gradient_checkpoint: found 'maybe'"));
}

// --- fms-hf-tuning and trl -----------------------------------------------------------------------

TEST_F(ArgumentFilesTest, TheDocumentsKeysAreTakenOrRefusedByName) {
  write("pairs.json", R"([{"messages": [{"role": "user", "content": "a"}]}])");
  write("data.yaml",
        "datasets:\n  - data_paths: [pairs.json]\n    data_handlers:\n"
        "      - name: tokenize_and_apply_chat_template_with_masking\n");
  write("arguments.yaml",
        "model_name_or_path: my-llama\ndata_config: data.yaml\nchat_template: '{{ messages }}'\n"
        "flash_attn_implementation: kernels-community/vllm-flash-attn3\nuse_liger: true\n"
        "tracker: file_logger\nrun_name: mine\nmain_process_port: 1234\n");
  const ProgramResult taken = dry_run({"arguments.yaml"});
  ASSERT_EQ(taken.status, 0) << taken.err;
  const Json job = Json::parse(taken.out);
  EXPECT_EQ(job["data"]["conversation_field"], "messages");
  EXPECT_EQ(job["kernels"]["flash_attention"], true);
  EXPECT_EQ(job["inputs"]["fast_kernels"], Json({"True", "True", "True"}));
  EXPECT_THAT(taken.err, HasSubstr("arguments.yaml:4: flash_attn_implementation "
                                   "'kernels-community/vllm-flash-attn3': attention is this "
                                   "program's own"));
  EXPECT_THAT(taken.err,
              HasSubstr("arguments.yaml: no effect here: run_name (results and trackers name a run "
                        "by its key), main_process_port (the launcher, or --ranks, says which "
                        "ranks there are)"));
  write("pairs.json", R"([{"output": "a"}])");
  const std::string told =
      notes_of("tracker: aim\naim_repo: repo\nexperiment: mine\nreport_to: [wandb, none]\n");
  for (const char* finding :
       {"arguments.yaml:3: tracker 'aim' has no effect: --track aim-info=FILE",
        "arguments.yaml: no effect here: aim_repo (--track tensorboard=DIR writes what other "
        "trackers import), experiment (MLFLOW_EXPERIMENT_NAME names it, beside report_to: mlflow)",
        "arguments.yaml:6: report_to 'wandb' has no effect: --track tensorboard=DIR"}) {
    EXPECT_THAT(told, HasSubstr(finding));
  }
}

// The hub, trackers that are not there and the like, whatever they say, make one line.
TEST_F(ArgumentFilesTest, WhatChangesNothingMeasuredIsOneLine) {
  const std::string told = notes_of(
      "push_to_hub: true\nhub_model_id: a/b\nhub_strategy: checkpoint\nwandb_project: p\n"
      "dataloader_num_workers: 4\nwandb_name:\nsave_only_model: false\nddp_timeout: 1800\n"
      "tpu_env: []\nfsdp_config: {}\nhub_private_repo: null\n");
  EXPECT_THAT(told,
              HasSubstr("arguments.yaml: no effect here: push_to_hub, hub_model_id, hub_strategy "
                        "(nothing is uploaded), wandb_project (--track tensorboard=DIR writes what "
                        "other trackers import), dataloader_num_workers (entries are tokenized "
                        "before the first step)"));
  EXPECT_THAT(told, Not(HasSubstr("ddp_timeout"))) << "its default";
}

TEST_F(ArgumentFilesTest, SharesOfTheStepsAreTransformers) {
  const Json job = job_of(
      "warmup_steps: 0.1\neval_strategy: steps\neval_steps: 0.25\nsave_strategy: steps\n"
      "save_steps: 0.5\nlogging_strategy: steps\nlogging_steps: 0.125\noutput_dir: out\n"
      "validation_data_path: pairs.json\n");
  EXPECT_EQ(job["optimizer"]["warmup_ratio"], 0.1);
  EXPECT_EQ(job["evaluation"]["steps_ratio"], 0.25);
  EXPECT_EQ(job["save"]["steps_ratio"], 0.5);
  EXPECT_EQ(job["save"]["log_steps_ratio"], 0.125);
  EXPECT_EQ(job_of("warmup_steps: 5\n")["optimizer"]["warmup_steps"], 5);
  EXPECT_EQ(job_of("warmup_steps: 0\n")["optimizer"]["warmup_ratio"], 0.0);
  EXPECT_EQ(job_of("warmup_steps: 0\nwarmup_ratio: 0.2\n")["optimizer"]["warmup_ratio"], 0.2);
  EXPECT_THAT(refusal_of_file("save_steps: 1.5\n"),
              HasSubstr("save_steps: found 1.5; expected an integer of at least 1"));
}

TEST_F(ArgumentFilesTest, FsdpTwoSaysItsStrategyBySwitch) {
  const std::string ranks = "use_cpu: true\nnum_processes: 2\nper_device_train_batch_size: 1\n";
  const auto strategy = [&](const std::string& config) {
    return job_of(ranks + "distributed_type: FSDP\nfsdp_config: " + config +
                  "\n")["parallel"]["strategy"];
  };
  EXPECT_EQ(strategy("{fsdp_version: 2, fsdp_reshard_after_forward: true}"), "FULL_SHARD");
  EXPECT_EQ(strategy("{fsdp_version: 2, fsdp_reshard_after_forward: false}"), "SHARD_GRAD_OP");
  EXPECT_EQ(strategy("{reshard_after_forward: true, offload_params: false}"), "FULL_SHARD");
  EXPECT_EQ(strategy("{fsdp_reshard_after_forward: HYBRID_SHARD}"), "HYBRID_SHARD");
  EXPECT_EQ(strategy("{fsdp_sharding_strategy: 1, fsdp_reshard_after_forward: FULL_SHARD}"),
            "FULL_SHARD")
      << "1 is FULL_SHARD";
}

// --- text with line ends -------------------------------------------------------------------------

TEST_F(ArgumentFilesTest, ATemplateWithLineEndsIsTakenWhole) {
  const std::string text =
      "{%- for message in messages %}\n\t{{- '\\n\\\\n' + message.content }}\n{%- endfor %}\n";
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})");
  std::string block;
  for (const char c : text) block += c == '\n' ? std::string("\n    ") : std::string(1, c);
  write("arguments.yaml",
        "model_name_or_path: my-llama\ntraining_data_path: chats.jsonl\n"
        "chat_template: |\n    " +
            block.substr(0, block.size() - 4));
  EXPECT_EQ(job(files({"arguments.yaml"}))["data"]["chat_template"], text) << "in a file";
  const std::vector<std::string> own = {"--model", "my-llama", "--data", "chats.jsonl"};
  const auto with = [&own](std::vector<std::string> more) {
    more.insert(more.begin(), own.begin(), own.end());
    return more;
  };
  EXPECT_EQ(job(with({"--chat-template", text}))["data"]["chat_template"], text) << "as an option";
  EXPECT_EQ(job(with({"--conversation-column", "messages", "--set",
                      "chat_template=" + text}))["data"]["chat_template"],
            text)
      << "by --set";
  write("chat.json", "");
  EXPECT_EQ(own_job({"--template", "{{input}}\n{{output}}"})["data"]["entry_template"],
            "{{input}}\n{{output}}");
  EXPECT_EQ(own_job({"--text-field", "output", "--response-template",
                     "\n\nb\t"})["data"]["response_template"],
            "\n\nb\t");
}

TEST_F(ArgumentFilesTest, Mxfp4IsDecodedAndNotTrained) {
  const std::string told = notes_of("quantization_method: mxfp4\ndequantize: true\n");
  EXPECT_THAT(told, HasSubstr("quantization_method mxfp4 has no effect: the weights of model_name "
                              "my-llama are not in MXFP4"));
  for (const char* more : {"", "dequantize: false\n", "dequantize: 'False'\n"}) {
    EXPECT_THAT(refusal_of_file(std::string("quantization_method: mxfp4\n") + more),
                HasSubstr("arguments.yaml:1: quantization_method: weights in MXFP4 are not "
                          "trained; they are decoded as they are read; expected dequantize: true "
                          "beside it"));
  }
  EXPECT_THAT(refusal_of_file("quantization_method: eetq\n"),
              HasSubstr("quantization_method: found 'eetq', which has no equal here"));
  EXPECT_EQ(notes_of("quantization_method: null\n").find("mxfp4"), std::string::npos);
}

TEST_F(ArgumentFilesTest, AnMxfp4CheckpointIsWhatTheyAreFor) {
  write("arguments.yaml",
        "quantization_method: mxfp4\ndequantize: true\ntraining_data_path: pairs.json\n");
  fs::create_directory(folder_ / "gpt");
  fs::copy(std::string(SFTBENCH_TEST_DATA) + "/models/gpt_oss_mxfp4", folder_ / "gpt");
  const ProgramResult result = dry_run(
      {"arguments.yaml"}, {"--model", "gpt", "--tokenizer", "my-llama", "--weights", "random"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("quantization_method mxfp4 has no effect")));
}

// --- hostile files -------------------------------------------------------------------------------

// Each of them was compared with all known names: 20,000 took 4.4 s.
TEST_F(ArgumentFilesTest, ManyUnknownKeysAreRefusedAtOnce) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "unknown_argument_" + std::to_string(i) + ": 1\n";
  write("arguments.yaml", text);
  const ProgramResult result = program(files({"arguments.yaml"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("and 19900 more errors"));
  EXPECT_LT(result.wall_s, 30.0);  // a second where nothing else runs
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
