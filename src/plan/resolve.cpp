#include "sftbench/plan/resolve.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "plan/model_source.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

std::string text_or_empty(const Json& value) {
  return value.is_null() ? std::string() : value.get<std::string>();
}

// Turns the inputs of one request into a job, part by part.
class Resolver {
 public:
  Resolver(const MeasurementRequest& request, const ActuatorSettings& settings,
           const ResolveOptions& options, const Catalog& catalog)
      : request_(request),
        inputs_(request.inputs),
        settings_(settings),
        options_(options),
        catalog_(catalog),
        experiment_(*catalog.experiment(request.experiment)) {}

  Resolution resolve() {
    if (!simulated()) refuse_unsupported();
    TrainingJob& job = resolution_.job;
    job.experiment = request_.experiment;
    job.experiment_id = request_.experiment_id;
    job.entity_id = request_.entity_id;
    job.entity = request_.entity;
    job.inputs = effective_inputs(request_, options_);
    job.backend = options_.backend;
    job.tuning = experiment_.tuning;
    job.runs = experiment_.runs;
    job.sample_period_s = options_.sample_period_s;
    job.seed = experiment_.hardcoded.at("seed").get<uint64_t>();
    job.device = device();
    job.batches = batches(job.device);
    job.precision = precision();
    job.optimizer = optimizer();
    job.activations = {flag("gradient_checkpointing"),
                       flag("gradient_checkpointing_use_reentrant")};
    job.kernels = kernels();
    if (has_adapters()) job.lora = lora();
    if (job.tuning == "pt") job.prompt = prompt();
    job.model = find_model(text("model_name"), weights_format(), settings_,
                           simulated() ? "random" : options_.weights, catalog_.models);
    if (!simulated()) refuse_what_files_say();
    if (has_adapters() && !simulated()) leave_out_targets_without_linears();
    job.parallel = parallel();
    job.data = data();
    note_what_has_no_effect();
    return std::move(resolution_);
  }

 private:
  std::string text(const char* property) const { return text_or_empty(inputs_.at(property)); }
  int64_t integer(const char* property) const { return inputs_.at(property).get<int64_t>(); }
  bool flag(const char* property) const { return inputs_.at(property).get<bool>(); }
  // Experiments of several runs fix it.
  int64_t max_steps() const {
    const Json& fixed = experiment_.hardcoded;
    return fixed.contains("max_steps") ? fixed.at("max_steps").get<int64_t>()
                                       : integer("max_steps");
  }
  bool simulated() const { return options_.backend == kBackendSimulate; }
  int64_t rank_count() const {
    const int64_t gpus = integer("number_gpus");
    return gpus > 0 ? gpus : std::max<int64_t>(1, options_.cpu_ranks);
  }
  bool distributes() const { return rank_count() > 1 || options_.distribute_one_rank; }
  bool shards() const { return distributes() && text("distributed_backend") == "FSDP"; }

  // --- what this version cannot do ---------------------------------------------------------------

  // All of it in one message, before files are looked for.
  void refuse_unsupported() {
    Support support = support_of(experiment_, inputs_, settings_, options_, catalog_);
    if (!support.refusals.empty()) {
      throw RunError(ReasonCode::kUnsupported, join(support.refusals, "; "));
    }
    resolution_.notes = std::move(support.notes);
  }

  // config.json can say more than the catalog knows. One that names no family is left to its
  // reader, which says more.
  void refuse_what_files_say() const {
    const ModelSource& model = resolution_.job.model;
    const std::string& folder = model.weights_directory;
    refuse_unknown_family(text("model_name"), family_of(model.hf_config),
                          folder.empty() ? folder : (fs::path(folder) / "config.json").string());
    const std::string foreign = foreign_layer_class_refusal(
        text("model_name"), shards() ? family_of(model.hf_config) : std::string(),
        text("accelerate_config_fsdp_transformer_layer_cls_to_wrap"));
    if (!foreign.empty()) throw RunError(ReasonCode::kUnsupported, foreign);
  }

  // PEFT adapts what its targets name and says nothing of a target that names no linear, as long as
  // another does. The documents' list for Bloom has one.
  void leave_out_targets_without_linears() {
    TrainingJob& job = resolution_.job;
    if (find_family(family_of(job.model.hf_config)) == nullptr) return;
    const ModelShape shape = shape_of(parse_model_config(job.model.hf_config));
    std::vector<std::string> found, missing;
    for (const std::string& target : job.lora.target_modules)
      (names_a_linear(shape, target) ? found : missing).push_back(target);
    if (found.empty() || missing.empty()) return;
    resolution_.notes.push_back("of the lora_targets of model_name " + text("model_name") + ", " +
                                join(missing) +
                                " names no linear of the model; adapted: " + join(found));
    job.lora.target_modules = std::move(found);
  }

  static bool names_a_linear(const ModelShape& shape, const std::string& target) {
    for (const LayerShape& layer : shape.layers) {
      for (const LinearShape& linear : layer.linears)
        if (is_lora_target(linear.name, target)) return true;
    }
    return false;
  }

  // --- parts of the job --------------------------------------------------------------------------
  DevicePlan device() const {
    DevicePlan plan;
    plan.threads = options_.threads;
    plan.nodes = integer("number_nodes");
    plan.ranks = rank_count();
    if (integer("number_gpus") == 0) return plan;
    plan.kind = "cuda";
    plan.gpu_model = text("gpu_model");
    return plan;
  }

  // Ranks that were given no way to share the work still have to agree on their parameters: that is
  // DDP.
  ParallelPlan parallel() {
    ParallelPlan plan;
    plan.timeout_s = options_.communication_timeout_s;
    if (!distributes()) return plan;
    plan.distribute_one_rank = rank_count() < 2;
    plan.gradient_sync = options_.gradient_sync;
    plan.reduce_dtype = options_.reduce_dtype;
    plan.enable_roce = flag("enable_roce") && integer("number_nodes") > 1;
    if (shards()) {
      plan.strategy = text("fsdp_sharding_strategy");
      plan.layer_class = text("accelerate_config_fsdp_transformer_layer_cls_to_wrap");
      plan.state_dict_type = text("fsdp_state_dict_type");
      plan.use_orig_params = flag("fsdp_use_orig_params");
    } else if (text("distributed_backend").empty()) {
      resolution_.notes.push_back("distributed_backend None: the ranks work as under DDP");
    }
    return plan;
  }

  BatchPlan batches(const DevicePlan& plan) const {
    BatchPlan batches;
    batches.per_device_batch_size = integer("batch_size") / plan.ranks;
    batches.gradient_accumulation_steps = integer("gradient_accumulation_steps");
    batches.max_steps = max_steps();
    batches.num_train_epochs = inputs_.at("num_train_epochs").get<double>();
    batches.stop_after_seconds = inputs_.at("stop_after_seconds").get<double>();
    batches.auto_stop_method = text("auto_stop_method");
    return batches;
  }

  PrecisionPlan precision() const {
    PrecisionPlan plan;
    plan.torch_dtype = text("torch_dtype");
    plan.autocast = autocast_of(text("accelerate_config_mixed_precision"), flag("bf16"),
                                experiment_.hardcoded.value("fp16", false));
    return plan;
  }

  OptimizerPlan optimizer() const {
    const Json& fixed = experiment_.hardcoded;
    OptimizerPlan plan;
    plan.name = text("optim");
    plan.learning_rate = fixed.at("learning_rate").get<double>();
    plan.weight_decay = fixed.at("weight_decay").get<double>();
    plan.betas = {fixed.at("adam_beta1").get<double>(), fixed.at("adam_beta2").get<double>()};
    plan.epsilon = fixed.at("adam_epsilon").get<double>();
    plan.max_grad_norm = fixed.at("max_grad_norm").get<double>();
    plan.schedule = fixed.at("lr_scheduler_type").get<std::string>();
    plan.warmup_ratio = fixed.at("warmup_ratio").get<double>();
    return plan;
  }

  // fast_kernels None leaves the choice to the program, which takes the fused forms.
  KernelPlan kernels() const {
    KernelPlan plan;
    // On CPUs, too, where the flash-attn library itself does not run: what it stands for does.
    plan.flash_attention = flag("flash_attn");
    const Json& fast = inputs_.at("fast_kernels");
    if (fast.is_null()) return plan;
    plan.fused_loss = fast.at(0) == "True";
    plan.fused_rms_norm = fast.at(1) == "True";
    plan.fused_rope = fast.at(2) == "True";
    return plan;
  }

  bool has_adapters() const { return is_quantised() || experiment_.tuning == "lora"; }
  bool is_quantised() const { return experiment_.tuning == "gptq-lora"; }
  std::string weights_format() const {
    return experiment_.hardcoded.value("weights_format", std::string("Vanilla"));
  }

  LoraPlan lora() const {
    return {.rank = integer("r"),
            .alpha = inputs_.at("lora_alpha").get<double>(),
            .dropout = experiment_.hardcoded.at("lora_dropout").get<double>(),
            .target_modules = lora_targets_of(catalog_.models, text("model_name"), is_quantised())};
  }

  PromptPlan prompt() const {
    const Json& fixed = experiment_.hardcoded;
    return {.virtual_tokens = fixed.at("num_virtual_tokens").get<int64_t>(),
            .init = fixed.at("prompt_tuning_init").get<std::string>(),
            .init_text = fixed.at("prompt_tuning_init_text").get<std::string>()};
  }

  DataSource data() {
    DataSource source;
    source.dataset_id = text("dataset_id");
    source.response_template = experiment_.hardcoded.at("response_template").get<std::string>();
    source.model_max_length = integer("model_max_length");
    source.padding = options_.padding;
    if (const std::string field = text("dataset_text_field"); !field.empty())
      source.text_field = field;
    const fs::path directory = settings_.data_directory ? fs::path(*settings_.data_directory)
                                                        : user_data_directory() / "datasets";
    const fs::path file = directory / (source.dataset_id + ".jsonl");
    source.path = file.string();
    resolution_.generate_dataset = !settings_.data_directory && !simulated();
    std::error_code error;
    if (settings_.data_directory && !fs::exists(file, error)) {
      throw RunError(ReasonCode::kData,
                     "the dataset " + source.dataset_id +
                         " is not in data_directory; make it: sftbench dataset text " +
                         source.dataset_id + " -o " + source.path,
                     "no such file: " + source.path);
    }
    if (const auto& cache = settings_.num_tokens_cache_directory) {
      source.token_cache_directory =
          (directory / *cache).string();  // an absolute one stands for itself
    }
    return source;
  }

  // --- settings that change nothing here ---------------------------------------------------------
  void note_what_has_no_effect() {
    const std::vector<std::string> of_fsdp = {
        "fsdp_sharding_strategy", "fsdp_state_dict_type", "fsdp_use_orig_params",
        "accelerate_config_fsdp_transformer_layer_cls_to_wrap"};
    if (options_.distribute_one_rank && rank_count() > 1) {
      resolution_.notes.emplace_back("--distribute-one-rank has no effect on several ranks");
    }
    if (!distributes()) {
      note_unless_default({"distributed_backend"}, "no effect below two GPUs");
      note_unless_default(of_fsdp, "no effect below two GPUs");
      note_options_of_several_ranks();
    } else if (!shards()) {
      note_unless_default(of_fsdp, "no effect without distributed_backend FSDP");
    }
    if (shards() && !flag("fsdp_use_orig_params")) {
      resolution_.notes.emplace_back(
          "fsdp_use_orig_params false has no effect: parameters are sharded as under true, where "
          "the "
          "optimizer sees each one");
    }
    note_unless_default(
        {"fms_hf_tuning_version"},
        "no effect on training, which is this program's own; it only decides rule 6");
    if (integer("number_nodes") < 2) note_unless_default({"enable_roce"}, "no effect on one node");
    note_unless_default({"dataset_image_field", "remove_unused_columns"},
                        "no effect on text datasets");
    if (integer("number_gpus") == 0) note_unless_default({"gpu_model"}, "no effect without GPUs");
    if (max_steps() > 0)
      note_unless_default({"num_train_epochs"}, "no effect since max_steps is above 0");
  }

  void note_options_of_several_ranks() {
    const ResolveOptions defaults;
    if (options_.gradient_sync != defaults.gradient_sync) {
      resolution_.notes.emplace_back("--gradient-sync has no effect on one rank");
    }
    if (options_.reduce_dtype != defaults.reduce_dtype) {
      resolution_.notes.emplace_back("--reduce-dtype has no effect on one rank");
    }
  }

  void note_unless_default(const std::vector<std::string>& properties, const std::string& effect) {
    for (const std::string& property : properties) {
      const PropertySpec* spec = experiment_.find(property);
      if (spec == nullptr || inputs_.at(property) == spec->default_value) continue;
      resolution_.notes.push_back(property + " " + json_text(inputs_.at(property)) + " has " +
                                  effect);
    }
  }

  const MeasurementRequest& request_;
  const Json& inputs_;
  const ActuatorSettings& settings_;
  const ResolveOptions& options_;
  const Catalog& catalog_;
  const Experiment& experiment_;
  Resolution resolution_;
};

Json sorted(const Json& object) {
  std::map<std::string, Json> members;
  for (const auto& [key, value] : object.items()) members[key] = value;
  Json result = Json::object();
  for (auto& [key, value] : members) result[key] = std::move(value);
  return result;
}

}  // namespace

Resolution resolve(const MeasurementRequest& request, const ActuatorSettings& settings,
                   const ResolveOptions& options, const Catalog& catalog) {
  check(catalog.experiment(request.experiment) != nullptr,
        "the request's experiment is in the catalogue");
  return Resolver(request, settings, options, catalog).resolve();
}

Json effective_inputs(const MeasurementRequest& request, const ResolveOptions& options) {
  const ResolveOptions defaults;
  Json inputs = request.inputs;
  if (options.cpu_ranks != defaults.cpu_ranks) inputs["cpu_ranks"] = options.cpu_ranks;
  if (options.weights != defaults.weights) inputs["weights"] = options.weights;
  if (options.padding != defaults.padding) inputs["padding"] = options.padding;
  if (options.gradient_sync != defaults.gradient_sync) {
    inputs["gradient_sync"] = options.gradient_sync;
  }
  if (options.reduce_dtype != defaults.reduce_dtype) inputs["reduce_dtype"] = options.reduce_dtype;
  if (options.distribute_one_rank) inputs["distribute_one_rank"] = true;
  if (options.backend != defaults.backend) inputs["backend"] = options.backend;
  return sorted(inputs);
}

std::string measurement_key(const std::string& experiment, const Json& inputs) {
  const Json canonical = {{"experiment", experiment}, {"inputs", sorted(inputs)}};
  return digest(json_text(canonical));
}

}  // namespace sftbench
