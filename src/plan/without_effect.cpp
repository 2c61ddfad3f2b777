#include "plan/without_effect.h"

#include "sftbench/families/family.h"

namespace sftbench {
namespace {

class NoEffect : RequestReader {
 public:
  NoEffect(const RequestReader& request, const TrainingJob& job, std::vector<std::string>& notes)
      : RequestReader(request), job_(job), notes_(notes) {}

  void note_all() {
    note_sampling_without_effect();
    const std::vector<std::string> of_fsdp = {
        "fsdp_sharding_strategy", "fsdp_state_dict_type", "fsdp_use_orig_params",
        "accelerate_config_fsdp_transformer_layer_cls_to_wrap"};
    if (options_.worst_batch_first && !reorders(options_)) {
      notes_.emplace_back(
          "--worst-batch-first has no effect with --padding max_length: all batches are as large");
    }
    if (options_.distribute_one_rank && rank_count() > 1) {
      notes_.emplace_back("--distribute-one-rank has no effect on several ranks");
    }
    if (!distributes()) {
      note_unless_default({"distributed_backend"}, "no effect below two GPUs");
      note_unless_default(of_fsdp, "no effect below two GPUs");
      note_options_of_several_ranks();
    } else if (!shards()) {
      note_unless_default(of_fsdp, "no effect without distributed_backend FSDP");
    }
    if (shards() && !flag("fsdp_use_orig_params")) {
      notes_.emplace_back(
          "fsdp_use_orig_params false has no effect: parameters are sharded as under true, where "
          "the optimizer sees each one");
    }
    note_unless_default(
        {"fms_hf_tuning_version"},
        "no effect on training, which is this program's own; it only decides rule 6");
    if (integer("number_nodes") < 2) note_unless_default({"enable_roce"}, "no effect on one node");
    if (!is_vision_dataset(text("dataset_id"))) {
      note_unless_default({"dataset_image_field", "remove_unused_columns"},
                          "no effect on text datasets");
    }
    if (integer("number_gpus") == 0)
      note_unless_default(
          {"gpu_model", "tf32", "offload_activations", "offload_optimizer", "offload_params"},
          "no effect without GPUs");
    if (argument("warmup_steps") != 0)
      note_unless_default({"warmup_ratio"}, "no effect since warmup_steps is above 0");
    if (max_steps() > 0)
      note_unless_default({"num_train_epochs"}, "no effect since max_steps is above 0");
    if (!flag("flash_attn") && family_of(job_.model.hf_config) == "gpt_oss") {
      notes_.emplace_back(
          "flash_attn false has no effect on gpt_oss: attention with sinks has one form");
    }
  }

 private:
  void note_sampling_without_effect() {
    const std::string without = "no effect without several sets of data";
    if (job_.data.mixture.empty()) note_unless_default({"sampling_stopping_strategy"}, without);
    if (job_.data.mixture.empty() && job_.evaluation.split == 0) {
      note_unless_default({"sampling_seed"}, without + " or eval_split");
    }
  }

  void note_options_of_several_ranks() {
    const ResolveOptions defaults;
    if (options_.gradient_sync != defaults.gradient_sync) {
      notes_.emplace_back("--gradient-sync has no effect on one rank");
    }
    if (options_.reduce_dtype != defaults.reduce_dtype) {
      notes_.emplace_back("--reduce-dtype has no effect on one rank");
    }
  }

  void note_unless_default(const std::vector<std::string>& properties, const std::string& effect) {
    RequestReader::note_unless_default(properties, effect, notes_);
  }

  const TrainingJob& job_;
  std::vector<std::string>& notes_;
};

}  // namespace

void note_what_has_no_effect(const RequestReader& request, const TrainingJob& job,
                             std::vector<std::string>& notes) {
  NoEffect(request, job, notes).note_all();
}

}  // namespace sftbench
