// TrainingJob: everything that a training run needs, resolved. The one hand-over between the half
// that knows YAML, experiments and catalogs and the half that knows libtorch. Plain data: no
// optional is left to interpret, it prints as JSON and reads back (`sftbench run --job job.json`
// repeats the run).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/variants/context_layout.h"
#include "sftbench/variants/conversation_mask.h"
#include "sftbench/variants/interval_strategy.h"
#include "sftbench/variants/optimizer.h"
#include "sftbench/variants/padding.h"
#include "sftbench/variants/precision.h"
#include "sftbench/variants/sharding_strategy.h"
#include "sftbench/variants/tuning_method.h"

namespace sftbench {

// What trains a job. A simulated run is marked as such in every result (simulate/engine.h).
inline constexpr const char* kBackendLibtorch = "libtorch";
inline constexpr const char* kBackendSimulate = "simulate";

// Where weights and shapes come from.
struct ModelSource {
  std::string name;  // as in the entity: "smollm2-135m"
  Json hf_config;    // Hugging Face config.json, whole
  std::string
      weights_directory;  // folder with safetensors; empty: random weights drawn from `seed`
  std::string
      tokenizer_directory;  // folder with tokenizer.json; empty: the byte-level BPE that ships
};

// Which text is trained on, and how it becomes batches.
struct DataSource {
  std::string dataset_id;
  std::string path;  // JSON or JSONL file, or Parquet for images; exists when the job starts
  // What an entry is, the first of these that is set: token ids; messages; a template of its
  // fields; an input without loss in front of an output; one field's text.
  bool pretokenized = false;       // fields input_ids and, where not all bear loss, labels
  std::string conversation_field;  // of messages; empty: none
  std::string chat_template;       // of conversations, whole
  ConversationMask mask = ConversationMask::kAssistant;  // of conversations
  std::string entry_template;                            // "### Input: {{input}}"; empty: none
  std::string input_field;
  std::string output_field;
  std::string text_field = "output";
  std::string image_field;  // column of pictures; empty: the dataset is text
  std::string response_template = "\n### Response:";  // empty: all of an entry bears loss
  int64_t model_max_length = 0;                       // tokens; longer entries are truncated
  int64_t most_entries = 0;                           // the first of each set; 0: all
  Padding padding = Padding::kLongest;
  // The step with the largest micro-batch of the run changes places with the first one.
  bool worst_batch_first = false;
  std::string token_cache_directory;  // empty: token counts are not cached
  // Several sets instead of the one at `path`: {"sets": [...], "stopping_strategy": ...}
  // (plan/data_sets.h). {}: none.
  Json mixture = Json::object();
  uint64_t sampling_seed = 42;  // of mixtures, and of the entries that are held out
};

struct BatchPlan {
  int64_t per_device_batch_size = 1;  // entries per micro-batch and rank
  int64_t gradient_accumulation_steps = 1;
  int64_t max_steps = -1;  // optimization steps; <= 0: num_train_epochs decides
  double num_train_epochs = 1.0;
  double stop_after_seconds = -1.0;  // <= 0: never
  std::string auto_stop_method;      // "" or WARMUP_60S_STABLE_120S_OR_10_STEPS
  double stop_when_known = 0;        // percent within which the rate is known; 0: never
};

struct PrecisionPlan {
  ParameterDtype torch_dtype = ParameterDtype::kBfloat16;
  Autocast autocast = Autocast::kNo;
  bool tf32 = false;  // products of float32 on GPUs
};

struct OptimizerPlan {
  OptimizerKind kind = OptimizerKind::kAdamwTorch;
  double learning_rate = 1e-5;
  double weight_decay = 0.0;
  std::array<double, 2> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  double max_grad_norm = 1.0;              // <= 0: no clipping
  std::string schedule = "cosine";         // lr_scheduler_type; optim/schedule.h has all of them
  Json schedule_options = Json::object();  // lr_scheduler_kwargs
  double warmup_ratio = 0.03;  // of the total number of optimization steps, where warmup_steps is 0
  int64_t warmup_steps = 0;
  bool offload_state = false;  // to the host, between updates; GPUs only
};

struct DevicePlan {
  std::string kind = "cpu";  // "cpu" or "cuda"
  std::string gpu_model;     // as in the entity; checked against the device before training
  int64_t ranks = 1;         // processes over all nodes
  int64_t nodes = 1;
  int64_t threads = 0;  // per rank, CPU; 0: all cores this process may use
};

// How the ranks of a job share its work. No effect on one rank, unless distribute_one_rank.
struct ParallelPlan {
  Strategy strategy = Strategy::kDdp;
  std::string layer_class;  // that FSDP takes as its unit; empty: the model's own
  StateDictType state_dict_type = StateDictType::kFull;
  bool use_orig_params = true;
  GradientSync gradient_sync = GradientSync::kLast;
  std::string reduce_dtype;  // that gradients are reduced in: "float32"; empty: the dtype they are
                             // computed in
  // Neighbors that the experts of a mixture are divided among (fast_moe); 1: every rank has them as
  // it has the others.
  int64_t expert_ranks = 1;
  // Neighbors that the positions of each row are divided among (context parallelism); 1: rows are
  // whole.
  int64_t context_ranks = 1;
  bool enable_roce = false;  // between nodes
  // One rank, too, goes through its strategy and the communication library, as one that offloads.
  bool distribute_one_rank = false;
  double timeout_s = 600;  // of a rendezvous and of each collective operation
  bool offload =
      false;  // shards, their gradients and the optimizer's state, to the host; GPUs only
};

struct ActivationPlan {
  bool gradient_checkpointing = true;
  bool use_reentrant = false;
  bool offload = false;   // inputs of checkpointed layers, to the host; GPUs only
  int64_t mlp_tiles = 1;  // of positions, that an MLP computes one after the other; 1: all at once
};

// Off means the plain operator sequence of Hugging Face.
struct KernelPlan {
  bool flash_attention = true;
  bool fused_loss = true;
  bool fused_rms_norm = true;
  bool fused_rope = true;
  bool step_graph = false;  // the whole step is one CUDA graph; GPUs only
};

// Adapters of tuning "lora" (peft's LoraConfig).
struct LoraPlan {
  int64_t rank = 4;
  double alpha = 16;
  double dropout = 0.05;
  std::vector<std::string>
      target_modules;  // names of linears or their ends; "all-linear": all of them
  // Activated LoRA: text from whose last occurrence on, in each entry, adapters act. Empty: they
  // act everywhere.
  std::string invocation_string = {};
  bool use_rslora = false;  // what adapters add is multiplied by alpha / sqrt(rank)
  bool use_dora = false;    // with trained magnitudes of the adapted weights' rows
  std::vector<std::string> modules_to_save =
      {};  // ends of names: trained whole beside the adapters
  // Of single modules, by regular expressions: {"q_proj": 8}.
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
};

// Virtual tokens of tuning "pt" (peft's PromptTuningConfig).
struct PromptPlan {
  int64_t virtual_tokens = 8;
  std::string init = "TEXT";  // "TEXT": from the embeddings of init_text; "RANDOM": standard normal
  std::string init_text;
};

// Entries that a run measures its loss on and does not train on. The time does not count as
// training.
struct EvaluationPlan {
  std::string path;  // a file whose entries are as those of the training data; empty: none
  // Or this share of the training data, of a mixture, whose sets have their own, the largest; from
  // 1 on so many entries of all.
  double split = 0;
  IntervalStrategy strategy = IntervalStrategy::kNo;
  int64_t steps = 500;
  double steps_ratio = 0;             // above 0: a share of all steps instead
  int64_t per_device_batch_size = 0;  // 0: as in training
  bool on_start = false;              // and before the first step
  // The first so many of these entries begin texts that the model goes on with, before and after
  // training.
  int64_t generated = 0;
  int64_t max_new_tokens = 200;

  bool evaluates() const {
    return strategy != IntervalStrategy::kNo && (!path.empty() || split > 0);
  }
};

// Files that a run leaves behind or goes on from. No part of what is measured: neither inputs nor
// key know of them.
struct SavePlan {
  std::string
      model_directory;  // gets what was trained, once, after the last step; empty: nothing is kept
  std::string
      checkpoint_directory;  // gets a folder checkpoint-<step> with all that a run needs to go on
  IntervalStrategy strategy = IntervalStrategy::kNo;
  int64_t steps = 500;
  double steps_ratio = 0;   // above 0: a share of all steps instead
  int64_t total_limit = 0;  // checkpoints that stay, the newest ones; 0: all
  std::string resume_from;  // checkpoint folder to go on from; empty: from the beginning
  bool best_model = false;  // the model that is kept is the checkpoint of the least evaluation loss
  bool from_nothing =
      false;  // checkpoints that are there are moved aside before the first is saved
  std::string
      output_directory;  // fms-hf-tuning's: gets training_logs.jsonl; empty: none is written
  IntervalStrategy log_strategy = IntervalStrategy::kEpoch;  // of a line in training_logs.jsonl
  int64_t log_steps = 500;
  double log_steps_ratio = 0;  // above 0: a share of all steps instead
};

struct TrainingJob {
  std::string experiment;        // identifier as in the space: finetune_full_benchmark-v1.0.0
  std::string experiment_id;     // ado's id, byte for byte
  std::string entity_id;         // ado's id, byte for byte
  Json entity = Json::object();  // the space's properties and values in its order; {}: not known
  Json inputs;                   // every effective property, defaults included
  std::string backend = kBackendLibtorch;  // what trains it. In JSON it stands among the inputs
  TuningMethod tuning = TuningMethod::kFull;
  int64_t runs = 1;  // one after the other, each in a process of its own: launch/run_series.h

  ModelSource model;
  DataSource data;
  BatchPlan batches;
  PrecisionPlan precision;
  OptimizerPlan optimizer;
  DevicePlan device;
  ParallelPlan parallel;
  ActivationPlan activations;
  KernelPlan kernels;
  LoraPlan lora;
  PromptPlan prompt;
  EvaluationPlan evaluation;
  SavePlan save;

  double sample_period_s = 1.0;  // of the system samplers
  std::string trace_path;        // file for the timeline of the first steps; empty: none
  std::string dashboard_url;     // of the actuator configuration, for the result; empty: none
  uint64_t seed = 42;
};

// Whether parameters and gradients go through job.parallel's strategy and a communication library.
inline bool is_distributed(const TrainingJob& job) {
  return job.device.ranks > 1 || job.parallel.distribute_one_rank;
}

// Groups of ranks that read entries of their own: those of a group divide each row. Groups that do
// not fit count as one: the engine refuses them.
inline int64_t data_ranks(const TrainingJob& job) {
  return std::max<int64_t>(1, job.device.ranks / job.parallel.context_ranks);
}

Json to_json(const TrainingJob& job);

// Whether version 0.1.0 did not know the field ("data.mask"). Its jobs have trained with the
// default.
bool came_after_0_1_0(std::string_view field);
// A field of version 0.1.0 that went, behind parallel.context_ranks. It is not read.
inline constexpr std::string_view kFormerRotation = "parallel.context_rotation";

// InputError naming the key when one is missing, unknown or of the wrong type. Fields that came
// later may be missing.
TrainingJob training_job_from_json(const Json& json, const std::string& origin);

}  // namespace sftbench
