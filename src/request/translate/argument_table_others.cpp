#include "translate/argument_reasons.h"
#include "translate/argument_table.h"

namespace sftbench {
namespace {

using enum ArgumentUse;

constexpr const char* kConfigSaysIt = "the model's config.json and tokenizer say it";
constexpr const char* kOwnKernels = "kernels are this program's own (fast_kernels)";
constexpr const char* kFullOrLora = "full or LoRA tuning";
constexpr const char* kNoAnswers = "evaluations measure the loss alone, and generate nothing";
constexpr const char* kOneRate = "one learning_rate for all that is trained";
constexpr const char* kMerge = "`sftbench weights merge ADAPTER -o DIR`";
constexpr const char* kTextOnly = "texts, or --set dataset_image_field over a vision model";
constexpr const char* kNoMegatron = "fsdp_config, and parallelism_config_cp_size for long rows";

}  // namespace

const std::vector<ArgumentRow>& other_arguments() {
  static const std::vector<ArgumentRow> kRows = {
      // --- LLMForge
      {"context_length", kProperty, "model_max_length"},
      {"num_epochs", kProperty, "num_train_epochs"},
      {"train_path", kProperty, "training_data_path"},
      {"valid_path", kProperty, "validation_data_path"},
      {"eval_batch_size_per_device eval_batch_size", kProperty, "per_device_eval_batch_size"},
      {"train_batch_size_per_device micro_batch_size", kRead, "batch_size"},
      {"no_gradient_checkpoint disable_gradient_checkpointing", kChoice, "gradient_checkpointing"},
      {"mcp", kProperty, "context_parallel"},
      {"num_checkpoints_to_keep", kRead, "save_total_limit"},
      {"worker_resources trainer_resources", kRead},

      // --- LLaMA-Factory
      {"stage", kRead, "", "sft"},
      {"finetuning_type", kChoice, "tuning"},
      {"cutoff_len", kProperty, "model_max_length"},
      {"dataset", kRead, "training_data_path"},
      {"eval_dataset", kFixed, "--eval-data FILE"},
      {"val_size val_set_size test_split_size", kRead, "eval_split", "0"},
      {"max_samples", kProperty, "max_train_samples"},
      {"template", kRead, "chat_template"},
      {"dataset_dir media_dir", kRead},
      {"flash_attn", kRead, "flash_attn", "auto"},
      {"lora_rank", kRead, "r"},
      {"pure_bf16", kChoice, "", "false"},
      {"use_reentrant_gc", kProperty, "gradient_checkpointing_use_reentrant"},
      {"enable_liger_kernel", kRead, "fast_kernels", "false"},
      {"neat_packing", kChoice, "", "false"},
      {"train_on_prompt mask_history train_on_inputs", kFixed, "response_template: None", "false"},
      {"preprocessing_num_workers preprocessing_batch_size overwrite_cache tokenized_path "
       "buffer_size data_shared_file_system disable_shuffling ignore_pad_token_for_loss",
       kIdle, kOwnReading, "false|true"},
      {"plot_loss include_effective_tokens_per_second", kIdle,
       "`sftbench report --html` has the curves", "false"},
      {"do_sample temperature top_p top_k num_beams max_new_tokens repetition_penalty "
       "length_penalty "
       "skip_special_tokens eval_num_beams compute_accuracy eval_on_each_dataset "
       "eval_max_new_tokens eval_table_max_new_tokens eval_table_size do_causal_lm_eval "
       "eval_causal_lm_metrics do_bench_eval bench_dataset bench_split generate_samples "
       "num_generation_samples generation_max_new_tokens generation_temperature generation_top_p "
       "generation_top_k generation_prompt_ratio generation_do_sample",
       kIdle, kNoAnswers, "false"},
      {"enable_thinking preserve_thinking tool_format default_system default_system_message "
       "chat_template_kwargs",
       kFixed, "--chat-template FILE, which says it", "true"},
      {"mix_strategy", kFixed, "", "concat"},
      {"moe_aux_loss_coef", kFixed, "", "0"},
      {"early_stopping_steps early_stopping_patience", kFixed, "--stop-at-precision"},
      {"use_kv_cache", kIdle, "training keeps no cache", "false|true"},
      {"quantization_device_map", kFixed, "", "auto"},
      {"quantization_bit", kChoice, "quantized_tuning"},
      {"double_quantization", kProperty, "bnb_4bit_use_double_quant"},
      {"quantization_type", kFixed, "", "nf4"},
      {"adapter_name_or_path create_new_adapter lora_model_dir", kFixed, kMerge, "false"},
      {"export_dir export_size export_device export_legacy_format export_quantization_bit "
       "export_quantization_dataset export_hub_model_id",
       kFixed, kMerge},
      {"additional_target", kProperty, "modules_to_save"},
      {"use_unsloth", kChoice, "", "false"},
      {"resize_vocab use_unsloth_gc use_llama_pro use_galore use_apollo use_badam "
       "use_adam_mini use_muon use_dft_loss use_asft_loss use_eaft_loss use_kt "
       "shift_attn use_eaft fp8 fp8_enable_fsdp_float8_all_gather pissa_init pissa_convert "
       "predict_with_generate packing_attention upcast_layernorm upcast_lmhead_output",
       kFixed, "", "false"},
      {"loraplus_lr_ratio loraplus_lr_embedding embedding_lr embedding_lr_scale lr_groups", kFixed,
       kOneRate},
      {"rope_scaling rope_theta model_config overrides_of_model_config overrides_of_model_kwargs",
       kFixed, "--model DIR, whose config.json has it"},
      {"mixture_of_depths galore_target galore_rank galore_update_interval galore_scale "
       "galore_proj_type galore_layerwise apollo_target apollo_rank apollo_update_interval "
       "apollo_scale apollo_proj apollo_proj_type apollo_scale_type apollo_layerwise "
       "apollo_scale_front badam_mode badam_start_block badam_switch_mode badam_switch_interval "
       "badam_update_ratio badam_mask_mode badam_verbose module_dropout kt_config kt_weight_path "
       "kt_cpu_activation fp8_backend asft_alpha "
       "eaft_alpha eaft_k freeze_trainable_layers freeze_trainable_modules freeze_extra_modules "
       "oft_target oft_block_size oft_rank pissa_iter reward_model ref_model",
       kFixed, kFullOrLora},
      {"pref_beta pref_loss pref_ftx rl rl_beta dpo_beta orpo_alpha kto_desirable_weight "
       "kto_undesirable_weight reward_model_type process_reward_model num_labels "
       "center_rewards_coefficient ebft trl vllm diffusion",
       kFixed, kSupervisedOnly},
      {"image_max_pixels image_min_pixels video_max_pixels video_min_pixels video_fps "
       "video_maxlen freeze_mm_modules freeze_vision_tower freeze_multi_modal_projector "
       "freeze_language_model",
       kFixed, kTextOnly, "false"},
      {"infer_backend infer_dtype", kFixed, "transformers over the saved folder", "auto"},
      {"tensor_model_parallel_size pipeline_model_parallel_size expert_model_parallel_size "
       "sequence_parallel use_distributed_optimizer overlap_param_gather overlap_grad_reduce "
       "bias_activation_fusion apply_rope_fusion recompute_granularity moe_grouped_gemm "
       "moe_token_dispatcher_type use_packed_sequences export_hf_on_finish",
       kFixed, kNoMegatron, "1|false"},
      {"ray_num_workers ray_run_name ray_storage_path use_ray placement_strategy "
       "resources_per_worker "
       "ray_init_kwargs master_addr master_port ddp device world_size",
       kIdle, kOwnRanks, "false"},
      {"hf_hub_token ms_hub_token om_hub_token print_param_status offload_folder", kIdle,
       "this program reads and logs in its own way", "false|offload"},

      // --- axolotl
      {"sequence_len", kProperty, "model_max_length"},
      {"optimizer", kRead, "optim"},
      {"lr_scheduler", kProperty, "lr_scheduler_type"},
      {"adam_eps", kProperty, "adam_epsilon"},
      {"adapter", kChoice, "tuning"},
      {"lora_target_linear", kRead, "target_modules", "false"},
      {"peft_use_rslora", kProperty, "use_rslora"},
      {"peft_use_dora", kProperty, "use_dora"},
      {"lora_rank_pattern", kProperty, "rank_pattern"},
      {"lora_alpha_pattern", kProperty, "alpha_pattern"},
      {"peft_init_lora_weights", kFixed, "", "true"},
      {"lora_fan_in_fan_out lora_on_cpu", kFixed, "", "false"},
      {"peft peft_layers_to_transform relora relora_prune_ratio relora_cpu_offload "
       "jagged_restart_steps jagged_restart_warmup_steps jagged_restart_anneal_steps lisa_n_layers "
       "lisa_step_interval lisa_layers_attribute unfrozen_parameters qat reinit_weights",
       kFixed, kFullOrLora},
      {"sample_packing batch_flattening", kChoice, "", "false"},
      {"cosine_min_lr_ratio cosine_constant_lr_ratio lr_quadratic_warmup eta_min", kFixed,
       "lr_scheduler: cosine_with_min_lr with lr_scheduler_kwargs: {min_lr_rate: X}"},
      {"fix_untrained_tokens embeddings_skip_upcast sage_attention", kFixed, "", "false"},
      {"gc_steps gc_collect_steps", kIdle, "memory is not given back between steps"},
      {"fsdp_final_state_dict_type save_first_step", kIdle,
       "checkpoints have this program's own form", "false"},
      {"pad_to_sequence_len", kRead, "", "false"},
      {"eval_sample_packing sample_packing_eff_est sample_packing_seq_len_multiplier "
       "sample_packing_sequentially sample_packing_group_size sample_packing_bin_size "
       "total_num_tokens pretrain_multipack_attn multipack_real_batches",
       kIdle, "entries are packed by their lengths, and evaluations are padded", "true|false"},
      {"evals_per_epoch saves_per_epoch", kRead, "", "0"},
      {"max_packed_sequence_len", kFixed, "sequence_len"},
      {"test_datasets", kFixed, "--eval-data FILE"},
      {"pretraining_dataset", kFixed, "datasets"},
      {"special_tokens.bos_token special_tokens.eos_token special_tokens.unk_token "
       "tokens.bos_token "
       "tokens.eos_token tokens.unk_token",
       kRead},
      {"tokens.pad_token", kIdle, "what pads bears no loss"},
      {"added_tokens_overrides new_tokens", kFixed, "--tokenizer DIR, whose tokenizer has them"},
      {"resize_token_embeddings_to_32x", kFixed, "", "false"},
      {"eot_tokens roles_to_train train_on_eos", kIdle,
       "of conversations, what a template writes of an assistant bears loss"},
      {"eager_attention flash_attention sdp_attention xformers_attention flex_attention", kChoice,
       "flash_attn", "false"},
      {"flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_qkv flash_attn_fuse_mlp "
       "flash_optimum flex_attn_compile_kwargs lora_mlp_kernel lora_qkv_kernel lora_o_kernel "
       "lora_embedding_kernel "
       "liger_rms_norm_gated liger_layer_norm liger_glu_activation liger_swiglu "
       "liger_kernel_impl "
       "fused_attn_kernel use_kernels unsloth_cross_entropy_loss use_scattermoe use_sonicmoe "
       "experts_implementation use_v1_kernels gptq_disable_exllama chunked_cross_entropy "
       "chunked_cross_entropy_num_chunks",
       kIdle, kOwnKernels, "false"},
      {"liger_rope liger_rms_norm liger_cross_entropy liger_fused_linear_cross_entropy", kRead, "",
       "false"},
      {"cut_cross_entropy", kRead},
      {"liger_use_token_scaling", kFixed, "", "false"},
      {"plugins", kRead},
      {"model_quantization_config", kChoice},
      {"tiled_mlp tiled_mlp_num_shards", kFixed, "mlp_tiles: N", "false"},
      {"gptq", kChoice, "quantized_tuning", "false"},
      {"s2_attention noisy_embedding_alpha load_in_16bit deepcompile "
       "dataset_exact_deduplication group_by_modality_length curriculum_sampling mean_resizing",
       kFixed, "", "false"},
      {"context_parallel_size sequence_parallel_degree", kProperty, "context_parallel"},
      {"heads_k_stride ring_attn_func", kIdle, "rows are divided in this program's own way"},
      {"dp_shard_size", kRead, "parallelism_config_dp_shard_size"},
      {"dp_replicate_size tensor_parallel_size expert_parallel_size", kFixed,
       "fsdp_sharding_strategy: HYBRID_SHARD, or fast_moe", "1"},
      {"min_sample_len", kFixed, "sequence_len"},
      {"excess_length_strategy", kFixed, "", "truncate"},
      {"loss_watchdog_threshold loss_watchdog_patience", kIdle, "no loss ends a run"},
      {"auto_resume_from_checkpoints", kChoice, "", "false"},
      {"strict model_type tokenizer_type processor_type type_of_model base_model_config "
       "is_llama_derived_model is_falcon_derived_model is_mistral_derived_model "
       "is_qwen_derived_model use_fast_tokenizer tokenizer_save_jinja_files "
       "tokenizer_use_fast tokenizer_legacy tokenizer_use_mistral_common cls_model_config "
       "base_model_ignore_patterns low_cpu_mem_usage device_map low_cpu_mem",
       kIdle, kConfigSaysIt, "false|true"},
      {"dataset_prepared_path dataset_processes dataset_shard_num dataset_shard_idx "
       "push_dataset_to_hub dataset_keep_in_memory shuffle_merged_datasets hf_use_auth_token "
       "streaming_multipack_buffer_size experimental_skip_move_to_device",
       kIdle, kOwnReading, "false|true"},
      {"wandb_project wandb_entity wandb_watch wandb_name wandb_log_model wandb_run_id wandb_mode "
       "use_wandb mlflow_experiment_name mlflow_tracking_uri mlflow_run_name "
       "hf_mlflow_log_artifacts "
       "use_mlflow comet_api_key comet_workspace comet_project_name use_comet trackio_project_name "
       "trackio_run_name swanlab_project swanlab_experiment_name swanlab_description swanlab_mode "
       "swanlab_workspace swanlab_log_model swanlab_log_completions "
       "swanlab_completion_log_interval swanlab_completion_max_buffer swanlab_run_name use_swanlab "
       "use_tensorboard use_otel_metrics otel_metrics_host otel_metrics_port "
       "profiler_steps profiler_steps_start enable_torch_profiler profiler_output_dir "
       "profiler_wait_steps profiler_warmup_steps profiler_active_steps profiler_repeat "
       "profiler_record_shapes profiler_profile_memory profiler_with_stack include_tkps "
       "use_trackio comet_mode comet_online comet_experiment_key comet_experiment_config "
       "swanlab_api_key swanlab_logdir swanlab_lark_webhook_url swanlab_lark_secret",
       kIdle, kOtherTracker, "false"},
  };
  return kRows;
}

}  // namespace sftbench
