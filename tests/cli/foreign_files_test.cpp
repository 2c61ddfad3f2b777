// Argument files of programs that name sets, templates and tuning in their own way, and files of
// one kind in the place of another. All are our own, in the forms that the programs document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class ForeignFilesTest : public OwnTrainingTest {
 protected:
  ForeignFilesTest() {
    write("chats.jsonl",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
          "\"content\": \"b\"}]}\n");
  }
  ProgramResult with_file(const std::string& text, std::vector<std::string> more) const {
    write("arguments.yaml", text);
    more.insert(more.begin(), {"--arguments", "arguments.yaml", "--dry-run"});
    return program(more);
  }
  Json taken(const std::string& text, const std::vector<std::string>& more = {}) const {
    const ProgramResult result = with_file(text, more);
    if (result.status != 0) throw std::runtime_error(result.err);
    return Json::parse(result.out);
  }
  std::string refused(const std::string& text, const std::vector<std::string>& more = {}) const {
    const ProgramResult result = with_file(text, more);
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    return result.err;
  }
};

// --- the alignment handbook ----------------------------------------------------------------------

constexpr const char* kRecipe =
    "model_name_or_path: my-llama\nmodel_revision: main\ntorch_dtype: bfloat16\n"
    "attn_implementation: flash_attention_2\nbf16: true\ndo_eval: true\neval_strategy: epoch\n"
    "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n"
    "hub_model_id: somebody/model\npush_to_hub: true\nhub_strategy: every_save\nlog_level: info\n"
    "learning_rate: 2.0e-05\nmax_steps: -1\nnum_train_epochs: 1\nlr_scheduler_type: cosine\n"
    "overwrite_output_dir: true\noutput_dir: out\nsave_strategy: steps\nsave_steps: 100\n"
    "save_total_limit: 1\nwarmup_ratio: 0.1\nper_device_train_batch_size: 2\nseed: 42\n"
    "report_to:\n- tensorboard\n- wandb\ndataset_num_proc: 12\nremove_unused_columns: true\n";

TEST_F(ForeignFilesTest, ARecipeOfTheHandbookIsItsTraining) {
  const std::string sets =
      "dataset_mixture:\n  datasets:\n"
      "    - id: chats.jsonl\n      columns:\n        - messages\n      weight: 1.0\n"
      "    - id: chats.jsonl\n      columns: [messages]\n      weight: 1\n"
      "  test_split_size: 1\n  seed: 7\n";
  const Json job =
      taken(kRecipe + sets + "chat_template: |\n  {{ messages }}\n  {{ eos_token }}\n");
  EXPECT_EQ(job["data"]["mixture"]["sets"].size(), 2u);
  EXPECT_EQ(job["data"]["mixture"]["sets"][1]["conversation_field"], "messages");
  EXPECT_EQ(job["data"]["chat_template"], "{{ messages }}\n{{ eos_token }}\n");
  EXPECT_EQ(job["data"]["sampling_seed"], 7);
  EXPECT_EQ(job["evaluation"]["split"], 1.0) << "one entry of all sets";
  EXPECT_EQ(job["evaluation"]["strategy"], "epoch");
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 2);
  EXPECT_EQ(job["save"]["from_nothing"], true) << "overwrite_output_dir";
}

TEST_F(ForeignFilesTest, WhatOfAMixtureHasNoEqualGivesWayToData) {
  const std::string sets =
      "dataset_mixture:\n  datasets:\n    - id: a/b\n      split: train_sft\n      name: x\n";
  EXPECT_THAT(
      refused(kRecipe + sets),
      HasSubstr("dataset_mixture.datasets[0].name: has no equal here; expected --data FILE, "
                "which takes its place"));
  EXPECT_EQ(taken(kRecipe + sets,
                  {"--data", "chats.jsonl", "--chat-template", "{{ messages }}"})["data"]["path"],
            (folder_ / "chats.jsonl").string());
}

TEST_F(ForeignFilesTest, PreferencesAreRefusedInOneMessage) {
  EXPECT_THAT(refused(std::string(kRecipe) + "beta: 0.05\nloss_type: sigmoid\nuse_peft: true\n"
                                             "lora_target_parameters: [a]\n"),
              AllOf(HasSubstr("beta: has no equal here; expected supervised fine-tuning alone"),
                    HasSubstr("loss_type: found 'sigmoid', which has no equal here"),
                    HasSubstr("lora_target_parameters: has no equal here")));
}

// --- trl -----------------------------------------------------------------------------------------

TEST_F(ForeignFilesTest, TheUsualTextFieldSaysNothingOfConversations) {
  const Json job = taken("model_name_or_path: my-llama\ndataset_text_field: text\n",
                         {"--data", "chats.jsonl", "--chat-template", "{{ messages }}"});
  EXPECT_EQ(job["data"]["conversation_field"], "messages");
}

TEST_F(ForeignFilesTest, AFieldOfTextsBearsLossAsAWholeUnlessATemplateIsGiven) {
  write("texts.jsonl", "{\"text\": \"a b c\\n### Response: d\"}\n");
  const std::string file = "model_name_or_path: my-llama\ndataset_text_field: text\n";
  EXPECT_EQ(taken(file, {"--data", "texts.jsonl"})["data"]["response_template"], "");
  EXPECT_EQ(taken(file + "response_template: '### Response:'\n",
                  {"--data", "texts.jsonl"})["data"]["response_template"],
            "### Response:");
}

TEST_F(ForeignFilesTest, DtypeAutoIsTheModels) {
  const Json config = Json::parse(std::ifstream(folder_ / "my-llama" / "config.json"));
  const std::string own = config.value("dtype", config.value("torch_dtype", std::string()));
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(taken("model_name_or_path: my-llama\ntorch_dtype: auto\n",
                  {"--data", "pairs.json"})["precision"]["torch_dtype"],
            own);
}

TEST_F(ForeignFilesTest, ATokenIsTheTokenizersOrIsRefused) {
  EXPECT_THAT(refused("model_name_or_path: my-llama\ntraining_data_path: pairs.json\n"
                      "eos_token: <|other|>\n"),
              HasSubstr("arguments.yaml:3: eos_token: found '<|other|>', and the tokenizer has "));
}

// --- LLaMA-Factory -------------------------------------------------------------------------------

// trl's default is single quantization, LLaMA-Factory's double.
TEST_F(ForeignFilesTest, FourBitsAreThoseOfTheProgram) {
  const std::string model = "model_name_or_path: my-llama\n";
  const std::string trl = model + "use_peft: true\nload_in_4bit: true\n";
  const std::string factory = model + "finetuning_type: lora\nquantization_bit: 4\n";
  const auto twice = [&](const std::string& text) {
    const Json job = taken(text, {"--data", "pairs.json"});
    EXPECT_EQ(job["tuning"], "qlora") << text;
    return job["model"]["hf_config"]["quantization_config"]["bnb_4bit_use_double_quant"]
        .get<bool>();
  };
  EXPECT_FALSE(twice(trl + "bnb_4bit_quant_type: nf4\n"));
  EXPECT_FALSE(twice(trl + "use_bnb_nested_quant: false\n"));
  EXPECT_TRUE(twice(trl + "use_bnb_nested_quant: true\n"));
  EXPECT_TRUE(twice(factory));
  EXPECT_FALSE(twice(factory + "double_quantization: false\n"));
  EXPECT_THAT(refused(trl + "bnb_4bit_quant_type: fp4\n"),
              HasSubstr("bnb_4bit_quant_type: found 'fp4', which has no equal here; expected nf4"));
  const Json dense =
      taken(model + "use_peft: true\nuse_bnb_nested_quant: true\n", {"--data", "pairs.json"});
  EXPECT_EQ(dense["tuning"], "lora");
}

TEST_F(ForeignFilesTest, LlamaFactorysKeysAreTranslated) {
  const std::string file =
      "model_name_or_path: my-llama\ntrust_remote_code: true\nstage: sft\ndo_train: true\n"
      "finetuning_type: lora\nlora_rank: 4\nlora_target: all\ndataset: identity,other\n"
      "template: llama3\ncutoff_len: 64\nmax_samples: 1\npreprocessing_num_workers: 16\n"
      "overwrite_cache: true\nplot_loss: true\nval_size: 0.5\nflash_attn: fa2\nbf16: true\n"
      "ddp_timeout: 180000000\nresume_from_checkpoint: null\nreport_to: none\n"
      "quantization_method: bnb\npacking: false\n";
  const ProgramResult result = with_file(file, {"--data", "pairs.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json job = Json::parse(result.out);
  EXPECT_EQ(job["tuning"], "lora");
  EXPECT_EQ(job["lora"]["rank"], 4);
  EXPECT_EQ(job["lora"]["alpha"], 8) << "twice the rank, as there";
  EXPECT_EQ(job["lora"]["target_modules"], Json({"all-linear"}));
  EXPECT_EQ(job["data"]["model_max_length"], 64);
  EXPECT_EQ(job["data"]["most_entries"], 1);
  EXPECT_EQ(job["evaluation"]["split"], 0.5);
  EXPECT_THAT(result.err, HasSubstr("template 'llama3': conversations follow the tokenizer's own "
                                    "template, or --chat-template"));
  EXPECT_THAT(refused(file),
              HasSubstr("arguments.yaml:8: dataset: found 'identity,other', names of "
                        "LLaMA-Factory's dataset_info.json, and there is no "
                        "data/dataset_info.json; expected --data FILE, which takes its place"));
  EXPECT_THAT(
      refused(file + "use_galore: true\nquantization_bit: 3\nexport_dir: x\n",
              {"--data", "pairs.json"}),
      AllOf(HasSubstr("use_galore: found true, which has no equal here"),
            HasSubstr("quantization_bit: found 3, which has no equal here; expected 4 or 8"),
            HasSubstr("export_dir: has no equal here; expected `sftbench weights merge "
                      "ADAPTER -o DIR`")));
}

// --- axolotl -------------------------------------------------------------------------------------

TEST_F(ForeignFilesTest, AxolotlsKeysAreTranslated) {
  const Json job = taken(
      "base_model: my-llama\nmodel_type: LlamaForCausalLM\nload_in_8bit: false\n"
      "datasets:\n  - path: pairs.json\n    type: completion\n    field: output\n"
      "val_set_size: 1\nadapter: lora\nlora_r: 4\nlora_alpha: 8\nlora_target_linear: true\n"
      "lora_target_modules: [q_proj]\nsequence_len: 64\nsample_packing: true\n"
      "pad_to_sequence_len: true\nmicro_batch_size: 2\nnum_epochs: 2\noptimizer: adamw_torch\n"
      "lr_scheduler: cosine\nlearning_rate: 2e-4\nbf16: auto\ntf32: false\nwandb_project:\n"
      "gradient_checkpointing: true\nevals_per_epoch: 4\nsaves_per_epoch: 1\noutput_dir: out\n"
      "warmup_steps: 0.1\ngptq_groupsize:\nspecial_tokens:\n  pad_token: x\nstrict: false\n"
      "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_rope: true\n");
  EXPECT_EQ(job["tuning"], "lora");
  EXPECT_EQ(job["lora"]["target_modules"], Json({"all-linear"}));
  EXPECT_EQ(job["data"]["text_field"], "output");
  EXPECT_EQ(job["data"]["response_template"], "");
  EXPECT_EQ(job["data"]["padding"], "packed");
  EXPECT_EQ(job["precision"]["autocast"], "bf16");
  EXPECT_EQ(job["batches"]["per_device_batch_size"], 2);
  EXPECT_EQ(job["evaluation"]["split"], 1.0);
  EXPECT_EQ(job["evaluation"]["steps_ratio"], 0.125) << "4 in each of 2 epochs";
  EXPECT_EQ(job["save"]["steps_ratio"], 0.5);
  EXPECT_EQ(job["optimizer"]["warmup_ratio"], 0.1);
}

// What bears loss is what assistants say, and messages have the keys that they have.
TEST_F(ForeignFilesTest, AxolotlsOtherMasksAndKeysAreRefused) {
  const auto with = [](const std::string& key) {
    return "base_model: my-llama\nsequence_len: 64\ndatasets:\n  - path: chats.jsonl\n"
           "    type: chat_template\n    chat_template: x\n    " +
           key + "\n";
  };
  for (const char* key :
       {"roles_to_train: [user]", "roles_to_train: [user, assistant]", "roles_to_train: []",
        "train_on_eos: none", "train_on_eos: garbage", "roles: {assistant: [user]}", "roles: 5",
        "message_property_mappings: {role: speaker, content: text}", "message_property_mappings: 7",
        "message_field_content: text"}) {
    EXPECT_THAT(refused(with(key)),
                HasSubstr("datasets[0]." + std::string(key).substr(0, std::string(key).find(':'))))
        << key;
  }
  for (const char* key : {"roles_to_train: [assistant]", "train_on_eos: turn",
                          "roles: {assistant: [gpt, assistant], user: [human]}",
                          "message_property_mappings: {role: role, content: content}"}) {
    EXPECT_EQ(taken(with(key), {"--chat-template", "{{ messages }}"})["data"]["conversation_field"],
              "messages")
        << key;
  }
}

TEST_F(ForeignFilesTest, AxolotlsAlpacaIsTheForm) {
  write("alpaca.jsonl", "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n");
  write("axolotl.yaml",
        "base_model: my-llama\ndatasets:\n  - path: alpaca.jsonl\n    type: alpaca\n");
  EXPECT_EQ(job({"--arguments", "axolotl.yaml"})["data"]["entry_template"], "alpaca");
}

// Their file may be looked at before anything is downloaded.
// Recipes of the handbook train on shares of many sets, whose messages are somewhere else.
TEST_F(ForeignFilesTest, ASetsWeightIsHowMuchOfItIsTrainedOn) {
  const std::string mixture =
      "model_name_or_path: my-llama\nmax_length: 64\ndataset_mixture:\n  datasets:\n"
      "    - id: chats.jsonl\n      columns: [messages]\n      weight: ";
  const std::vector<std::string> chat = {"--chat-template", "{{ messages }}"};
  const Json job = taken(mixture + "0.5\n", chat);
  EXPECT_EQ(job["data"]["mixture"]["sets"][0]["trained"], 0.5);
  EXPECT_EQ(taken(mixture + "1.0\n", chat)["data"]["conversation_field"], "messages");
  for (const char* weight : {"1.5", "-1", "'many'"}) {
    EXPECT_THAT(refused(mixture + weight + "\n"),
                HasSubstr("datasets[0].weight: found " + std::string(weight) +
                          "; expected a share of the set's entries, above 0 and at most 1"));
  }
  const std::string old =
      "model_name_or_path: my-llama\nmax_length: 64\n"
      "dataset_mixer: {a/b: 1.0}\ndataset_splits: [train_sft]\n";
  EXPECT_THAT(refused(old), HasSubstr("dataset_mixer: has no equal here; expected dataset_mixture, "
                                      "or --data FILE, which takes its place"));
  EXPECT_EQ(taken(old, {"--data", "chats.jsonl", "--chat-template",
                        "{{ messages }}"})["data"]["conversation_field"],
            "messages");
}

TEST_F(ForeignFilesTest, AChatTemplateTellsAPredictionOfConversations) {
  write("trl.yaml",
        "model_name_or_path: smollm2-135m\nmodel_revision: it\ndataset_name: a/b\n"
        "max_length: 64\nchat_template: \"{{ messages }}\"\nuse_peft: false\n");
  const ProgramResult predicted =
      program({"--arguments", "trl.yaml", "--flops-per-s", "1e12"}, "predict");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_THAT(predicted.err,
              HasSubstr("model_revision has no effect: a prediction reads no weights"));
  EXPECT_THAT(refusal({"--arguments", "trl.yaml"}),
              HasSubstr("model_revision: found 'it', which has no equal here"));
}

TEST_F(ForeignFilesTest, DataOfTheHubNeedNotBeHereForAPrediction) {
  write("axolotl.yaml", "base_model: my-llama\ndatasets:\n  - path: a/b\n    type: alpaca\n");
  const std::vector<std::string> words = {"--arguments", "axolotl.yaml", "--flops-per-s", "1e12"};
  const ProgramResult predicted = program(words, "predict");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("tokens, all of them full (--lengths-of FILE)"));
  EXPECT_THAT(refusal({"--arguments", "axolotl.yaml"}),
              HasSubstr("datasets[0].path: a/b is no file or folder, and no dataset of the hub"));
}

TEST_F(ForeignFilesTest, APredictionNeedsNoChatTemplate) {
  for (const char* place : {"a/b", "chats.jsonl"}) {
    write("axolotl.yaml", "base_model: smollm2-135m\nchat_template: chatml\ndatasets:\n  - path: " +
                              std::string(place) + "\n    type: chat_template\n");
    const ProgramResult predicted =
        program({"--arguments", "axolotl.yaml", "--flops-per-s", "1e12"}, "predict");
    EXPECT_EQ(predicted.status, 0) << predicted.err;
    EXPECT_THAT(predicted.out, HasSubstr("tokens, all of them full (--lengths-of FILE)"));
    EXPECT_THAT(predicted.err, HasSubstr("--chat-template FILE gives one; rows are taken as full"));
  }
}

TEST_F(ForeignFilesTest, ASliceOfASplitIsTrainedOnAlone) {
  const std::string axolotl =
      "base_model: my-llama\nsequence_len: 64\ndatasets:\n  - path: chats.jsonl\n"
      "    type: chat_template\n    split: train";
  const Json job = taken(axolotl + "[:1]\n", {"--chat-template", "{{ messages }}"});
  EXPECT_THAT(job["data"]["path"], EndsWith("/chats.jsonl::train[:1]"));
  EXPECT_THAT(refused(axolotl + "[half]\n"), HasSubstr("'[half]' is no slice of entries"));
}

TEST_F(ForeignFilesTest, AxolotlsOtherSetsGiveWayToData) {
  const std::string file =
      "base_model: my-llama\ndatasets:\n  - path: a/b\n    type: oasst\n"
      "adapter: llama-adapter\n";
  const std::string told = refused(file);
  EXPECT_THAT(told, AllOf(HasSubstr("datasets[0].type: found 'oasst', which has no equal here; "
                                    "expected chat_template, completion or alpaca, or --data"),
                          HasSubstr("adapter: found 'llama-adapter', which has no equal here; "
                                    "expected lora or qlora")));
  EXPECT_THAT(refused(file, {"--data", "pairs.json"}), Not(HasSubstr("datasets")));
}

// Answers that it generates, tables of them, and what it logs by.
TEST_F(ForeignFilesTest, WhatEvaluationsGenerateChangesNothing) {
  const ProgramResult result = with_file(
      "base_model: my-llama\nsequence_len: 64\neval_max_new_tokens: 128\neval_table_size: 5\n"
      "do_causal_lm_eval: true\ngenerate_samples: true\ngeneration_max_new_tokens: 50\n"
      "include_tkps: true\nuse_trackio: false\nis_qwen_derived_model: true\n",
      {"--data", "pairs.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("no effect here: eval_max_new_tokens, eval_table_size, do_causal_lm_eval, "
                        "generate_samples, generation_max_new_tokens (evaluations measure the loss "
                        "alone, and generate nothing), include_tkps ("));
  EXPECT_THAT(with_file("model_name_or_path: my-llama\nfinetuning_type: full\ncutoff_len: 64\n"
                        "max_new_tokens: 512\ntop_p: 0.7\ndo_sample: true\nenable_thinking: true\n",
                        {"--data", "pairs.json"})
                  .err,
              HasSubstr("no effect here: max_new_tokens, top_p, do_sample (evaluations"));
}

// --- what has no equal, and what was meant -------------------------------------------------------

TEST_F(ForeignFilesTest, HintsAreWhatWasMeant) {
  const std::string told = refused(
      "model_name_or_path: my-llama\nfinetuning_type: lora\nlr: 1e-4\nepochs: 2\nrslora: true\n"
      "loraplus_lr_ratio: 16\nrope_scaling: linear\nenable_thinking: false\ngalore_rank: 8\n"
      "seq_len: 64\nembedding_lr: 1e-5\nmodel_config: {output_router_logits: true}\n",
      {"--data", "pairs.json"});
  for (const char* finding :
       {"lr: has no equal here; did you mean 'learning_rate'?",
        "epochs: has no equal here; did you mean 'num_train_epochs'?",
        "rslora: has no equal here; did you mean 'use_rslora'?",
        "loraplus_lr_ratio: has no equal here; expected one learning_rate for all that is trained",
        "rope_scaling: has no equal here; expected --model DIR, whose config.json has it",
        "enable_thinking: found false, which has no equal here; expected --chat-template FILE, "
        "which says it, or true",
        "galore_rank: has no equal here; expected full or LoRA tuning",
        "seq_len: has no equal here; did you mean 'max_length'?",
        "embedding_lr: has no equal here; expected one learning_rate",
        "model_config: has no equal here; expected --model DIR"}) {
    EXPECT_THAT(told, HasSubstr(finding));
  }
}

TEST_F(ForeignFilesTest, ARecipeOfTorchtuneIsNamed) {
  EXPECT_THAT(refused("model:\n  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n"
                      "  lora_rank: 8\noptimizer:\n  _component_: torch.optim.AdamW\n  lr: 3e-4\n"),
              HasSubstr("--arguments: arguments.yaml is a torchtune recipe; expected arguments of "
                        "trl, axolotl or LLaMA-Factory, or options (--model, --data, "
                        "--learning-rate), with --stack torchtune of `sftbench predict`"));
}

TEST_F(ForeignFilesTest, StatesOfTorchaoAreAsLargeAsThoseOfBitsandbytes) {
  const std::vector<std::string> data = {"--data", "pairs.json"};
  for (const char* text : {"base_model: my-llama\nsequence_len: 64\noptimizer: adamw_torch_8bit\n",
                           "model_name_or_path: my-llama\noptim: adamw_torch_8bit\n"})
    EXPECT_EQ(taken(text, data)["optimizer"]["name"], "adamw_bnb_8bit");
}

// By FSDP or by the model, whichever says so.
TEST_F(ForeignFilesTest, LayersAreCheckpointedWhereEitherSaysSo) {
  const auto checkpoints = [this](const std::string& text) {
    return taken("model_name_or_path: my-llama\n" + text,
                 {"--data", "pairs.json"})["activations"]["gradient_checkpointing"];
  };
  const std::string fsdp = "fsdp_config: {activation_checkpointing: ";
  EXPECT_EQ(checkpoints("gradient_checkpointing: false\n" + fsdp + "true}\n"), true);
  EXPECT_EQ(checkpoints("gradient_checkpointing: true\n" + fsdp + "false}\n"), true);
  EXPECT_EQ(checkpoints(fsdp + "false}\n"), false);
}

TEST_F(ForeignFilesTest, PackedRowsMayBeSaidToHaveNoPadding) {
  for (const char* both :
       {"packing: true\npadding_free: true\n", "padding_free: true\npacking: true\n"}) {
    const Json job = taken(std::string("model_name_or_path: my-llama\nmax_length: 64\n"
                                       "dataset_text_field: output\n") +
                               both,
                           {"--data", "pairs.json"});
    EXPECT_EQ(job["data"]["padding"], "packed") << both;
  }
}

TEST_F(ForeignFilesTest, BatchFlatteningIsFreeOfPadding) {
  EXPECT_EQ(taken("base_model: my-llama\nsequence_len: 64\nbatch_flattening: true\n",
                  {"--data", "pairs.json"})["data"]["padding"],
            "none");
}

// --- fms-hf-tuning -------------------------------------------------------------------------------

constexpr const char* kMasking =
    "      - name: tokenize_and_apply_input_masking\n        arguments:\n"
    "          fn_kwargs: {input_column_name: question, output_column_name: answer}\n";

TEST_F(ForeignFilesTest, RenamedColumnsGoByTheirNamesInTheData) {
  const std::string renamed =
      "model_name_or_path: my-llama\ndatasets:\n  - data_paths: [pairs.json]\n"
      "    data_handlers:\n      - name: rename_columns\n        arguments:\n"
      "          column_mapping: {input: question, output: answer}\n"
      "      - name: select_columns\n        arguments: {column_names: [question, answer]}\n";
  const Json masked = taken(renamed + kMasking);
  EXPECT_EQ(masked["data"]["input_field"], "input");
  EXPECT_EQ(masked["data"]["output_field"], "output");
  const Json formatted =
      taken(renamed +
            "      - name: apply_custom_jinja_template\n        arguments:\n          fn_kwargs:\n"
            "            formatted_text_column_name: text\n            template: |\n"
            "              Q: {{ element['question'] }}\n              A: {{answer}}\n"
            "      - name: tokenize\n        arguments: {fn_kwargs: {text_column_name: text}}\n"
            "      - name: duplicate_columns\n        arguments:\n"
            "          fn_kwargs: {existing_column_name: input_ids, new_column_name: labels}\n");
  EXPECT_EQ(formatted["data"]["entry_template"], "Q: {{input}}\nA: {{output}}\n");
  EXPECT_EQ(formatted["data"]["response_template"], "");
  EXPECT_THAT(refused(renamed + "      - name: apply_custom_jinja_template\n        arguments:\n"
                                "          fn_kwargs: {template: '{% if a %}{{a}}{% endif %}'}\n"),
              HasSubstr("template: has statements of Jinja, which have no equal here"));
}

TEST_F(ForeignFilesTest, TwoPathsAreOneBehindTheOther) {
  write("more.json", R"([{"input": "e", "output": "f"}])");
  const Json job = taken(
      "model_name_or_path: my-llama\ndatasets:\n  - data_paths: [pairs.json, more.json]\n"
      "    rename_columns: {input: question, output: answer}\n    data_handlers:\n" +
      std::string(kMasking));
  EXPECT_EQ(job["data"]["mixture"]["sets"].size(), 2u);
  EXPECT_EQ(job["data"]["mixture"]["sets"][1]["path"], (folder_ / "more.json").string());
  EXPECT_EQ(job["data"]["mixture"]["sets"][1]["input_field"], "input");
}

TEST_F(ForeignFilesTest, SharesThatAddUpToLessLeaveEntriesOut) {
  const std::string sets =
      "model_name_or_path: my-llama\ndatasets:\n"
      "  - data_paths: [pairs.json]\n    split: {train: 0.5, validation: 0.25}\n    sampling: 1.0\n"
      "  - data_paths: [pairs.json]\n    split: {validation: 0.5}\n";
  const Json mixture = taken(sets)["data"]["mixture"]["sets"];
  EXPECT_EQ(mixture[0]["trained"], 0.5);
  EXPECT_EQ(mixture[0]["held_out"], 0.25);
  EXPECT_EQ(mixture[1]["trained"], 0.0);
  EXPECT_EQ(mixture[1]["held_out"], 0.5);
  const ProgramResult run = program({"--arguments", "arguments.yaml", "--set", "max_steps=1"});
  EXPECT_EQ(run.status, 0) << run.err << run.out;
}

TEST_F(ForeignFilesTest, AnEncodedTemplateIsTheText) {
  const std::string sets =
      "model_name_or_path: my-llama\ndatasets:\n  - data_paths: [chats.jsonl]\n    data_handlers:\n"
      "      - name: apply_tokenizer_chat_template\n        arguments:\n"
      "          fn_kwargs: {formatted_text_column_name: text}\n";
  const ProgramResult result =
      with_file(sets + "dataprocessor: {chat_template_base64: e3sgbWVzc2FnZXMgfX0K}\n", {});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["data"]["chat_template"], "{{ messages }}\n");
  EXPECT_THAT(result.err,
              HasSubstr("apply_tokenizer_chat_template: what assistants say bears loss"));
  EXPECT_THAT(refused(sets + "dataprocessor: {chat_template_base64: e3s, type: odm}\n"),
              AllOf(HasSubstr("chat_template_base64: is no base64"),
                    HasSubstr("dataprocessor.type: found 'odm'; expected default")));
}

// --- numbers of entries --------------------------------------------------------------------------

TEST_F(ForeignFilesTest, NumbersOfEntriesReachTheJob) {
  const Json job =
      own_job({"--text-field", "output", "--eval-split", "1", "--set", "max_train_samples=2",
               "--set", "eval_steps_ratio=0.5", "--eval-strategy", "steps"});
  EXPECT_EQ(job["evaluation"]["split"], 1.0);
  EXPECT_EQ(job["evaluation"]["steps_ratio"], 0.5);
  EXPECT_EQ(job["data"]["most_entries"], 2);
  EXPECT_EQ(job["inputs"]["max_train_samples"], 2) << "part of the key";
  EXPECT_THAT(refusal({"--model", "my-llama", "--data", "pairs.json", "--eval-split", "1.5"}),
              HasSubstr("--eval-split: 1.5 is neither a share nor a number of entries"));
}

// --- a file of one kind in the place of another --------------------------------------------------

TEST_F(ForeignFilesTest, AFileOfAnotherKindIsNamedForWhatItIs) {
  write("arguments.yaml", "learning_rate: 1e-4\nnum_train_epochs: 1\n");
  write("ds.json", R"({"zero_optimization": {"stage": 2}})");
  write("space.yaml", "entitySpace: []\nexperiments: []\n");
  write("actuator.yaml", "actuatorIdentifier: SFTTrainer\nparameters: {}\n");
  const std::string job = own_job().dump();
  write("job.json", job);
  fs::create_directory(folder_ / "adapter");
  write("adapter/adapter_config.json",
        R"({"peft_type": "LORA", "base_model_name_or_path": "my-llama"})");
  const std::vector<std::string> own = {"--model", "my-llama", "--data", "pairs.json"};
  const auto told = [&](std::vector<std::string> words) { return refusal(std::move(words)); };
  EXPECT_THAT(told({"arguments.yaml"}),
              HasSubstr("SPACE: arguments.yaml is a file of training arguments; expected "
                        "--arguments FILE"));
  EXPECT_THAT(told({"ds.json"}),
              HasSubstr("SPACE: ds.json is a DeepSpeed configuration; expected --deepspeed FILE"));
  EXPECT_THAT(told({"--arguments", "space.yaml"}),
              HasSubstr("--arguments: space.yaml is a discovery space; expected it as SPACE"));
  EXPECT_THAT(told({"--arguments", "ds.json"}), HasSubstr("expected --deepspeed FILE"));
  EXPECT_THAT(told({"--arguments", "job.json"}), HasSubstr("expected --job FILE"));
  EXPECT_THAT(told({"--arguments", "my-llama/config.json"}),
              HasSubstr("is the config.json of a model; expected --model with its folder"));
  EXPECT_THAT(told({"--deepspeed", "arguments.yaml", own[0], own[1], own[2], own[3]}),
              HasSubstr("--deepspeed: arguments.yaml is a file of training arguments"));
  EXPECT_THAT(told({"--job", "arguments.yaml"}), HasSubstr("--job: arguments.yaml is a file of "));
  EXPECT_THAT(told({"--config", "arguments.yaml", own[0], own[1], own[2], own[3]}),
              HasSubstr("--config: arguments.yaml is a file of training arguments"));
  EXPECT_THAT(told({"actuator.yaml"}), HasSubstr("expected --config FILE"));
  EXPECT_THAT(told({"chats.jsonl"}),
              HasSubstr("SPACE: chats.jsonl holds entries to train on; expected --data FILE"));
  EXPECT_THAT(told({"--arguments", "chats.jsonl"}), HasSubstr("expected --data FILE"));
  EXPECT_THAT(told({"--model", "my-llama/model.safetensors", "--data", "pairs.json"}),
              HasSubstr("my-llama/model.safetensors is a file; expected the folder of a model"));
  EXPECT_THAT(told({"--model", "my-llama", "--data", "ds.json"}),
              HasSubstr("--data: ds.json is a DeepSpeed configuration"));
  EXPECT_THAT(told({"--model", "adapter", "--data", "pairs.json"}),
              HasSubstr("--model: adapter is the folder of an adapter; expected the model that it "
                        "adapts, or what `sftbench weights merge adapter -o DIR` makes of both"));
  EXPECT_THAT(told({"--model", "my-llama/config.json", "--data", "pairs.json"}),
              HasSubstr("expected --model with its folder"));
  EXPECT_THAT(told({"--model", "my-llama", "--data", "chats.jsonl", "--chat-template",
                    "my-llama/tokenizer_config.json"}),
              HasSubstr("expected --tokenizer with its folder"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
