#include "translate/export_table.h"

namespace sftbench {

// Versions that the keys were checked with: tests/reference/exports.py.
const std::vector<ExportProgram>& all_export_programs() {
  static const std::vector<ExportProgram> kPrograms = {
      {.name = "fms-hf-tuning",
       .file = "arguments.json",
       .keys = "model_name_or_path tokenizer_name_or_path torch_dtype use_flash_attn "
               "training_data_path dataset_text_field response_template data_formatter_template "
               "dataset_conversation_field chat_template validation_data_path eval_strategy "
               "eval_steps per_device_eval_batch_size eval_on_start max_seq_length packing "
               "padding_free "
               "num_train_epochs max_steps per_device_train_batch_size gradient_accumulation_steps "
               "learning_rate weight_decay warmup_ratio warmup_steps lr_scheduler_type "
               "lr_scheduler_kwargs adam_beta1 adam_beta2 adam_epsilon max_grad_norm optim seed "
               "gradient_checkpointing gradient_checkpointing_kwargs bf16 fp16 tf32 peft_method r "
               "lora_alpha lora_dropout target_modules alora_invocation_string num_virtual_tokens "
               "prompt_tuning_init prompt_tuning_init_text fast_kernels fast_moe",
       .always = R"({"output_dir": "out", "save_model_dir": "out/model", "save_strategy": "no",
                     "logging_strategy": "steps", "logging_steps": 1,
                     "include_tokens_per_second": true})",
       .nf4 = R"({"bnb_qlora": ["nf4", "True"]})",
       .nf4_once = "",
       .int8 = "",
       .gptq = R"({"auto_gptq": ["triton_v2"], "fused_lora": ["auto_gptq", "True"]})",
       .command = "-m tuning.sft_trainer"},
      {.name = "trl",
       .file = "trl.yaml",
       .keys =
           "model_name_or_path dtype attn_implementation dataset_text_field "
           "test_split_size eval_strategy eval_steps per_device_eval_batch_size eval_on_start "
           "max_length packing padding_free num_train_epochs max_steps per_device_train_batch_size "
           "gradient_accumulation_steps learning_rate weight_decay warmup_steps "
           "lr_scheduler_type lr_scheduler_kwargs adam_beta1 adam_beta2 adam_epsilon "
           "max_grad_norm optim seed gradient_checkpointing gradient_checkpointing_kwargs bf16 "
           "fp16 tf32 use_peft lora_r lora_alpha lora_dropout use_rslora use_dora "
           "lora_target_modules lora_modules_to_save "
           "use_liger_kernel activation_offloading",
       .always = R"({"output_dir": "out", "save_strategy": "no", "logging_steps": 1,
                     "report_to": "none"})",
       .nf4 = R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                  "use_bnb_nested_quant": true})",
       .nf4_once = R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})",
       .int8 = R"({"load_in_8bit": true})",
       .gptq = "{}",
       .command = "-m trl.scripts.sft --config trl.yaml"},
      {.name = "axolotl",
       .file = "axolotl.yaml",
       .keys = "base_model tokenizer_config attn_implementation val_set_size eval_strategy "
               "eval_steps eval_batch_size sequence_len sample_packing pad_to_sequence_len "
               "num_epochs max_steps micro_batch_size gradient_accumulation_steps learning_rate "
               "weight_decay warmup_ratio warmup_steps lr_scheduler lr_scheduler_kwargs adam_beta1 "
               "adam_beta2 adam_epsilon max_grad_norm optimizer seed gradient_checkpointing "
               "gradient_checkpointing_kwargs bf16 fp16 tf32 adapter lora_r lora_alpha "
               "lora_dropout peft_use_rslora peft_use_dora lora_target_linear lora_target_modules "
               "lora_modules_to_save "
               "plugins "
               "activation_offloading "
               "context_parallel_size",
       .always = R"({"output_dir": "out", "dataset_prepared_path": "prepared",
                     "excess_length_strategy": "truncate", "save_strategy": "no",
                     "logging_steps": 1, "lora_mlp_kernel": false, "lora_qkv_kernel": false,
                     "lora_o_kernel": false, "lora_embedding_kernel": false})",
       .nf4 = R"({"adapter": "qlora", "load_in_4bit": true})",
       .nf4_once = "",
       .int8 = R"({"load_in_8bit": true})",
       .gptq = R"({"gptq": true})",
       .command = "-m axolotl.cli.train axolotl.yaml",
       .fsdp2 = true},
      {.name = "llamafactory",
       .file = "llamafactory.yaml",
       .keys = "model_name_or_path flash_attn val_size eval_strategy eval_steps "
               "per_device_eval_batch_size eval_on_start cutoff_len max_samples neat_packing "
               "num_train_epochs "
               "max_steps per_device_train_batch_size gradient_accumulation_steps learning_rate "
               "weight_decay warmup_ratio warmup_steps lr_scheduler_type lr_scheduler_kwargs "
               "adam_beta1 adam_beta2 adam_epsilon max_grad_norm optim seed "
               "disable_gradient_checkpointing use_reentrant_gc bf16 fp16 tf32 finetuning_type "
               "lora_rank lora_alpha lora_dropout use_rslora use_dora lora_target "
               "additional_target enable_liger_kernel",
       .always = R"({"do_train": true, "output_dir": "out", "save_strategy": "no",
                     "logging_steps": 1, "report_to": "none"})",
       .nf4 = R"({"quantization_bit": 4, "quantization_method": "bnb",
                  "double_quantization": true})",
       .nf4_once = R"({"quantization_bit": 4, "quantization_method": "bnb",
                       "double_quantization": false})",
       .int8 = R"({"quantization_bit": 8, "quantization_method": "bnb"})",
       .gptq = "{}",
       .command = "-m llamafactory.launcher llamafactory.yaml"}};
  return kPrograms;
}

const ExportProgram* find_export_program(const std::string& name) {
  for (const ExportProgram& program : all_export_programs()) {
    if (program.name == name) return &program;
  }
  return nullptr;
}

}  // namespace sftbench
