#include "sftbench/plan/resolve.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "plan_files.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ResolveTest : public PlanTest {
 protected:
  ResolveTest() { options_.weights = "random"; }

  Resolution resolved(const std::vector<std::string>& assignments = {}) {
    return resolve(request(assignments), settings_, options_, Catalog::shipped());
  }
  std::string failure(const std::vector<std::string>& assignments = {}) {
    return error_of([&] { resolved(assignments); });
  }

  // A snapshot in the layout of Hugging Face's cache.
  std::string snapshot(const std::string& hub, const std::string& model,
                       const std::string& commit) {
    return model_folder(hub + "/" + model + "/snapshots/" + commit);
  }

  ActuatorSettings settings_;
  ResolveOptions options_;
};

TEST_F(ResolveTest, ResultsRepeatTheDashboardOfTheActuatorWithoutItsSecrets) {
  settings_.aim_dashboard_url = "http://me:word@aim.example.com/runs";
  EXPECT_EQ(resolved().job.dashboard_url, "http://***@aim.example.com/runs");
}

// --- the job -------------------------------------------------------------------------------------

TEST_F(ResolveTest, DefaultsBecomeTheDocumentsTrainingParameters) {
  const TrainingJob job = resolved().job;
  EXPECT_EQ(job.experiment_id, "SFTTrainer.finetune_full_benchmark-v1.0.0");
  EXPECT_EQ(job.tuning, TuningMethod::kFull);
  EXPECT_EQ(job.seed, 42U);
  EXPECT_EQ(job.batches.per_device_batch_size, 6);
  EXPECT_EQ(job.batches.gradient_accumulation_steps, 4);
  EXPECT_EQ(job.batches.max_steps, -1);
  EXPECT_EQ(job.batches.num_train_epochs, 1.0);
  EXPECT_EQ(job.batches.stop_after_seconds, -1.0);
  EXPECT_EQ(job.batches.auto_stop_method, "");
  EXPECT_EQ(job.precision.torch_dtype, ParameterDtype::kBfloat16);
  EXPECT_EQ(job.precision.autocast, Autocast::kNo);
  EXPECT_EQ(job.optimizer.kind, OptimizerKind::kAdamwTorch);
  EXPECT_EQ(job.optimizer.learning_rate, 1e-5);
  EXPECT_EQ(job.optimizer.weight_decay, 0.0);
  EXPECT_EQ(job.optimizer.betas[0], 0.9);
  EXPECT_EQ(job.optimizer.betas[1], 0.999);
  EXPECT_EQ(job.optimizer.epsilon, 1e-8);
  EXPECT_EQ(job.optimizer.max_grad_norm, 1.0);
  EXPECT_EQ(job.optimizer.schedule, "cosine");
  EXPECT_EQ(job.optimizer.warmup_ratio, 0.03);
  EXPECT_EQ(job.device.kind, "cpu");
  EXPECT_EQ(job.device.ranks, 1);
  EXPECT_TRUE(job.activations.gradient_checkpointing);
  EXPECT_FALSE(job.activations.use_reentrant);
  EXPECT_TRUE(job.kernels.flash_attention);
  EXPECT_EQ(job.data.response_template, "\n### Response:");
  EXPECT_EQ(job.data.text_field, "output");
  EXPECT_EQ(job.data.model_max_length, 512);
  EXPECT_EQ(job.data.padding, Padding::kLongest);
}

TEST_F(ResolveTest, PropertiesReachTheJob) {
  options_.padding = Padding::kMaxLength;
  options_.threads = 3;
  const TrainingJob job =
      resolved({"number_gpus=1", "gpu_model=L40S", "bf16=true", "fast_kernels=[True, False, True]",
                "flash_attn=false", "torch_dtype=float32", "max_steps=7",
                "gradient_checkpointing=false", "dataset_text_field=text",
                "auto_stop_method=WARMUP_60S_STABLE_120S_OR_10_STEPS",
                "gradient_checkpointing_use_reentrant=true"})
          .job;
  EXPECT_EQ(job.device.kind, "cuda");
  EXPECT_EQ(job.device.gpu_model, "L40S");
  EXPECT_EQ(job.device.threads, 3);
  EXPECT_EQ(job.precision.torch_dtype, ParameterDtype::kFloat32);
  EXPECT_EQ(job.precision.autocast, Autocast::kBf16);
  EXPECT_FALSE(job.kernels.flash_attention);
  EXPECT_TRUE(job.kernels.fused_loss);
  EXPECT_FALSE(job.kernels.fused_rms_norm);
  EXPECT_TRUE(job.kernels.fused_rope);
  EXPECT_FALSE(job.activations.gradient_checkpointing);
  EXPECT_TRUE(job.activations.use_reentrant);
  EXPECT_EQ(job.batches.max_steps, 7);
  EXPECT_EQ(job.batches.auto_stop_method, "WARMUP_60S_STABLE_120S_OR_10_STEPS");
  EXPECT_EQ(job.data.text_field, "text");
  EXPECT_EQ(job.data.padding, Padding::kMaxLength);
}

TEST_F(ResolveTest, AccelerateMixedPrecisionIsAutocast) {
  EXPECT_EQ(resolved({"accelerate_config_mixed_precision=fp16"}).job.precision.autocast,
            Autocast::kFp16);
  EXPECT_EQ(resolved({"accelerate_config_mixed_precision=bf16"}).job.precision.autocast,
            Autocast::kBf16);
  EXPECT_EQ(resolved({"accelerate_config_mixed_precision=no"}).job.precision.autocast,
            Autocast::kNo);
}

// --- what this version cannot do -----------------------------------------------------------------

TEST_F(ResolveTest, WhatThisVersionCannotDoIsRefusedByName) {
  EXPECT_EQ(
      failure({"optim=adamw_torch_xla"}),
      "UNSUPPORTED: optim adamw_torch_xla needs an XLA device (a TPU, through torch_xla), and "
      "this program trains on CPUs and on NVIDIA GPUs; adamw_torch is the same update and "
      "works");
  EXPECT_EQ(failure({"optim=adamw_torch_npu_fused"}),
            "UNSUPPORTED: optim adamw_torch_npu_fused needs an Ascend NPU (torch_npu), and this "
            "program trains on CPUs and on NVIDIA GPUs; adamw_torch_fused is the same update and "
            "works");
  EXPECT_EQ(failure({"optim=galore_adamw_layerwise", "gradient_accumulation_steps=4"}),
            "UNSUPPORTED: optim galore_adamw_layerwise updates each layer in the backward of one "
            "micro-batch: gradient_accumulation_steps 4 is impossible, 1 works");
  EXPECT_EQ(
      failure({"optim=lomo", "accelerate_config_mixed_precision=fp16"}),
      "UNSUPPORTED: optim lomo updates in the backward, before loss scaling knows whether a "
      "gradient overflowed: accelerate_config_mixed_precision fp16 is impossible, bf16 works");
  EXPECT_EQ(
      failure({"accelerate_config_mixed_precision=fp8"}),
      "UNSUPPORTED: accelerate_config_mixed_precision fp8: CPUs have no float8 products; "
      "number_gpus 1 on a GPU of compute capability 8.9 or newer (L40S, H100, H200, B200), or "
      "bf16 works");
  EXPECT_EQ(
      failure({"accelerate_config_mixed_precision=fp16", "bf16=true"}),
      "UNSUPPORTED: bf16 true contradicts accelerate_config_mixed_precision fp16; set one of them");
  EXPECT_EQ(failure({"fast_moe=1"}),
            "UNSUPPORTED: fast_moe 1: model_name smollm2-135m has no experts; fast_moe 0 works");
  EXPECT_THAT(
      failure({"dataset_id=vision-384x384-16384plus-entries-4096"}),
      HasSubstr("UNSUPPORTED: dataset_id vision-384x384-16384plus-entries-4096 holds images"));
  EXPECT_THAT(
      failure({"training_data_path=chats.parquet", "dataset_image_field=images"}),
      HasSubstr("UNSUPPORTED: training_data_path chats.parquet holds images, and model_name "
                "smollm2-135m reads texts"));
  EXPECT_EQ(failure({"dataset_kwargs_skip_prepare_dataset=true"}),
            "UNSUPPORTED: dataset_kwargs_skip_prepare_dataset true: text has to be tokenized; "
            "false works");
  options_.cpu_ranks = 4;
  EXPECT_EQ(failure({"fast_moe=1"}),
            "UNSUPPORTED: batch_size 6 cannot be divided evenly by --ranks 4; a multiple of it "
            "works; fast_moe 1: model_name smollm2-135m has no experts; fast_moe 0 works");
}

TEST_F(ResolveTest, WhatDataIsIsSaidOnce) {
  using Said = std::vector<std::string>;
  EXPECT_THAT(failure({"eval_split=1.5"}),
              HasSubstr("eval_split 1.5 is neither a share nor a number of entries"));
  for (const char* fits : {"eval_split=0.5", "eval_split=1", "eval_split=3"})
    EXPECT_THAT(failure({fits}), Not(HasSubstr("neither a share"))) << fits;
  for (const auto& [said, problem] : std::vector<std::pair<Said, std::string>>{
           {{"eval_split=0.5", "validation_data_path=a.jsonl"}, "each say what is evaluated"},
           {{"pretokenized=true", "conversation_column=m"}, "each say what an entry is"},
           {{"input_column_name=a", "output_column_name=b", "pretokenized=true"},
            "each say what an entry is"},
           {{"chat_template=a"}, "chat_template is given without conversation_column"},
           {{"input_column_name=a"}, "input_column_name"},
           {{"output_column_name=a"}, "output_column_name"}}) {
    EXPECT_THAT(failure(said), AllOf(HasSubstr("UNSUPPORTED"), HasSubstr(problem))) << said.front();
  }
}

TEST_F(ResolveTest, FastMoeDividesExpertsAmongRanks) {
  const std::vector<std::string> mixture = {"model_name=granite-3.0-1b-a400m-base", "batch_size=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), mixture.begin(), mixture.end());
    return more;
  };
  options_.weights = "random";
  EXPECT_EQ(resolved(with({"fast_moe=1"})).job.parallel.expert_ranks, 1);
  EXPECT_EQ(failure(with({"fast_moe=2"})),
            "UNSUPPORTED: fast_moe 2 divides the experts among ranks, and 1 of them cannot be "
            "divided evenly into groups of 2; number_gpus or --ranks 2, or fast_moe 0, works");
  options_.cpu_ranks = 4;
  EXPECT_EQ(resolved(with({"fast_moe=0"})).job.parallel.expert_ranks, 1);
  EXPECT_EQ(resolved(with({"fast_moe=2"})).job.parallel.expert_ranks, 2);
  EXPECT_EQ(resolved(with({"fast_moe=4", "distributed_backend=FSDP"})).job.parallel.expert_ranks,
            4);
}

TEST_F(ResolveTest, ContextParallelDividesRowsAmongRanks) {
  EXPECT_EQ(resolved({}).job.parallel.context_ranks, 1);
  EXPECT_EQ(
      failure({"context_parallel=2"}),
      "UNSUPPORTED: context_parallel 2 divides rows among ranks, and 1 of them cannot be "
      "divided evenly into groups of 2; number_gpus or --ranks 2, or context_parallel 1, works");
  options_.cpu_ranks = 4;
  // Two groups read three entries each.
  const TrainingJob job = resolved({"context_parallel=2", "batch_size=6"}).job;
  EXPECT_EQ(job.parallel.context_ranks, 2);
  EXPECT_EQ(job.batches.per_device_batch_size, 3);
  EXPECT_EQ(data_ranks(job), 2);
  EXPECT_EQ(failure({"context_parallel=2", "batch_size=3"}),
            "UNSUPPORTED: batch_size 3 cannot be divided evenly by --ranks 4 / context_parallel 2; "
            "a multiple of 2 works");
  options_.backend = "simulate";
  EXPECT_THAT(failure({"context_parallel=3"}), HasSubstr("context_parallel 3 divides rows among"));
  options_.backend = ResolveOptions().backend;
  EXPECT_THAT(
      resolved({"context_parallel=4", "flash_attn=false"}).notes,
      ::testing::Contains(HasSubstr("flash_attn false has no effect beside context_parallel")));
}

TEST_F(ResolveTest, OwnDataHavePicturesWhereAColumnOfThemIsNamed) {
  const std::string chats = file("chats.parquet", "never read here");
  const auto with = [&](const std::string& data, std::vector<std::string> more) {
    more.insert(more.end(), {"model_name=llava-v1.6-mistral-7b", "training_data_path=" + data,
                             "remove_unused_columns=false"});
    return more;
  };
  options_.weights = "random";
  const Resolution pictures = resolved(with(chats, {"dataset_image_field=images"}));
  EXPECT_EQ(pictures.job.data.image_field, "images");
  EXPECT_EQ(pictures.job.data.path, chats);
  EXPECT_THAT(pictures.notes, ::testing::Each(Not(HasSubstr("no effect on text datasets"))));
  EXPECT_EQ(resolved(with(chats, {})).job.data.image_field, "");
  EXPECT_THAT(failure(with(file("chats.jsonl", "{}"), {"dataset_image_field=images"})),
              HasSubstr("chats.jsonl: images are read from one Parquet file"));
}

TEST_F(ResolveTest, PicturesNeedAModelThatIsTrainedOnThem) {
  const auto failure_of = [&](const std::string& model) {
    settings_.model_map["my-3b"]["Vanilla"] =
        std::string(SFTBENCH_SOURCE_DIR) + "/tests/reference/models/" + model;
    return failure({"model_name=my-3b", "training_data_path=" + file("chats.parquet", ""),
                    "dataset_image_field=images", "remove_unused_columns=false"});
  };
  options_.weights = "random";
  const std::string end =
      "model_name my-3b; a model of family llava_next, idefics3 or smolvlm works";
  EXPECT_EQ(failure_of("qwen3_plain"),
            "UNSUPPORTED: dataset_image_field images: there are no places for images in " + end);
  EXPECT_EQ(failure_of("gemma3_text_part"),
            "UNSUPPORTED: dataset_image_field images: the text model alone is trained of " + end);
}

TEST_F(ResolveTest, ATextModelBesideAVisionTowerIsSaidToBeTrainedAlone) {
  options_.weights = "random";
  settings_.model_map["my-3b"]["Vanilla"] =
      std::string(SFTBENCH_SOURCE_DIR) + "/tests/reference/models/gemma3_text_part";
  EXPECT_THAT(resolved({"model_name=my-3b"}).notes,
              ::testing::Contains(HasSubstr("my-3b has parts for images, which are not loaded")));
}

// What rule 7 says of the catalog's models is said of folders, too.
TEST_F(ResolveTest, ExpertsOfAFolderAreCounted) {
  options_.cpu_ranks = 3;
  settings_.model_map["my-3b"]["Vanilla"] =
      std::string(SFTBENCH_SOURCE_DIR) + "/tests/reference/models/granitemoe_plain";
  EXPECT_EQ(failure({"model_name=my-3b", "fast_moe=3", "batch_size=3"}),
            "RULE_7: fast_moe 3: model_name my-3b has 4 experts, which cannot be divided "
            "evenly by it");
  settings_.model_map["my-3b"]["Vanilla"] =
      std::string(SFTBENCH_SOURCE_DIR) + "/tests/reference/models/llama_plain";
  EXPECT_EQ(failure({"model_name=my-3b", "fast_moe=3", "batch_size=3"}),
            "UNSUPPORTED: fast_moe 3: model_name my-3b has no experts; fast_moe 0 works");
}

// --- several ranks -----------------------------------------------------------------------------
TEST_F(ResolveTest, RanksShareTheBatchAndTheStrategyIsFsdps) {
  const Resolution on_gpus = resolved({"number_gpus=3", "gpu_model=L40S"});
  EXPECT_EQ(on_gpus.job.device.ranks, 3);
  EXPECT_EQ(on_gpus.job.batches.per_device_batch_size, 2);
  EXPECT_EQ(on_gpus.job.parallel.strategy, Strategy::kFullShard);
  EXPECT_EQ(on_gpus.job.parallel.layer_class, "");
  EXPECT_EQ(on_gpus.job.parallel.state_dict_type, StateDictType::kFull);
  EXPECT_EQ(on_gpus.job.parallel.timeout_s, 600);
  EXPECT_THAT(on_gpus.notes, IsEmpty());

  options_.cpu_ranks = 2;
  options_.gradient_sync = GradientSync::kEach;
  options_.reduce_dtype = "float32";
  options_.communication_timeout_s = 5;
  const ParallelPlan plan =
      resolved({"fsdp_sharding_strategy=SHARD_GRAD_OP", "fsdp_state_dict_type=SHARDED_STATE_DICT",
                "fsdp_use_orig_params=false",
                "accelerate_config_fsdp_transformer_layer_cls_to_wrap=LlamaDecoderLayer"})
          .job.parallel;
  EXPECT_EQ(plan.strategy, Strategy::kShardGradOp);
  EXPECT_EQ(plan.state_dict_type, StateDictType::kSharded);
  EXPECT_FALSE(plan.use_orig_params);
  EXPECT_EQ(plan.layer_class, "LlamaDecoderLayer");
  EXPECT_EQ(plan.gradient_sync, GradientSync::kEach);
  EXPECT_EQ(plan.reduce_dtype, "float32");
  EXPECT_EQ(plan.timeout_s, 5);
}

TEST_F(ResolveTest, WithoutFsdpRanksWorkAsUnderDdp) {
  options_.cpu_ranks = 2;
  const Resolution ddp = resolved({"distributed_backend=DDP", "fsdp_sharding_strategy=NO_SHARD"});
  EXPECT_EQ(ddp.job.parallel.strategy, Strategy::kDdp);
  EXPECT_THAT(ddp.notes, ElementsAre("fsdp_sharding_strategy \"NO_SHARD\" has no effect without "
                                     "distributed_backend FSDP"));
  const Resolution none = resolved({"distributed_backend=None"});
  EXPECT_EQ(none.job.parallel.strategy, Strategy::kDdp);
  EXPECT_THAT(none.notes, ElementsAre("distributed_backend None: the ranks work as under DDP"));
}

TEST_F(ResolveTest, OneRankIsToldWhatHasNoEffect) {
  options_.gradient_sync = GradientSync::kEach;
  options_.reduce_dtype = "float32";
  EXPECT_THAT(resolved({}).notes, ElementsAre("--gradient-sync has no effect on one rank",
                                              "--reduce-dtype has no effect on one rank"));
}

TEST_F(ResolveTest, TheWorstBatchFirstIsAnInputWhereBatchesDiffer) {
  options_.worst_batch_first = true;
  const Resolution resolution = resolved({});
  EXPECT_TRUE(resolution.job.data.worst_batch_first);
  EXPECT_EQ(resolution.job.inputs.at("worst_batch_first"), true);
  options_.padding = Padding::kMaxLength;
  const Resolution equal = resolved({});
  EXPECT_FALSE(equal.job.data.worst_batch_first);
  EXPECT_FALSE(equal.job.inputs.contains("worst_batch_first"));
  EXPECT_THAT(equal.notes, ElementsAre("--largest-batch-first has no effect with --padding "
                                       "max_length: all batches are as large"));
}

TEST_F(ResolveTest, AHybridNeedsSeveralRanksOnANode) {
  EXPECT_EQ(failure({"number_gpus=2", "number_nodes=2", "gpu_model=L40S",
                     "fsdp_sharding_strategy=HYBRID_SHARD_ZERO2"}),
            "UNSUPPORTED: fsdp_sharding_strategy HYBRID_SHARD_ZERO2 shards among the ranks of a "
            "node, and with one rank on each node none has anybody to share with; FULL_SHARD, or "
            "distributed_backend DDP, works");
  const Resolution hybrid = resolved({"number_gpus=6", "number_nodes=2", "gpu_model=L40S",
                                      "enable_roce=true", "fsdp_sharding_strategy=HYBRID_SHARD"});
  EXPECT_EQ(hybrid.job.parallel.strategy, Strategy::kHybridShard);
  EXPECT_TRUE(hybrid.job.parallel.enable_roce);
}

TEST_F(ResolveTest, WhatAdoHasNoStrategyForIsSaid) {
  options_.cpu_ranks = 2;
  const Resolution resolution =
      resolved({"distributed_backend=FSDP", "fsdp_sharding_strategy=SHARD_OPTIM"});
  EXPECT_EQ(resolution.job.parallel.strategy, Strategy::kShardOptim);
  EXPECT_THAT(resolution.notes,
              ElementsAre("fsdp_sharding_strategy SHARD_OPTIM (stage 1 of ZeRO) is this program's: "
                          "neither ado nor FSDP has it"));
}

TEST_F(ResolveTest, AGpuWithoutAPeakIsSaidWhereItTrains) {
  const auto unlisted = Contains(HasSubstr("gpu_model L40Z is not in config/gpus.yaml"));
  EXPECT_THAT(resolved({"gpu_model=L40Z", "number_gpus=1"}).notes, unlisted);
  EXPECT_THAT(resolved({"gpu_model=L40Z", "number_gpus=0"}).notes, Not(unlisted));
  EXPECT_THAT(resolved({"gpu_model=L40S", "number_gpus=1"}).notes, Not(unlisted));
}

TEST_F(ResolveTest, TheLayerClassIsTheFamilysOwn) {
  constexpr const char* kGptj = "accelerate_config_fsdp_transformer_layer_cls_to_wrap=GPTJBlock";
  options_.cpu_ranks = 2;
  EXPECT_EQ(failure({kGptj}),
            "UNSUPPORTED: accelerate_config_fsdp_transformer_layer_cls_to_wrap GPTJBlock: the "
            "layers of model_name smollm2-135m are of class LlamaDecoderLayer; that, or None, "
            "works");
  EXPECT_EQ(resolved({kGptj, "distributed_backend=DDP"}).notes.size(), 1u);
}

constexpr const char* kGptq = "finetune_gtpq-lora_benchmark-v1.0.0";

TEST_F(ResolveTest, GptqLoraIsLoraOverQuantizedWeightsInFloat16) {
  const Resolution result = resolve(request({"r=8", "model_name=granite-7b-base"}, kGptq),
                                    settings_, options_, Catalog::shipped());
  const TrainingJob& job = result.job;
  EXPECT_EQ(job.tuning, TuningMethod::kGptqLora);
  EXPECT_EQ(job.lora.rank, 8);
  EXPECT_EQ(job.lora.dropout, 0.05);
  EXPECT_THAT(job.lora.target_modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(job.precision.torch_dtype, ParameterDtype::kFloat16);
  EXPECT_EQ(job.precision.autocast, Autocast::kFp16);  // scales the loss
  EXPECT_TRUE(job.kernels.fused_loss && job.kernels.fused_rms_norm && job.kernels.fused_rope);
  EXPECT_EQ(job.model.hf_config["quantization_config"], Json({{"quant_method", "gptq"},
                                                              {"bits", 4},
                                                              {"group_size", 128},
                                                              {"desc_act", false},
                                                              {"sym", true},
                                                              {"checkpoint_format", "gptq"}}));
}

TEST_F(ResolveTest, GptqLoraTakesTheTargetsOfLoraWhereTheDocumentsNameNone) {
  const Resolution result = resolve(request({}, kGptq), settings_, options_, Catalog::shipped());
  EXPECT_THAT(result.job.lora.target_modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(result.notes,
              ::testing::Contains("model_name smollm2-135m has no gptq_lora_targets in "
                                  "config/models.yaml; its lora_targets are adapted: q_proj, "
                                  "v_proj"));
}

TEST_F(ResolveTest, GptqLoraLooksForQuantizedWeights) {
  const auto failure_of = [this](const std::vector<std::string>& more) {
    return error_of(
        [&] { resolve(request(more, kGptq), settings_, options_, Catalog::shipped()); });
  };
  EXPECT_EQ(failure_of({"bf16=true"}),
            "UNSUPPORTED: bf16 true contradicts fp16 true, which "
            "finetune_gptq-lora_benchmark-v1.0.0 sets; bf16 false works");
  options_.weights = "auto";
  EXPECT_EQ(
      failure_of({"model_name=granite-7b-base"}),
      "WEIGHTS: the GPTQ-Quantized weights of granite-7b-base are not at hand; name their "
      "folder under model_map in --config; or train without them: --weights random [looked at "
      "/hf-models-pvc/granite-7b-base-gtpq/ (no such folder)]");
  settings_.model_map["my-3b"]["GPTQ-Quantized"] = model_folder("quantized");
  EXPECT_EQ(failure_of({"model_name=my-3b"}).substr(0, 51),
            "UNSUPPORTED: model_name my-3b has no gptq_lora_targ");
}

TEST_F(ResolveTest, PromptTuningWantsARowForEachEntry) {
  const auto failure_with = [this](const std::string& padding) {
    options_.padding = named<Padding>(padding);
    return error_of([&] {
      resolve(request({}, "finetune_pt_benchmark-v1.0.0"), settings_, options_, Catalog::shipped());
    });
  };
  EXPECT_EQ(failure_with("packed"),
            "UNSUPPORTED: --padding packed: prompt tuning puts its tokens in front of each row, "
            "which must then be one entry; --padding longest works");
  EXPECT_EQ(failure_with("max_length"), "no error");
}

TEST_F(ResolveTest, StabilityIsFiveRunsOfFiveSteps) {
  const TrainingJob job = resolve(request({}, "finetune_full_stability-v1.0.0"), settings_,
                                  options_, Catalog::shipped())
                              .job;
  EXPECT_EQ(job.runs, 5);
  EXPECT_EQ(job.batches.max_steps, 5);
  EXPECT_EQ(job.tuning, TuningMethod::kFull);
  EXPECT_EQ(resolved().job.runs, 1);
}

// --- adapters ------------------------------------------------------------------------------------

TEST_F(ResolveTest, LoraTakesItsRankFromTheEntityAndItsTargetsFromTheCatalog) {
  const auto job_of = [this](const std::vector<std::string>& assignments) {
    return resolve(request(assignments, "finetune_lora_benchmark-v1.0.0"), settings_, options_,
                   Catalog::shipped())
        .job;
  };
  const TrainingJob job = job_of({});
  EXPECT_EQ(job.tuning, TuningMethod::kLora);
  EXPECT_EQ(job.lora.rank, 4);
  EXPECT_EQ(job.lora.alpha, 16.0);
  EXPECT_EQ(job.lora.dropout, 0.05);
  EXPECT_THAT(job.lora.target_modules, ElementsAre("q_proj", "v_proj"));

  const LoraPlan other = job_of({"r=8", "lora_alpha=32", "model_name=llama-7b"}).lora;
  EXPECT_EQ(other.rank, 8);
  EXPECT_EQ(other.alpha, 32.0);
  EXPECT_THAT(other.target_modules, ElementsAre("q_proj", "k_proj"));
}

TEST_F(ResolveTest, AnInvocationIsAnInputWhereItIsGiven) {
  const auto resolved_lora = [this](const std::vector<std::string>& assignments) {
    return resolve(request(assignments, "finetune_lora_benchmark-v1.0.0"), settings_, options_,
                   Catalog::shipped())
        .job;
  };
  const TrainingJob plain = resolved_lora({});
  EXPECT_EQ(plain.lora.invocation_string, "");
  EXPECT_FALSE(plain.inputs.contains("alora_invocation_string"));
  EXPECT_EQ(resolved_lora({"alora_invocation_string=None"}).inputs, plain.inputs);
  const TrainingJob activated = resolved_lora({"alora_invocation_string=\\n### Response:"});
  EXPECT_EQ(activated.lora.invocation_string, "\n### Response:");
  EXPECT_EQ(activated.inputs.at("alora_invocation_string"), "\\n### Response:");
}

TEST_F(ResolveTest, MagnitudesAreAnInputWhereTheyAreAskedFor) {
  const auto resolved_lora = [this](const std::vector<std::string>& assignments,
                                    const std::string& experiment) {
    return resolve(request(assignments, experiment), settings_, options_, Catalog::shipped()).job;
  };
  for (const char* experiment :
       {"finetune_lora_benchmark-v1.0.0", "finetune_qlora_benchmark-v1.0.0"}) {
    const TrainingJob plain = resolved_lora({}, experiment);
    EXPECT_FALSE(plain.lora.use_dora);
    EXPECT_FALSE(plain.inputs.contains("use_dora"));
    const TrainingJob dora = resolved_lora({"use_dora=true"}, experiment);
    EXPECT_TRUE(dora.lora.use_dora);
    EXPECT_EQ(dora.inputs.at("use_dora"), true);
  }
  // As peft, which takes one of the two.
  EXPECT_EQ(error_of([&] {
              resolved_lora({"use_dora=true", "alora_invocation_string=x"},
                            "finetune_lora_benchmark-v1.0.0");
            }),
            "UNSUPPORTED: use_dora and alora_invocation_string: peft has no activated DoRA; one of "
            "them works");
}

TEST_F(ResolveTest, AdaptersThatDoNotFitAreRefusedBeforeTheEngineIsAsked) {
  const auto refusal = [&](const std::vector<std::string>& settings) {
    return error_of([&] {
      resolve(request(settings, "finetune_lora_benchmark-v1.0.0"), settings_, options_,
              Catalog::shipped());
    });
  };
  EXPECT_EQ(refusal({"r=64"}), "no error");
  EXPECT_EQ(refusal({"r=193"}),
            "UNSUPPORTED: r 193 does not fit model.layers.0.self_attn.v_proj, which maps 576 to "
            "192 features: a rank is between 1 and the smaller of the two");
  EXPECT_THAT(refusal({"target_modules=[q_prj]"}),
              HasSubstr("UNSUPPORTED: target_modules 'q_prj' matches no linear of the model"));
  EXPECT_EQ(refusal({"target_modules=[model.layers.0.self_attn.q_proj]", "r=193"}), "no error");
}

TEST_F(ResolveTest, PromptTuningTakesWhatTheExperimentFixes) {
  const TrainingJob job =
      resolve(request({}, "finetune_pt_benchmark-v1.0.0"), settings_, options_, Catalog::shipped())
          .job;
  EXPECT_EQ(job.tuning, TuningMethod::kPrompt);
  EXPECT_EQ(job.prompt.virtual_tokens, 8);
  EXPECT_EQ(job.prompt.init, "TEXT");
  EXPECT_EQ(job.prompt.init_text, "Classify if the tweet is a complaint or not:");
}

TEST_F(ResolveTest, LoraOfAModelWithoutTargetsSaysWhereTheyGo) {
  settings_.model_map["my-3b"]["Vanilla"] = model_folder("mine", "llama");
  const std::string failure = error_of([this] {
    resolve(request({"model_name=my-3b"}, "finetune_lora_benchmark-v1.0.0"), settings_, options_,
            Catalog::shipped());
  });
  EXPECT_EQ(failure,
            "UNSUPPORTED: model_name my-3b has no lora_targets in config/models.yaml; "
            "target_modules all-linear, or names of linears, works");
}

TEST_F(ResolveTest, FamiliesThatAreNotBuiltAreRefusedBeforeAnythingIsFetched) {
  options_.weights = "auto";
  settings_.model_map["my-3b"]["Vanilla"] = model_folder("odd", "mamba");
  EXPECT_THAT(failure({"model_name=my-3b"}),
              HasSubstr("UNSUPPORTED: model_name my-3b: its family, mamba, is not one"));
}

// --- images --------------------------------------------------------------------------------------

const std::vector<std::string> kImages = {
    "model_name=granite-vision-3.2-2b", "dataset_id=vision-384x384-16384plus-entries-4096",
    "dataset_image_field=images", "remove_unused_columns=false",
    "dataset_kwargs_skip_prepare_dataset=true"};

std::vector<std::string> images_and(const std::vector<std::string>& more) {
  std::vector<std::string> all = kImages;
  for (const std::string& one : more) {
    const std::string key = one.substr(0, one.find('=') + 1);
    std::erase_if(all, [&](const std::string& other) { return other.rfind(key, 0) == 0; });
    all.push_back(one);
  }
  return all;
}

TEST_F(ResolveTest, ImagesAreNothingForActivatedAdapters) {
  const auto lora_failure = [this](const std::vector<std::string>& more) {
    return error_of([&] {
      resolve(request(images_and(more), "finetune_lora_benchmark-v1.0.0"), settings_, options_,
              Catalog::shipped());
    });
  };
  EXPECT_THAT(lora_failure({}), Not(HasSubstr("alora_invocation_string")));
  EXPECT_THAT(lora_failure({"alora_invocation_string=x"}),
              HasSubstr("UNSUPPORTED: dataset_id vision-384x384-16384plus-entries-4096: "
                        "alora_invocation_string trains on texts; lora tuning without it trains on "
                        "images"));
}

TEST_F(ResolveTest, ImagesNeedAModelAColumnAndTheirDataset) {
  EXPECT_THAT(
      failure(images_and({"model_name=smollm2-135m"})),
      HasSubstr("UNSUPPORTED: dataset_id vision-384x384-16384plus-entries-4096 holds images, "
                "and model_name smollm2-135m reads texts; granite-vision-3.2-2b"));
  EXPECT_THAT(failure(images_and({"dataset_image_field=None"})),
              HasSubstr("dataset_image_field None names no column of them; images works"));
  EXPECT_THAT(failure(images_and({"remove_unused_columns=true"})),
              HasSubstr("holds images, which remove_unused_columns true drops; false works"));
  settings_.data_directory = "/nowhere";
  EXPECT_THAT(
      failure(kImages),
      HasSubstr("; make it: sftbench dataset vision vision-384x384-16384plus-entries-4096"));
  settings_.data_directory.reset();
  options_.padding = Padding::kPacked;
  EXPECT_THAT(failure(kImages), HasSubstr("--padding packed: entries with images stand one in a "
                                          "row; --padding longest works"));
}

// --- weights -------------------------------------------------------------------------------------

TEST_F(ResolveTest, RandomWeightsTakeTheCatalogsArchitecture) {
  const ModelSource model = resolved().job.model;
  EXPECT_EQ(model.hf_config["hidden_size"], 576);
  EXPECT_EQ(model.hf_config["architectures"], Json({"LlamaForCausalLM"}));
  EXPECT_EQ(model.weights_directory, "");
  EXPECT_EQ(model.tokenizer_directory, "");
}

TEST_F(ResolveTest, RandomWeightsTakeTheModelsOwnTokenizerWhereItIsAtHand) {
  const std::string folder =
      snapshot(".cache/huggingface/hub", "models--HuggingFaceTB--SmolLM2-135M", "abc");
  const ModelSource model = resolved().job.model;
  EXPECT_EQ(model.tokenizer_directory, folder);
  EXPECT_EQ(model.weights_directory, "");
  EXPECT_EQ(model.hf_config["hidden_size"], 576);
}

TEST_F(ResolveTest, RandomWeightsOfAMappedModelTakeItsConfig) {
  settings_.model_map["my-3b"]["Vanilla"] = model_folder("mine");
  EXPECT_EQ(resolved({"model_name=my-3b"}).job.model.hf_config["hidden_size"], 8);
  settings_.model_map["my-3b"]["Vanilla"] = "/no/folder";
  EXPECT_EQ(failure({"model_name=my-3b"}),
            "WEIGHTS: my-3b is none of `sftbench models`, and its config.json is not on this "
            "machine; name a folder that has it: --model DIR, or model_map in --config [looked "
            "at /no/folder (no such folder)]");
}

TEST_F(ResolveTest, AModelThatIsNowhereHasTheCommandThatFetchesIt) {
  const auto problem = [this](const std::string& model) {
    settings_.model_map[model]["Vanilla"] = model;
    return failure({"model_name=" + model});
  };
  EXPECT_THAT(
      problem("ai21labs/Jamba-v0.1"),
      HasSubstr("WEIGHTS: ai21labs/Jamba-v0.1 is none of `sftbench models`, and its config.json "
                "is not on this machine; fetch it: sftbench weights fetch --config-only "
                "ai21labs/Jamba-v0.1; or name a folder that has it: --model DIR, or model_map in "
                "--config"));
}

TEST_F(ResolveTest, AModelThatIsTakenForAnotherIsSaid) {
  const std::string model = "mistralai/Mixtral-8x7B-v0.1";
  settings_.model_map[model]["Vanilla"] = model;
  EXPECT_THAT(resolved({"model_name=" + model}).notes,
              testing::Contains("model_name " + model +
                                " is taken for mixtral-8x7b-instruct-v0.1, whose tensors have the "
                                "same shapes; its positions may end elsewhere"));
}

TEST_F(ResolveTest, AHubIdOfAListedModelOrOfOneWithItsShapesHasItsArchitecture) {
  const auto layers = [this](const std::string& model) {
    settings_.model_map[model]["Vanilla"] = model;
    return resolved({"model_name=" + model}).job.model.hf_config["num_hidden_layers"];
  };
  EXPECT_EQ(layers("mistralai/Mixtral-8x7B-v0.1"), 32);
  EXPECT_EQ(layers("meta-llama/Llama-3.1-8B"), 32);
}

TEST_F(ResolveTest, UnpublishedArchitecturesAreSaidToBe) {
  EXPECT_THAT(failure({"model_name=allam-1-13b"}),
              HasSubstr("WEIGHTS: the architecture of allam-1-13b is not published"));
}

TEST_F(ResolveTest, WeightsThatAreNotAtHandNameTheCommandThatFetchesThem) {
  options_.weights = "auto";
  const std::string hub = (folder_ / ".cache/huggingface/hub").string();
  const std::string rest =
      ", or with --fetch; or name their folder under model_map in --config; or train without them: "
      "--weights random "
      "[looked at HuggingFaceTB/SmolLM2-135M (not in ";
  EXPECT_EQ(failure(),
            "WEIGHTS: the weights of smollm2-135m are not at hand; fetch them: sftbench weights "
            "fetch HuggingFaceTB/SmolLM2-135M" +
                rest + (folder_ / ".cache/huggingface/hub").string() + ")]");
  settings_.hf_home = "/a home";
  EXPECT_EQ(failure(),
            "WEIGHTS: the weights of smollm2-135m are not at hand; fetch them: sftbench weights "
            "fetch HuggingFaceTB/SmolLM2-135M -o '/a home'" +
                rest + "/a home/hub)]");
}

TEST_F(ResolveTest, HubIdsAreFoundInTheCacheThatTheSettingsName) {
  options_.weights = "auto";
  const std::string model = "models--HuggingFaceTB--SmolLM2-135M";
  const std::string usual = snapshot(".cache/huggingface/hub", model, "one");
  EXPECT_EQ(resolved().job.model.weights_directory, usual);
  EXPECT_EQ(resolved().job.model.tokenizer_directory, usual);
  EXPECT_EQ(resolved().job.model.hf_config["hidden_size"], 8);

  const std::string by_cache_home = snapshot("xdg/huggingface/hub", model, "two");
  set("XDG_CACHE_HOME", (folder_ / "xdg").c_str());
  EXPECT_EQ(resolved().job.model.weights_directory, by_cache_home);
  const std::string by_home = snapshot("home/hub", model, "three");
  set("HF_HOME", (folder_ / "home").c_str());
  EXPECT_EQ(resolved().job.model.weights_directory, by_home);
  const std::string by_hub = snapshot("cache", model, "four");
  set("HF_HUB_CACHE", (folder_ / "cache").c_str());
  EXPECT_EQ(resolved().job.model.weights_directory, by_hub);
  const std::string by_setting = snapshot("setting/hub", model, "five");
  settings_.hf_home = (folder_ / "setting").string();
  EXPECT_EQ(resolved().job.model.weights_directory, by_setting);
}

TEST_F(ResolveTest, TheSnapshotOfMainIsTaken) {
  options_.weights = "auto";
  const std::string model = ".cache/huggingface/hub/models--HuggingFaceTB--SmolLM2-135M";
  const std::string wanted = model_folder(model + "/snapshots/aaa");
  model_folder(model + "/snapshots/bbb");
  EXPECT_THAT(failure(), HasSubstr("(not in "));  // two snapshots and nothing that says which
  file(model + "/refs/main", "aaa\n");
  EXPECT_EQ(resolved().job.model.weights_directory, wanted);
  file(model + "/refs/main", "../../..");
  EXPECT_THAT(failure(), HasSubstr("(not in "));
}

TEST_F(ResolveTest, FoldersThatLackSomethingSaySo) {
  options_.weights = "auto";
  const std::string folder = model_folder("mine");
  settings_.model_map["my-3b"]["Vanilla"] = folder;
  EXPECT_EQ(resolved({"model_name=my-3b"}).job.model.weights_directory, folder);
  for (const auto& [name, lack] :
       {std::pair<const char*, const char*>{"tokenizer.json",
                                            "(no tokenizer.json; --tokenizer DIR names another)"},
        {"model.safetensors", "(no model.safetensors, no model.safetensors.index.json)"},
        {"config.json", "(no config.json)"}}) {
    std::filesystem::remove(std::filesystem::path(folder) / name);
    EXPECT_THAT(failure({"model_name=my-3b"}), HasSubstr(folder + " " + lack));
  }
}

TEST_F(ResolveTest, AConfigThatBuildsNoModelFailsWithEachFinding) {
  const std::string folder = model_folder("mine");
  settings_.model_map["my-3b"]["Vanilla"] = folder;
  for (const char* weights : {"auto", "random"}) {
    options_.weights = weights;
    file("mine/config.json", R"({"model_type": "llama",)");
    EXPECT_THAT(failure({"model_name=my-3b"}),
                HasSubstr("WEIGHTS: " + folder + "/config.json:1: not JSON at column "));
    file("mine/config.json", R"({"model_type": "llama", "hidden_size": -1})");
    EXPECT_THAT(failure({"model_name=my-3b"}),
                AllOf(HasSubstr("WEIGHTS: " + folder + "/config.json: hidden_size: found -1; "),
                      HasSubstr("\n" + folder + "/config.json: vocab_size: missing; ")));
  }
}

TEST_F(ResolveTest, ModelMapGoesBeforeTheCatalog) {
  options_.weights = "auto";
  snapshot(".cache/huggingface/hub", "models--HuggingFaceTB--SmolLM2-135M", "abc");
  settings_.model_map["smollm2-135m"]["Vanilla"] = model_folder("own");
  EXPECT_EQ(resolved().job.model.weights_directory, (folder_ / "own").string());
}

// --- data ----------------------------------------------------------------------------------------

TEST_F(ResolveTest, WithoutADataDirectoryTheDatasetIsGeneratedInTheUsersFolder) {
  const Resolution resolution = resolved({"dataset_id=news-chars-512-entries-256"});
  EXPECT_TRUE(resolution.generate_dataset);
  const std::filesystem::path datasets = folder_ / ".local/share/sftbench/datasets";
  EXPECT_EQ(resolution.job.data.path, datasets / "news-chars-512-entries-256.jsonl");
}

TEST_F(ResolveTest, WithADataDirectoryNothingIsGeneratedUnasked) {
  settings_.data_directory = folder_.string();
  settings_.num_tokens_cache_directory = "tok";
  const std::string path = (folder_ / "news-chars-512-entries-256.jsonl").string();
  EXPECT_EQ(failure({"dataset_id=news-chars-512-entries-256"}),
            "DATA: the dataset news-chars-512-entries-256 is not in data_directory; make it: "
            "sftbench dataset text "
            "news-chars-512-entries-256 -o " +
                path + " [no such file: " + path + "]");
  file("news-chars-512-entries-256.jsonl", "{}");
  const Resolution resolution = resolved({"dataset_id=news-chars-512-entries-256"});
  EXPECT_FALSE(resolution.generate_dataset);
  EXPECT_EQ(resolution.job.data.path, path);
  EXPECT_EQ(resolution.job.data.token_cache_directory, folder_ / "tok");
  settings_.num_tokens_cache_directory = "/elsewhere";
  EXPECT_EQ(resolved({"dataset_id=news-chars-512-entries-256"}).job.data.token_cache_directory,
            "/elsewhere");
  settings_.num_tokens_cache_directory = std::nullopt;
  EXPECT_EQ(resolved({"dataset_id=news-chars-512-entries-256"}).job.data.token_cache_directory, "");
}

TEST_F(ResolveTest, APredictionNotesRowsThatTheModelHasNoPositionsFor) {
  options_.weights = "random";
  options_.predicts = true;
  const auto notes = [this](const std::string& length) {
    return resolved({"model_name=llama2-7b", "model_max_length=" + length}).notes;
  };
  EXPECT_THAT(notes("8192"),
              ::testing::Contains("model_max_length 8192 is beyond the 4096 positions "
                                  "(max_position_embeddings) of model_name llama2-7b"));
  EXPECT_THAT(notes("4096"), ::testing::Each(Not(HasSubstr("positions"))));
}

// Of data of one's own, only a run knows how long its entries are.
TEST_F(ResolveTest, RowsBeyondLearnedPositionsAreRefusedWhereTheyAreCertain) {
  const auto of_gpt2 = [this](const std::string& length, const std::string& more) {
    return failure({"model_name=gpt2", "model_max_length=" + length, more});
  };
  const char* const kReason =
      "model_name gpt2 has learned 1024 positions; rows of that length work";
  EXPECT_THAT(of_gpt2("2048", "max_steps=3"), HasSubstr(kReason));
  EXPECT_THAT(of_gpt2("1024", "max_steps=3"), Not(HasSubstr(kReason)));
  const std::string data = "training_data_path=" + file("own.jsonl", "{\"output\": \"a\"}\n");
  EXPECT_THAT(of_gpt2("2048", data), Not(HasSubstr(kReason)));
  options_.padding = Padding::kMaxLength;
  EXPECT_THAT(of_gpt2("2048", data), HasSubstr(kReason));
}

// --- notes and keys ------------------------------------------------------------------------------

TEST_F(ResolveTest, KernelsAreSwitchedOneByOne) {
  EXPECT_TRUE(resolved().job.kernels.flash_attention);
  EXPECT_FALSE(resolved({"flash_attn=false"}).job.kernels.flash_attention);
  EXPECT_FALSE(resolved({"flash_attn=false", "number_gpus=1", "gpu_model=L40S"})
                   .job.kernels.flash_attention);
}

TEST_F(ResolveTest, SettingsWithoutEffectAreNoted) {
  EXPECT_THAT(resolved().notes, IsEmpty());
  EXPECT_THAT(
      resolved({"distributed_backend=DDP", "enable_roce=true", "gpu_model=L40S", "flash_attn=false",
                "remove_unused_columns=false", "max_steps=3", "num_train_epochs=2"})
          .notes,
      ElementsAre("distributed_backend \"DDP\" has no effect below two GPUs",
                  "enable_roce true has no effect on one node",
                  "remove_unused_columns false has no effect on text datasets",
                  "gpu_model \"L40S\" has no effect without GPUs",
                  "num_train_epochs 2.0 has no effect since max_steps is above 0"));
}

// What says what an entry is, and what bears loss, leaves nothing to the others.
TEST_F(ResolveTest, WhatAFormOfDataIgnoresIsNoted) {
  const auto noted = [this](std::vector<std::string> form) {
    form.insert(form.end(), {"response_template=R", "dataset_text_field=t"});
    std::string all;
    for (const std::string& note : resolved(form).notes) all += note + "\n";
    return all;
  };
  const auto both = [](const std::string& effect) {
    return "response_template \"R\" has no effect " + effect +
           "\ndataset_text_field \"t\" has no effect " + effect + "\n";
  };
  EXPECT_EQ(noted({}), "");
  EXPECT_EQ(noted({"pretokenized=true"}), both("on entries that are tokenized already"));
  EXPECT_EQ(noted({"input_column_name=a", "output_column_name=b"}),
            both("beside output_column_name, which bears loss"));
  EXPECT_EQ(noted({"conversation_column=messages", "chat_template={{ messages }}"}),
            both("on conversations: what assistants say bears loss"));
  EXPECT_EQ(noted({"data_formatter_template=alpaca"}),
            both("beside data_formatter_template alpaca"));
  EXPECT_EQ(noted({"data_formatter_template={{a}}R{{b}}"}),
            "dataset_text_field \"t\" has no effect beside data_formatter_template\n")
      << "it seeks the response";
}

TEST_F(ResolveTest, ThatTheTokenizerShipsIsNotedOfOwnTexts) {
  const std::string data = "training_data_path=" + file("own.jsonl", "{\"output\": \"a\"}\n");
  const std::string note =
      "no tokenizer of model_name smollm2-135m is here: texts are tokens of the one that ships; "
      "--tokenizer DIR names another";
  EXPECT_THAT(resolved({data}).notes, ElementsAre(note));
  EXPECT_THAT(resolved({data, "pretokenized=true"}).notes, IsEmpty());
  options_.predicts = true;
  EXPECT_THAT(resolved({data}).notes, ElementsAre(note));
  snapshot(".cache/huggingface/hub", "models--HuggingFaceTB--SmolLM2-135M", "abc");
  EXPECT_THAT(resolved({data}).notes, IsEmpty());
}

// Lengths are fixed in a prediction without one, and counted in a run.
TEST_F(ResolveTest, APredictionNeedsNoChatTemplate) {
  const std::vector<std::string> chats = {"conversation_column=messages",
                                          "training_data_path=" + file("own.jsonl", "{}\n")};
  EXPECT_THAT(failure(chats), HasSubstr("the tokenizer that ships has no chat template"));
  options_.predicts = true;
  const Resolution prediction = resolved(chats);
  EXPECT_EQ(prediction.job.data.chat_template, "");
  EXPECT_THAT(prediction.notes,
              ElementsAre("the tokenizer that ships has no chat template, which conversations "
                          "need; --chat-template FILE gives one; rows are taken as full, of "
                          "model_max_length"));
  std::vector<std::string> misspelled = chats;
  misspelled.emplace_back("chat_template=no-such-file");
  EXPECT_THAT(failure(misspelled), HasSubstr("is neither a file nor a template"));
}

TEST_F(ResolveTest, OffloadIsForGpus) {
  const std::vector<std::string> gpu = {"number_gpus=1", "gpu_model=L40S"};
  const auto on_gpu = [&](std::vector<std::string> more) {
    more.insert(more.begin(), gpu.begin(), gpu.end());
    return more;
  };
  const TrainingJob job =
      resolved(on_gpu({"offload_optimizer=true", "offload_activations=true"})).job;
  EXPECT_TRUE(job.optimizer.offload_state);
  EXPECT_TRUE(job.activations.offload);
  EXPECT_EQ(job.inputs.at("offload_optimizer"), true);
  EXPECT_FALSE(resolved(gpu).job.inputs.contains("offload_optimizer"));
  EXPECT_EQ(failure(on_gpu({"offload_optimizer=true", "optim=adafactor"})),
            "UNSUPPORTED: offload_optimizer true: optim adafactor has states that are not of one "
            "tensor's elements alone; adamw_torch works");
  EXPECT_EQ(failure(on_gpu({"offload_optimizer=true", "optim=paged_adamw_32bit"})),
            "UNSUPPORTED: offload_optimizer true: optim paged_adamw_32bit keeps states on the host "
            "already; false works");
  EXPECT_EQ(failure(on_gpu({"offload_activations=true", "gradient_checkpointing=false"})),
            "UNSUPPORTED: offload_activations true keeps the inputs of checkpointed layers on the "
            "host, and gradient_checkpointing false checkpoints none; true works");
  const TrainingJob alone = resolved(on_gpu({"offload_params=true"})).job;
  EXPECT_TRUE(alone.parallel.offload);
  EXPECT_TRUE(alone.parallel.distribute_one_rank);
  EXPECT_EQ(alone.parallel.strategy, Strategy::kFullShard);
  EXPECT_EQ(failure(on_gpu({"offload_params=true", "fsdp_sharding_strategy=SHARD_OPTIM"})),
            "UNSUPPORTED: offload_params true keeps shards of parameters on the host, and "
            "fsdp_sharding_strategy SHARD_OPTIM makes none; distributed_backend FSDP with "
            "FULL_SHARD works");
  EXPECT_EQ(failure({"number_gpus=2", "gpu_model=L40S", "offload_params=true",
                     "distributed_backend=DDP"}),
            "UNSUPPORTED: offload_params true keeps shards of parameters on the host, and "
            "distributed_backend \"DDP\" makes none; distributed_backend FSDP with FULL_SHARD "
            "works");
  EXPECT_THAT(
      resolved({"offload_optimizer=true", "offload_activations=true", "optim=adafactor"}).notes,
      ElementsAre("offload_activations true has no effect without GPUs",
                  "offload_optimizer true has no effect without GPUs"));
}

TEST_F(ResolveTest, AStepIsOneGraphWhereItIsAskedForAndCanBe) {
  const auto on_gpu = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"number_gpus=1", "gpu_model=L40S", "step_graph=true"});
    return more;
  };
  const TrainingJob job = resolved(on_gpu({})).job;
  EXPECT_TRUE(job.kernels.step_graph);
  EXPECT_EQ(job.inputs.at("step_graph"), true);
  EXPECT_FALSE(resolved({}).job.kernels.step_graph);
  EXPECT_FALSE(resolved({}).job.inputs.contains("step_graph"));
  EXPECT_THAT(resolved({"step_graph=true"}).notes,
              ElementsAre("step_graph true has no effect without GPUs"));
  EXPECT_FALSE(resolved({"number_gpus=1", "gpu_model=L40S", "step_graph=false", "optim=adafactor"})
                   .job.kernels.step_graph);

  const std::string head = "UNSUPPORTED: step_graph true: ";
  EXPECT_EQ(failure(on_gpu({"optim=paged_adamw_8bit"})),
            head +
                "optim paged_adamw_8bit does not update element by element from its states on the "
                "GPU; adamw_torch works");
  EXPECT_EQ(failure(on_gpu({"accelerate_config_mixed_precision=fp16"})),
            head +
                "the host reads the scales of accelerate_config_mixed_precision fp16 in each step; "
                "bf16 or no works");
  EXPECT_EQ(failure(on_gpu({"offload_activations=true"})),
            head +
                "what waits on the host is no part of the graph; without offload_optimizer, "
                "offload_params and offload_activations it works");
  EXPECT_EQ(failure(on_gpu({"fast_kernels=[False, True, True]"})),
            head +
                "the graph has the fused loss; fast_kernels None, or True in its first place, "
                "works");
  EXPECT_EQ(failure({"number_gpus=2", "gpu_model=L40S", "step_graph=true"}),
            head + "collective operations are no part of the graph; one GPU works");
  EXPECT_EQ(
      failure(on_gpu({"model_name=mixtral-8x7b-instruct-v0.1"})),
      head + "the host reads how many tokens each expert gets; a model without experts works");
  EXPECT_EQ(failure(on_gpu({"model_name=granite-13b-v2"})),
            head +
                "each step drops other values of this model; its config.json with shares of "
                "dropout of 0 works");
}

TEST_F(ResolveTest, TilesOfAnMlpAreWholeUnlessAskedFor) {
  const TrainingJob job = resolved({"mlp_tiles=8"}).job;
  EXPECT_EQ(job.activations.mlp_tiles, 8);
  EXPECT_EQ(job.inputs.at("mlp_tiles"), 8);
  EXPECT_EQ(resolved({}).job.activations.mlp_tiles, 1);
  EXPECT_FALSE(resolved({}).job.inputs.contains("mlp_tiles"));
  EXPECT_EQ(failure({"mlp_tiles=2", "model_name=mixtral-8x7b-instruct-v0.1"}),
            "UNSUPPORTED: mlp_tiles 2: model_name mixtral-8x7b-instruct-v0.1 has experts, which "
            "sort all positions; mlp_tiles 1 works");
}

TEST_F(ResolveTest, AttentionWithSinksHasOneForm) {
  EXPECT_THAT(
      resolved({"model_name=gpt-oss-20b", "flash_attn=false"}).notes,
      ElementsAre("flash_attn false has no effect on gpt_oss: attention with sinks has one form"));
  EXPECT_THAT(resolved({"model_name=gpt-oss-20b"}).notes, IsEmpty());
}

TEST_F(ResolveTest, SettingsOfOtherProgramsAreNoted) {
  EXPECT_THAT(
      resolved({"fms_hf_tuning_version=3.1.0"}).notes,
      ElementsAre("fms_hf_tuning_version \"3.1.0\" has no effect on training, which is this "
                  "program's own; it only decides rule 6"));
  options_.cpu_ranks = 2;
  EXPECT_THAT(
      resolved({"fsdp_use_orig_params=false"}).notes,
      ElementsAre("fsdp_use_orig_params false has no effect: parameters are sharded as under "
                  "true, where the optimizer sees each one"));
  EXPECT_THAT(resolved({"fsdp_use_orig_params=true"}).notes, IsEmpty());
}

TEST_F(ResolveTest, APartOfAnEpochAndANumberedStrategyAreTakenByTheirMeaning) {
  options_.cpu_ranks = 2;
  const TrainingJob job =
      resolved({"num_train_epochs=0.5", "stop_after_seconds=90.5", "fsdp_sharding_strategy=2"}).job;
  EXPECT_EQ(job.batches.num_train_epochs, 0.5);
  EXPECT_EQ(job.batches.stop_after_seconds, 90.5);
  EXPECT_EQ(job.parallel.strategy, Strategy::kShardGradOp);
  EXPECT_EQ(job.inputs.at("fsdp_sharding_strategy"), "SHARD_GRAD_OP");
}

TEST_F(ResolveTest, GpusThatAreNotListedAreNotedWithTheNearest) {
  EXPECT_THAT(resolved({"number_gpus=1", "gpu_model=NVIDIA-H100-PCI"}).notes,
              ElementsAre("gpu_model NVIDIA-H100-PCI is not in config/gpus.yaml, so its MFU is not "
                          "known; did you mean "
                          "'NVIDIA-H100-PCIe'?"));
  EXPECT_THAT(resolved({"number_gpus=1", "gpu_model=NVIDIA H100 PCIe"}).notes, IsEmpty());
}

TEST_F(ResolveTest, InputsHaveEveryPropertySortedAndWhatTheCommandLineAdds) {
  options_.weights = "auto";
  const MeasurementRequest plain = request();
  const Json inputs = effective_inputs(plain, options_);
  EXPECT_EQ(inputs.size(), plain.inputs.size());
  std::vector<std::string> names;
  for (const auto& entry : inputs.items()) names.push_back(entry.key());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  options_.weights = "random";
  options_.cpu_ranks = 4;
  options_.gradient_sync = GradientSync::kEach;
  options_.reduce_dtype = "float32";
  options_.padding = Padding::kMaxLength;
  options_.worst_batch_first = true;
  options_.stop_when_known = 1.5;
  EXPECT_EQ(effective_inputs(plain, options_).at("stop_when_known"), 1.5);
  EXPECT_FALSE(effective_inputs(plain, options_).contains("worst_batch_first"))
      << "rows of max_length are all as large: nothing else is measured";
  const Json more = effective_inputs(plain, options_);
  EXPECT_EQ(more["weights"], "random");
  EXPECT_EQ(more["cpu_ranks"], 4);
  EXPECT_EQ(more["gradient_sync"], "each");
  EXPECT_EQ(more["reduce_dtype"], "float32");
  EXPECT_EQ(more["padding"], "max_length");
}

TEST_F(ResolveTest, KeyDependsOnExperimentAndInputsAndNotOnTheirOrderOrSpelling) {
  const auto key = [&](const std::vector<std::string>& assignments) {
    return measurement_key("e", effective_inputs(request(assignments), options_));
  };
  const std::string base = key({});
  EXPECT_EQ(base.size(), 32U);
  EXPECT_EQ(key({"batch_size=6.0", "max_steps=-1"}), base);
  EXPECT_EQ(key({"number_gpus=0", "batch_size=6", "gpu_model=None", "bf16=0"}), base);
  EXPECT_NE(key({"batch_size=5"}), base);
  EXPECT_NE(measurement_key("f", effective_inputs(request(), options_)), base);
  options_.weights = "auto";
  EXPECT_NE(key({}), base);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
