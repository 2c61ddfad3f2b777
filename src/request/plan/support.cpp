#include "sftbench/plan/support.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/model_source.h"
#include "plan/optimizer_limits.h"
#include "plan/support_properties.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/plan/step_graph_limits.h"
#include "sftbench/variants/schedule.h"

namespace sftbench {
namespace {

class Judge {
 public:
  Judge(const Experiment& experiment, const Json& inputs, const ActuatorSettings& settings,
        const ResolveOptions& options, const Catalog& catalog)
      : experiment_(experiment),
        inputs_(inputs),
        settings_(settings),
        options_(options),
        catalog_(catalog) {}

  Support judge() {
    refuse_model();
    refuse_batches();
    refuse_expert_ranks();
    if (context_ranks() > 1) refuse_divided_rows();
    refuse_mlp_tiles();
    refuse_precision_and_optimizer();
    refuse_schedule();
    if (integer("number_gpus") > 0) refuse_offload();
    if (integer("number_gpus") > 0 && is_set("step_graph")) refuse_step_graph();
    refuse_data();
    note_own_strategy();
    note_borrowed_targets();
    note_gpu();
    return std::move(support_);
  }

 private:
  const Json& input(const char* property) const {
    check(support_depends_on(property),
          "support is remembered by the properties that it depends on");
    return inputs_.at(property);
  }
  std::string text(const char* property) const {
    const Json& value = input(property);
    return value.is_null() ? std::string() : value.get<std::string>();
  }
  int64_t integer(const char* property) const { return input(property).get<int64_t>(); }
  bool flag(const char* property) const { return input(property).get<bool>(); }
  // Arguments are inputs only where they are given.
  bool has(const char* argument) const {
    check(support_depends_on(argument),
          "support is remembered by the properties that it depends on");
    return inputs_.contains(argument);
  }

  bool is_set(const char* argument) const { return has(argument) && flag(argument); }

  const Json& argument(const char* name) const {
    return has(name) ? inputs_.at(name) : experiment_.find(name)->default_value;
  }

  void refuse(std::string reason) { support_.refusals.push_back(std::move(reason)); }

  const ModelFacts* facts() const { return catalog_.models.find(text("model_name")); }
  int64_t rank_count() const {
    const int64_t gpus = integer("number_gpus");
    return gpus > 0 ? gpus : std::max<int64_t>(1, options_.cpu_ranks);
  }
  bool offloads_params() const { return integer("number_gpus") > 0 && has("offload_params"); }
  bool distributes() const { return rank_count() > 1 || offloads_params(); }
  // One GPU that offloads is a shard group of one.
  bool shards() const {
    const bool alone = rank_count() == 1 && offloads_params();
    return distributes() && (alone || text("distributed_backend") == "FSDP");
  }

  // The catalog's family, so that nobody fetches what cannot be trained. That of a folder which
  // model_map names is in its config.json.
  std::string family() const {
    const ModelFacts* model = facts();
    const bool known = model != nullptr && settings_.model_map.count(model->name) == 0;
    return known ? model->family : std::string();
  }

  // Of models whose shape the catalog has.
  std::optional<ModelConfig> model_config() const {
    if (family().empty() || !trains_family(family())) return {};
    return parse_model_config(facts()->hf_config);
  }

  // Whose layers FSDP wraps.
  std::string layer_family() const {
    return family().empty() ? std::string() : layer_family_of(facts()->hf_config);
  }
  bool reads_images() const { return is_vision_family(family()); }
  // As RequestReader's.
  bool has_images() const {
    if (has("data_mixture")) return false;
    return has("training_data_path") ? !text("dataset_image_field").empty()
                                     : is_vision_dataset(text("dataset_id"));
  }

  void refuse_model() {
    if (!trains_family(family())) {
      return refuse(unknown_family_refusal(text("model_name"), family()));
    }
    if (row_of(experiment_.tuning).adds_adapters && !has("target_modules") && !options_.own_model &&
        lora_targets_of(catalog_.models, text("model_name"), is_of_gptq(experiment_.tuning))
            .empty()) {
      const std::string key = is_of_gptq(experiment_.tuning) ? "gptq_lora_targets" : "lora_targets";
      refuse("model_name " + text("model_name") + " has no " + key +
             " in config/models.yaml; target_modules all-linear, or names of linears, works");
    }
    if (row_of(experiment_.tuning).quantized_weights && reads_images()) {
      refuse("model_name " + text("model_name") +
             " reads images, and quantized weights of such models are not read; "
             "finetune_lora_benchmark-v1.0.0 works");
    }
    std::string foreign =
        foreign_layer_class_refusal(text("model_name"), shards() ? layer_family() : std::string(),
                                    text("accelerate_config_fsdp_transformer_layer_cls_to_wrap"));
    if (!foreign.empty()) refuse(std::move(foreign));
  }

  void refuse_batches() {
    const PaddingRow& padding = row_of(options_.padding);
    if (experiment_.tuning == TuningMethod::kPrompt && padding.one_row) {
      refuse(std::string("--padding ") + padding.name +
             ": prompt tuning puts its tokens in front of each row, which must then be "
             "one entry; --padding longest works");
    }
    const int64_t ranks = rank_count();
    const int64_t groups = ranks % context_ranks() == 0 ? ranks / context_ranks() : ranks;
    if (integer("batch_size") % groups != 0) {
      const std::string of_rows =
          groups == ranks ? "" : " / context_parallel " + std::to_string(context_ranks());
      refuse("batch_size " + json_text(input("batch_size")) +
             " cannot be divided evenly by --ranks " + std::to_string(ranks) + of_rows +
             "; a multiple of " + (groups == ranks ? "it" : std::to_string(groups)) + " works");
    }
    const std::string strategy = text("fsdp_sharding_strategy");
    const bool hybrid = row_of(named<Strategy>(strategy)).mesh == MeshKind::kHybrid;
    if (shards() && hybrid && ranks == integer("number_nodes") && ranks > 1) {
      refuse("fsdp_sharding_strategy " + strategy +
             " shards among the ranks of a node, and with one rank on each node none "
             "has anybody to share with; FULL_SHARD, or distributed_backend DDP, works");
    }
  }

  int64_t context_ranks() const {
    return has("context_parallel") ? integer("context_parallel") : 1;
  }

  void refuse_divided_rows() {
    const std::string division = "context_parallel " + std::to_string(context_ranks());
    std::string refusal = divided_rows_refusal(rank_count(), context_ranks());
    if (!refusal.empty()) refuse(std::move(refusal));
    if (experiment_.tuning == TuningMethod::kPrompt) {
      refuse(division +
             ": prompt tuning puts its tokens in front of whole rows; context_parallel 1 works");
    }
    if (reads_images()) {
      refuse(division + ": rows of model_name " + text("model_name") +
             ", which reads images, stay whole; context_parallel 1 works");
    }
  }

  void refuse_mlp_tiles() {
    if (!has("mlp_tiles") || integer("mlp_tiles") == 1) return;
    const ModelFacts* model = facts();
    if (model == nullptr || model->experts() == 0) return;
    refuse("mlp_tiles " + std::to_string(integer("mlp_tiles")) + ": model_name " + model->name +
           " has experts, which sort all positions; mlp_tiles 1 works");
  }

  // Rules 6 and 7 are about GPUs and about models that are known to have experts.
  void refuse_expert_ranks() {
    const int64_t expert_ranks = integer("fast_moe");
    if (expert_ranks < 1) return;
    const std::string fast_moe = "fast_moe " + std::to_string(expert_ranks);
    const ModelFacts* model = facts();
    if (model != nullptr && model->experts() == 0) {
      refuse(fast_moe + ": model_name " + model->name + " has no experts; fast_moe 0 works");
    }
    if (rank_count() % expert_ranks != 0) {
      refuse(fast_moe + " divides the experts among ranks, and " + std::to_string(rank_count()) +
             " of them cannot be divided evenly into groups of " + std::to_string(expert_ranks) +
             "; number_gpus or --ranks " + std::to_string(expert_ranks) + ", or fast_moe 0, works");
    }
  }

  Autocast autocast() const {
    return autocast_of(named<Autocast>(text("accelerate_config_mixed_precision")), flag("bf16"),
                       experiment_.hardcoded.value("fp16", false));
  }

  void refuse_precision_and_optimizer() {
    const std::string mixed = text("accelerate_config_mixed_precision");
    const bool fp16 = experiment_.hardcoded.value("fp16", false);
    for (std::string& reason :
         optimizer_refusals(named<OptimizerKind>(text("optim")),
                            integer("gradient_accumulation_steps"), autocast(), distributes())) {
      refuse(std::move(reason));
    }
    if (mixed == "fp8" && integer("number_gpus") == 0) {
      refuse(
          "accelerate_config_mixed_precision fp8: CPUs have no float8 products; number_gpus 1 on a "
          "GPU of compute capability 8.9 or newer (L40S, H100, H200, B200), or bf16 works");
    }
    if (flag("bf16") && mixed == "fp16")
      refuse("bf16 true contradicts accelerate_config_mixed_precision fp16; set one of them");
    if (flag("bf16") && fp16) {
      refuse("bf16 true contradicts fp16 true, which " + experiment_.identifier +
             " sets; bf16 false works");
    }
  }

  // As the engine, when it begins. How many steps there are is known then; before, where max_steps
  // says it.
  void refuse_schedule() {
    try {
      const std::string name = argument("lr_scheduler_type").get<std::string>();
      const Json& fixed = experiment_.hardcoded;
      const int64_t steps =
          fixed.contains("max_steps") ? fixed.at("max_steps").get<int64_t>() : integer("max_steps");
      const Json options =
          parse_json(argument("lr_scheduler_kwargs").get<std::string>(), "lr_scheduler_kwargs");
      SchedulePlan plan = {.name = name,
                           .total_steps = steps > 0 ? steps : -1,
                           .learning_rate = argument("learning_rate").get<double>(),
                           .options = parse_schedule_options(name, options)};
      if (steps > 0) {
        plan.warmup_steps = count_warmup_steps(steps, argument("warmup_steps").get<int64_t>(),
                                               argument("warmup_ratio").get<double>());
      }
      check_schedule(plan);
    } catch (const RunError& error) {
      refuse(error.what());
    }
  }

  void refuse_offload() {
    for (const char* offload : {"offload_optimizer", "offload_params"}) {
      if (!has(offload)) continue;
      std::string reason = offload_refusal(offload, named<OptimizerKind>(text("optim")));
      if (!reason.empty()) refuse(std::move(reason));
    }
    if (has("offload_params")) refuse_whole_parameters();
    if (has("offload_activations") && !flag("gradient_checkpointing")) {
      refuse(
          "offload_activations true keeps the inputs of checkpointed layers on the host, and "
          "gradient_checkpointing false checkpoints none; true works");
    }
  }

  void refuse_step_graph() {
    const Json& fast_kernels = input("fast_kernels");
    const bool adapters = row_of(experiment_.tuning).adds_adapters;
    const std::optional<ModelConfig> known = model_config();
    for (std::string& reason :
         step_graph_refusals({.distributed = distributes(),
         .optimizer = named<OptimizerKind>(text("optim")),
         .autocast = autocast(),
         .padding = options_.padding,
         .lora_dropout = adapters ? argument("lora_dropout").get<double>() : 0,
         .offloads = is_set("offload_optimizer") || is_set("offload_activations"),
         .fused_loss = fast_kernels.is_null() || fast_kernels.at(0) == "True",
         .images = has_images(),
         .model = known ? &*known : nullptr})) {
      refuse(std::move(reason));
    }
  }

  void refuse_whole_parameters() {
    const std::string strategy = text("fsdp_sharding_strategy");
    if (!shards() || !row_of(named<Strategy>(strategy)).shards()) {
      refuse("offload_params true keeps shards of parameters on the host, and " +
             (shards() ? "fsdp_sharding_strategy " + strategy
                       : "distributed_backend " + json_text(input("distributed_backend"))) +
             " makes none; distributed_backend FSDP with FULL_SHARD works");
    }
    if (integer("fast_moe") > 1) {
      refuse(
          "offload_params true: experts that fast_moe divides are no shards, and stay; "
          "fast_moe 0 works");
    }
  }

  void refuse_data() {
    refuse_forms();
    refuse_evaluation();
    if (has_images()) return refuse_images();
    if (flag("dataset_kwargs_skip_prepare_dataset"))
      refuse("dataset_kwargs_skip_prepare_dataset true: text has to be tokenized; false works");
  }

  void refuse_evaluation() {
    const bool file = has("validation_data_path"), split = has("eval_split");
    const double held = argument("eval_split").get<double>(), entries = std::trunc(held);
    if (entries != 0 && entries != held)
      refuse("eval_split " + json_text(Json(held)) + " is neither a share nor a number of entries");
    if (has_images() && argument("max_train_samples").get<int64_t>() > 0)
      refuse("max_train_samples beside images: all entries are read; 0 works");
    if (file && split)
      refuse("validation_data_path and eval_split each say what is evaluated; one of them works");
    const bool never = has("eval_strategy") && text("eval_strategy") == "no";
    if (has_images() && (file || split) && !never)
      refuse("evaluation on images: this version evaluates on texts; eval_strategy no works");
  }

  // An entry has one form.
  void refuse_forms() {
    if (has("training_data_path") && has("data_mixture")) {
      refuse("training_data_path and data_mixture each say what is trained on; one of them works");
    }
    std::vector<std::string> forms;
    if (has("pretokenized")) forms.emplace_back("pretokenized");
    if (has("conversation_column")) forms.emplace_back("conversation_column");
    if (has("data_formatter_template")) forms.emplace_back("data_formatter_template");
    const bool input = has("input_column_name"), output = has("output_column_name");
    if (input || output) forms.emplace_back("input_column_name and output_column_name");
    if (forms.size() > 1)
      refuse(join(forms, " and ") + " each say what an entry is; one of them works");
    if (has("chat_template") && !has("conversation_column") && !has("data_mixture")) {
      refuse(
          "chat_template is given without conversation_column, which it is of; with "
          "conversation_column messages it works");
    }
    if (input != output) {
      refuse(std::string(input ? "input_column_name" : "output_column_name") +
             " is given alone; with " + (input ? "output_column_name" : "input_column_name") +
             " it works");
    }
    if (input && output && text("input_column_name") == text("output_column_name")) {
      refuse("input_column_name and output_column_name are both " + text("input_column_name") +
             "; two columns work, or dataset_text_field with one");
    }
    if (!forms.empty() && has_images()) {
      refuse(forms.front() + ": dataset_id " + text("dataset_id") +
             " holds images, whose conversations have a form of their own");
    }
  }

  void refuse_images() {
    const bool own = has("training_data_path");
    const std::string dataset = own ? "training_data_path " + text("training_data_path")
                                    : "dataset_id " + text("dataset_id");
    if (!family().empty() && !reads_images()) {
      refuse(dataset + " holds images, and model_name " + text("model_name") +
             " reads texts; granite-vision-3.2-2b, llava-v1.6-mistral-7b or a news- dataset works");
    }
    if (text("dataset_image_field").empty()) {
      refuse(dataset +
             " holds images, and dataset_image_field None names no column of them; "
             "images works");
    }
    if (flag("remove_unused_columns")) {
      refuse(dataset + " holds images, which remove_unused_columns true drops; false works");
    }
    if (has("alora_invocation_string")) {
      refuse(dataset +
             ": alora_invocation_string trains on texts; lora tuning without it trains on images");
    }
    if (row_of(options_.padding).one_row) {
      refuse(std::string("--padding ") + name_of(options_.padding) +
             ": entries with images stand one in a row; --padding longest works");
    }
    if (!flag("dataset_kwargs_skip_prepare_dataset")) {
      support_.notes.emplace_back(
          "dataset_kwargs_skip_prepare_dataset false has no effect on a dataset with images, which "
          "is never prepared beforehand");
    }
  }

  void note_own_strategy() {
    const std::string strategy = text("fsdp_sharding_strategy");
    if (!shards() || !row_of(named<Strategy>(strategy)).optimizer_alone) return;
    support_.notes.push_back("fsdp_sharding_strategy " + strategy +
                             " (stage 1 of ZeRO) is this program's: neither ado nor FSDP has it");
  }

  void note_borrowed_targets() {
    const ModelFacts* model = facts();
    if (!is_of_gptq(experiment_.tuning) || model == nullptr || !model->gptq_lora_targets.empty())
      return;
    if (model->lora_targets.empty() || has("target_modules")) return;
    support_.notes.push_back("model_name " + text("model_name") +
                             " has no gptq_lora_targets in config/models.yaml; its lora_targets "
                             "are adapted: " +
                             join(model->lora_targets));
  }

  void note_gpu() {
    const std::string name = integer("number_gpus") > 0 ? text("gpu_model") : std::string();
    const GpuFacts* gpu = catalog_.gpus.find(name);
    if (gpu != nullptr && !gpu->obstacle().empty())
      support_.notes.push_back("gpu_model " + name + ": " + gpu->obstacle());
    if (name.empty() || gpu != nullptr) return;
    const std::string nearest = nearest_spelling(name, catalog_.gpus.names());
    support_.notes.push_back("gpu_model " + name +
                             " is not in config/gpus.yaml, so its MFU is not known" +
                             (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }

  const Experiment& experiment_;
  const Json& inputs_;
  const ActuatorSettings& settings_;
  const ResolveOptions& options_;
  const Catalog& catalog_;
  Support support_;
};

}  // namespace

Support support_of(const Experiment& experiment, const Json& inputs,
                   const ActuatorSettings& settings, const ResolveOptions& options,
                   const Catalog& catalog) {
  if (options.backend == kBackendSimulate) return {};
  return Judge(experiment, inputs, settings, options, catalog).judge();
}

bool trains_family(const std::string& family) {
  return family.empty() || find_family(family) != nullptr;
}

}  // namespace sftbench
