#include "sftbench/plan/resolve.h"

#include <algorithm>
#include <map>

#include "plan/lora_plan.h"
#include "plan/model_fit.h"
#include "plan/model_source.h"
#include "plan/own_data.h"
#include "plan/own_model.h"
#include "plan/request_reader.h"
#include "plan/resolve_data.h"
#include "plan/without_effect.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/families/stored_form.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/plan/base_precision.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/plan/data_sets.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace {

// Turns the inputs of one request into a job, part by part.
class Resolver : RequestReader {
 public:
  Resolver(const MeasurementRequest& request, const ActuatorSettings& settings,
           const ResolveOptions& options, const Catalog& catalog)
      : RequestReader(request, settings, options, catalog) {}

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
    job.seed = argument("seed").get<uint64_t>();
    job.device = device();
    job.batches = batches(job.device);
    job.precision = precision();
    job.optimizer = optimizer();
    job.activations = {flag("gradient_checkpointing"), flag("gradient_checkpointing_use_reentrant"),
                       argument("offload_activations").get<bool>(),
                       argument("mlp_tiles").get<int64_t>()};
    job.kernels = kernels();
    if (has_adapters()) {
      job.lora = lora_plan(*this);
      job.lora.target_modules = listed_targets(*this);
    }
    if (job.tuning == TuningMethod::kPrompt) job.prompt = prompt();
    job.model = model(simulated() ? "random" : options_.weights,
                      argument_text("tokenizer_name_or_path").empty());
    if (!simulated()) require_model_fits(*this, job.model);
    if (has_adapters() && !simulated()) {
      AdaptedLinears adapted = adapted_linears(*this, job.model);
      job.lora.target_modules = std::move(adapted.targets);
      for (std::string& note : adapted.notes) resolution_.notes.push_back(std::move(note));
    }
    note_what_weights_are();
    job.dashboard_url = without_secrets(settings_.aim_dashboard_url.value_or(""));
    if (const std::string place = argument_text("tokenizer_name_or_path");
        !place.empty() && !simulated()) {
      job.model.tokenizer_directory = find_tokenizer(place, settings_);
    }
    job.parallel = parallel();
    ResolvedData data = resolve_data(*this);
    job.data = std::move(data.source);
    job.evaluation = std::move(data.evaluation);
    if (options_.predicts) note_positions();
    resolution_.generate_dataset = data.generates;
    if (!job.data.conversation_field.empty()) take_chat_template();
    note_shipped_tokenizer();
    note_what_has_no_effect(*this, family_of(job.model.hf_config), resolution_.notes);
    return std::move(resolution_);
  }

  std::vector<FetchRequest> absent_from_hub() const {
    std::vector<FetchRequest> absent;
    if (simulated()) return absent;
    std::vector<std::string> models;
    if (options_.weights != "random") {
      models.push_back(
          absent_hub_model(text("model_name"), weights_format(), settings_, catalog_.models));
    }
    const std::string tokenizer = argument_text("tokenizer_name_or_path");
    if (!tokenizer.empty()) models.push_back(absent_hub_tokenizer(tokenizer, settings_));
    for (const std::string& id : models) {
      if (!id.empty()) absent.push_back({.name = id, .hub_id = id});
    }
    for (const std::string& name : absent_datasets(*this)) absent.push_back(dataset_request(name));
    return absent;
  }

 private:
  // --- what this version cannot do ---------------------------------------------------------------

  // All of it in one message, before files are looked for.
  void refuse_unsupported() {
    Support support = support_of(experiment_, inputs_, settings_, options_, catalog_);
    if (!support.refusals.empty()) {
      throw RunError(ReasonCode::kUnsupported, join(support.refusals, "; "));
    }
    resolution_.notes = std::move(support.notes);
  }

  void note_what_weights_are() {
    const TrainingJob& job = resolution_.job;
    if (std::string warning = narrower_range_warning(job); !warning.empty())
      resolution_.notes.push_back(std::move(warning));
    if (options_.decodes_mxfp4 && !simulated() && !is_mxfp4(job.model.hf_config)) {
      resolution_.notes.push_back(
          "quantization_method mxfp4 has no effect: the weights of model_name " + job.model.name +
          " are not in MXFP4");
    }
    const NearModel near = catalog_.models.near(job.model.name);
    Json own = job.model.hf_config;
    own.erase("quantization_config");  // of the method
    if (near.same_shapes && catalog_.models.find(near.name)->hf_config == own) {
      resolution_.notes.push_back(
          "model_name " + job.model.name + " is taken for " + near.name +
          ", whose tensors have the same shapes; its positions may end elsewhere");
    }
    if (is_text_part_family(family_of(job.model.hf_config))) {
      resolution_.notes.push_back("model_name " + job.model.name +
                                  " has parts for images, which are not loaded: its text model is "
                                  "trained, and a saved model has them as they were");
    }
  }

  void note_positions() {
    std::string note =
        note_on_positions(resolution_.job.model, resolution_.job.data.model_max_length);
    if (!note.empty()) resolution_.notes.push_back(std::move(note));
  }

  // Rows of a fixed length need none, which are what is predicted without it.
  void take_chat_template() {
    TrainingJob& job = resolution_.job;
    const std::string given = whole_text(argument_text("chat_template"));
    const std::string& folder = job.model.tokenizer_directory;
    const bool none = folder.empty() || chat_template_of(folder).text.empty();
    if (options_.predicts && given.empty() && none) {
      resolution_.notes.push_back(no_chat_template(folder) +
                                  "; rows are taken as full, of model_max_length");
    } else {
      job.data.chat_template = chat_template(given, folder);
    }
  }

  // Of texts of one's own, which the model's tokenizer would divide otherwise.
  void note_shipped_tokenizer() {
    const TrainingJob& job = resolution_.job;
    const bool own = !job.data.mixture.empty() || !argument_text("training_data_path").empty();
    const bool encodes = !job.data.pretokenized && !lacks_chat_template(job);
    if (!own || !encodes || simulated() || !job.model.tokenizer_directory.empty()) return;
    resolution_.notes.push_back("no tokenizer of model_name " + job.model.name +
                                " is here: texts are tokens of the one that ships; --tokenizer DIR "
                                "names another");
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
    plan.offload = argument("offload_params").get<bool>();
    if (!distributes()) return plan;
    plan.distribute_one_rank = rank_count() < 2;
    plan.gradient_sync = options_.gradient_sync;
    plan.reduce_dtype = options_.reduce_dtype;
    plan.expert_ranks = std::max<int64_t>(1, integer("fast_moe"));
    plan.context_ranks = argument("context_parallel").get<int64_t>();
    plan.enable_roce = flag("enable_roce") && integer("number_nodes") > 1;
    if (shards()) {
      plan.strategy = named<Strategy>(text("fsdp_sharding_strategy"));
      plan.layer_class = text("accelerate_config_fsdp_transformer_layer_cls_to_wrap");
      plan.state_dict_type = named<StateDictType>(text("fsdp_state_dict_type"));
      plan.use_orig_params = flag("fsdp_use_orig_params");
    } else if (text("distributed_backend").empty()) {
      resolution_.notes.push_back("distributed_backend None: the ranks work as under DDP");
    }
    return plan;
  }

  BatchPlan batches(const DevicePlan& plan) const {
    BatchPlan batches;
    const auto context_ranks = argument("context_parallel").get<int64_t>();
    // Simulated runs are held to no other refusal.
    const std::string refusal = divided_rows_refusal(plan.ranks, context_ranks);
    if (!refusal.empty()) throw RunError(ReasonCode::kUnsupported, refusal);
    batches.per_device_batch_size = integer("batch_size") / (plan.ranks / context_ranks);
    batches.gradient_accumulation_steps = integer("gradient_accumulation_steps");
    batches.max_steps = max_steps();
    batches.num_train_epochs = inputs_.at("num_train_epochs").get<double>();
    batches.stop_after_seconds = inputs_.at("stop_after_seconds").get<double>();
    batches.auto_stop_method = text("auto_stop_method");
    batches.stop_when_known = options_.stop_when_known;
    return batches;
  }

  PrecisionPlan precision() const {
    PrecisionPlan plan;
    plan.torch_dtype = named<ParameterDtype>(text("torch_dtype"));
    plan.autocast = autocast_of(named<Autocast>(text("accelerate_config_mixed_precision")),
                                flag("bf16"), experiment_.hardcoded.value("fp16", false));
    plan.tf32 = argument("tf32").get<bool>();
    return plan;
  }

  OptimizerPlan optimizer() const {
    OptimizerPlan plan;
    plan.kind = named<OptimizerKind>(text("optim"));
    plan.learning_rate = number("learning_rate");
    plan.weight_decay = number("weight_decay");
    plan.betas = {number("adam_beta1"), number("adam_beta2")};
    plan.epsilon = number("adam_epsilon");
    plan.max_grad_norm = number("max_grad_norm");
    plan.schedule = argument_text("lr_scheduler_type");
    plan.schedule_options = parse_json(argument_text("lr_scheduler_kwargs"), "lr_scheduler_kwargs");
    plan.warmup_ratio = number("warmup_ratio");
    plan.warmup_steps = argument("warmup_steps").get<int64_t>();
    plan.offload_state = argument("offload_optimizer").get<bool>();
    return plan;
  }

  // fast_kernels None leaves the choice to the program, which takes the fused forms.
  KernelPlan kernels() const {
    KernelPlan plan;
    // On CPUs, too, where the flash-attn library itself does not run: what it stands for does.
    plan.flash_attention = flag("flash_attn");
    plan.step_graph = argument("step_graph").get<bool>();
    const Json& fast = inputs_.at("fast_kernels");
    if (fast.is_null()) return plan;
    plan.fused_loss = fast.at(0) == "True";
    plan.fused_rms_norm = fast.at(1) == "True";
    plan.fused_rope = fast.at(2) == "True";
    return plan;
  }

  bool has_adapters() const { return row_of(experiment_.tuning).adds_adapters; }

  PromptPlan prompt() const {
    return {.virtual_tokens = argument("num_virtual_tokens").get<int64_t>(),
            .init = argument_text("prompt_tuning_init"),
            .init_text = unescaped_text(argument_text("prompt_tuning_init_text"))};
  }

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
        "the request's experiment is in the catalog");
  return Resolver(request, settings, options, catalog).resolve();
}

std::vector<FetchRequest> absent_from_hub(const MeasurementRequest& request,
                                          const ActuatorSettings& settings,
                                          const ResolveOptions& options, const Catalog& catalog) {
  check(catalog.experiment(request.experiment) != nullptr,
        "the request's experiment is in the catalog");
  return Resolver(request, settings, options, catalog).absent_from_hub();
}

Json effective_inputs(const MeasurementRequest& request, const ResolveOptions& options) {
  const ResolveOptions defaults;
  Json inputs = request.inputs;
  if (options.cpu_ranks != defaults.cpu_ranks) inputs["cpu_ranks"] = options.cpu_ranks;
  if (options.weights != defaults.weights) inputs["weights"] = options.weights;
  if (options.padding != defaults.padding) inputs["padding"] = name_of(options.padding);
  if (reorders(options)) inputs["worst_batch_first"] = true;
  if (options.stop_when_known > 0) inputs["stop_when_known"] = options.stop_when_known;
  if (options.gradient_sync != defaults.gradient_sync) {
    inputs["gradient_sync"] = name_of(options.gradient_sync);
  }
  if (options.reduce_dtype != defaults.reduce_dtype) inputs["reduce_dtype"] = options.reduce_dtype;
  if (options.backend != defaults.backend) inputs["backend"] = options.backend;
  name_own_data(inputs, options.hf_home);
  if (options.own_model) name_own_model(inputs, options);
  return sorted(inputs);
}

std::string measurement_key(const std::string& experiment, const Json& inputs) {
  const Json canonical = {{"experiment", experiment}, {"inputs", sorted(without_names(inputs))}};
  return digest(json_text(canonical));
}

}  // namespace sftbench
