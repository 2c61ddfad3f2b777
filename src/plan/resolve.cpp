#include "sftbench/plan/resolve.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "plan/known_model.h"
#include "plan/lora_targets.h"
#include "plan/mixture.h"
#include "plan/model_source.h"
#include "plan/own_data.h"
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

// Rows that are padded to model_max_length make all batches equally large.
bool reorders(const ResolveOptions& options) {
  return options.worst_batch_first && options.padding != Padding::kMaxLength;
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
    job.seed = argument("seed").get<uint64_t>();
    job.device = device();
    job.batches = batches(job.device);
    job.precision = precision();
    job.optimizer = optimizer();
    job.activations = {flag("gradient_checkpointing"), flag("gradient_checkpointing_use_reentrant"),
                       argument("offload_activations").get<bool>()};
    job.kernels = kernels();
    if (has_adapters()) job.lora = lora();
    if (job.tuning == TuningMethod::kPrompt) job.prompt = prompt();
    job.model = find_model(text("model_name"), weights_format(), settings_,
                           simulated() ? "random" : options_.weights, catalog_.models);
    if (!simulated()) refuse_what_files_say();
    if (has_adapters() && !simulated()) choose_targets();
    if (const std::string place = argument_text("tokenizer_name_or_path");
        !place.empty() && !simulated()) {
      job.model.tokenizer_directory = find_tokenizer(place, settings_);
    }
    job.parallel = parallel();
    job.data = data();
    job.evaluation = evaluation(job.data);
    if (!job.data.conversation_field.empty()) {
      job.data.chat_template =
          chat_template(argument_text("chat_template"), job.model.tokenizer_directory);
    }
    note_what_has_no_effect();
    return std::move(resolution_);
  }

  std::vector<std::string> absent_hub_models() const {
    std::vector<std::string> absent;
    if (simulated()) return absent;
    if (options_.weights != "random") {
      absent.push_back(
          absent_hub_model(text("model_name"), weights_format(), settings_, catalog_.models));
    }
    const std::string tokenizer = argument_text("tokenizer_name_or_path");
    if (!tokenizer.empty()) absent.push_back(absent_hub_tokenizer(tokenizer, settings_));
    std::erase(absent, std::string());
    return absent;
  }

 private:
  std::string text(const char* property) const { return text_or_empty(inputs_.at(property)); }
  int64_t integer(const char* property) const { return inputs_.at(property).get<int64_t>(); }
  bool flag(const char* property) const { return inputs_.at(property).get<bool>(); }
  // An input only where it differs from what the experiment fixes.
  const Json& argument(const char* name) const {
    const auto found = inputs_.find(name);
    if (found != inputs_.end()) return *found;
    const PropertySpec* spec = experiment_.find(name);
    check(spec != nullptr, "the experiment has this argument");
    return spec->default_value;
  }
  std::string argument_text(const char* name) const { return text_or_empty(argument(name)); }
  double number(const char* name) const { return argument(name).get<double>(); }
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
  bool offloads_params() const {
    return integer("number_gpus") > 0 && argument("offload_params").get<bool>();
  }
  bool distributes() const {
    return rank_count() > 1 || options_.distribute_one_rank || offloads_params();
  }
  // One GPU that offloads is a shard group of one.
  bool shards() const {
    const bool alone = rank_count() == 1 && offloads_params();
    return distributes() && (alone || text("distributed_backend") == "FSDP");
  }

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
        text("model_name"), shards() ? layer_family_of(model.hf_config) : std::string(),
        text("accelerate_config_fsdp_transformer_layer_cls_to_wrap"));
    if (!foreign.empty()) throw RunError(ReasonCode::kUnsupported, foreign);
    refuse_undivided_experts(model);
  }

  // Rule 7 of a model that the catalog does not know.
  void refuse_undivided_experts(const ModelSource& model) const {
    const int64_t fast_moe = integer("fast_moe");
    if (fast_moe < 1) return;
    const ModelConfig config = parse_model_config(model.hf_config, model.name);
    const int64_t experts = config.experts ? config.experts->count : 0;
    if (experts > 0 && experts % fast_moe == 0) return;
    throw RunError(ReasonCode::kUnsupported,
                   "fast_moe " + std::to_string(fast_moe) + ": model_name " + model.name + " has " +
                       (experts == 0 ? std::string("no experts; fast_moe 0 works")
                                     : std::to_string(experts) +
                                           " experts, which cannot be divided evenly by it"));
  }

  // What the user names stands, and has to name linears. Else the catalog's; and of a model that it
  // does not know what peft takes for the family.
  void choose_targets() {
    TrainingJob& job = resolution_.job;
    const Json& asked = argument("target_modules");
    if (asked.is_array()) {
      job.lora.target_modules = asked.get<std::vector<std::string>>();
    } else if (asked.is_string()) {
      job.lora.target_modules =
          linears_that_match(job.model.hf_config, asked.get_ref<const std::string&>());
    } else if (job.lora.target_modules.empty()) {
      job.lora.target_modules =
          usual_targets(text("model_name"), layer_family_of(job.model.hf_config));
      resolution_.notes.push_back("no --lora-targets: adapted are " +
                                  join(job.lora.target_modules));
    } else {
      leave_out_targets_without_linears();
    }
  }

  // PEFT adapts what its targets name and says nothing of a target that names no linear, as long as
  // another does. The documents' list for Bloom has one.
  void leave_out_targets_without_linears() {
    TrainingJob& job = resolution_.job;
    if (find_family(family_of(job.model.hf_config)) == nullptr) return;
    const ModelShape& shape = known_model(job.model).shape;
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
    for (const LinearShape& linear : shape.linears_before)
      if (is_lora_target(linear.name, target)) return true;
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
    plan.offload = argument("offload_params").get<bool>();
    if (!distributes()) return plan;
    plan.distribute_one_rank = rank_count() < 2;
    plan.gradient_sync = options_.gradient_sync;
    plan.reduce_dtype = options_.reduce_dtype;
    plan.expert_ranks = std::max<int64_t>(1, integer("fast_moe"));
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
    batches.per_device_batch_size = integer("batch_size") / plan.ranks;
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
    const Json& fast = inputs_.at("fast_kernels");
    if (fast.is_null()) return plan;
    plan.fused_loss = fast.at(0) == "True";
    plan.fused_rms_norm = fast.at(1) == "True";
    plan.fused_rope = fast.at(2) == "True";
    return plan;
  }

  bool has_adapters() const { return row_of(experiment_.tuning).adds_adapters; }
  bool is_quantized() const { return row_of(experiment_.tuning).quantized_weights; }
  std::string weights_format() const {
    return experiment_.hardcoded.value("weights_format", std::string("Vanilla"));
  }

  LoraPlan lora() const {
    return {.rank = integer("r"),
            .alpha = inputs_.at("lora_alpha").get<double>(),
            .dropout = number("lora_dropout"),
            .target_modules =
                options_.own_model  // a folder may be called like a model that it does not hold
                    ? std::vector<std::string>()
                    : lora_targets_of(catalog_.models, text("model_name"), is_quantized())};
  }

  PromptPlan prompt() const {
    return {.virtual_tokens = argument("num_virtual_tokens").get<int64_t>(),
            .init = argument_text("prompt_tuning_init"),
            .init_text = unescaped_text(argument_text("prompt_tuning_init_text"))};
  }

  EvaluationPlan evaluation(const DataSource& data) {
    EvaluationPlan plan;
    if (const std::string file = argument_text("validation_data_path"); !file.empty()) {
      plan.path = own_file("validation_data_path", file);
    }
    plan.split = number("eval_split");
    for (const Json& set : data.mixture.value("sets", Json::array())) {
      plan.split = std::max(plan.split, set.value("held_out", 0.0));
    }
    plan.strategy = named<IntervalStrategy>(argument_text("eval_strategy"));
    plan.steps = argument("eval_steps").get<int64_t>();
    plan.per_device_batch_size = argument("per_device_eval_batch_size").get<int64_t>();
    if (plan.path.empty() && plan.split == 0) {
      note_unless_default({"eval_strategy", "eval_steps", "per_device_eval_batch_size"},
                          "no effect without validation_data_path or eval_split");
    } else if (plan.strategy == IntervalStrategy::kNo) {
      note_unless_default({"validation_data_path", "eval_split"},
                          "no effect with eval_strategy no");
    } else if (plan.strategy != IntervalStrategy::kSteps) {
      note_unless_default({"eval_steps"}, "no effect without eval_strategy steps");
    }
    return plan;
  }

  // Absolute.
  std::string own_file(const char* property, const std::string& file) const {
    const std::string path = fs::absolute(file).lexically_normal().string();
    std::error_code error;
    if (simulated() || fs::exists(path, error)) return path;
    throw RunError(ReasonCode::kData,
                   std::string(property) + " " + file + " is neither a file nor a folder",
                   "no such file: " + path);
  }

  fs::path dataset_directory() const {
    return settings_.data_directory ? fs::path(*settings_.data_directory)
                                    : user_data_directory() / "datasets";
  }

  // An absolute one stands for itself.
  std::string token_cache(const fs::path& directory) const {
    const auto& cache = settings_.num_tokens_cache_directory;
    return cache ? (directory / *cache).string() : std::string();
  }

  DataSource data() {
    DataSource source;
    source.dataset_id = text("dataset_id");
    source.response_template = unescaped_text(argument_text("response_template"));
    source.model_max_length = integer("model_max_length");
    source.padding = options_.padding;
    source.worst_batch_first = reorders(options_);
    if (const std::string field = text("dataset_text_field"); !field.empty())
      source.text_field = field;
    source.pretokenized = argument("pretokenized").get<bool>();
    source.entry_template = unescaped_text(argument_text("data_formatter_template"));
    source.conversation_field = argument_text("conversation_column");
    source.input_field = argument_text("input_column_name");
    source.output_field = argument_text("output_column_name");
    source.sampling_seed = argument("sampling_seed").get<uint64_t>();
    if (const std::string own = argument_text("training_data_path"); !own.empty()) {
      return own_data(std::move(source), own);
    }
    if (const std::string mixture = argument_text("data_mixture"); mixture != "{}") {
      return mixed_data(std::move(source), parse_json(mixture, "data_mixture"));
    }
    const fs::path directory = dataset_directory();
    const bool images = is_vision_dataset(source.dataset_id);
    if (images) source.image_field = text("dataset_image_field");
    const fs::path file = directory / (source.dataset_id + (images ? ".parquet" : ".jsonl"));
    source.path = file.string();
    resolution_.generate_dataset = !settings_.data_directory && !simulated();
    std::error_code error;
    if (settings_.data_directory && !fs::exists(file, error)) {
      throw RunError(ReasonCode::kData,
                     "the dataset " + source.dataset_id +
                         " is not in data_directory; make it: sftbench dataset " +
                         (images ? "vision " : "text ") + source.dataset_id + " -o " + source.path,
                     "no such file: " + source.path);
    }
    source.token_cache_directory = token_cache(directory);
    return source;
  }

  DataSource own_data(DataSource source, const std::string& file) {
    source.dataset_id = own_dataset_name(file);
    source.path = own_file("training_data_path", file);
    source.token_cache_directory = token_cache(dataset_directory());  // not among the user's files
    note_unless_default({"dataset_id"}, "no effect beside training_data_path");
    if (!source.conversation_field.empty()) {
      note_unless_default({"response_template", "dataset_text_field"},
                          "no effect on conversations: what assistants say bears loss");
    }
    return source;
  }

  // Each set says what its entries are; what it leaves open is as for one set.
  DataSource mixed_data(DataSource source, const Json& mixture) {
    source.token_cache_directory = token_cache(dataset_directory());
    Json sets = Json::array();
    std::vector<std::string> names;
    for (const Json& given : mixture_sets(mixture)) {
      Json set = Json::object();
      for (const auto& [property, value] : given.items()) {
        set[mixture_field(property)] = property == "data_formatter_template"
                                           ? Json(unescaped_text(value.get<std::string>()))
                                           : value;
      }
      const std::string file = given.at("training_data_path").get<std::string>();
      set["path"] = own_file("training_data_path", file);
      if (!set.contains("held_out")) set["held_out"] = number("eval_split");
      names.push_back(own_dataset_name(file));
      if (set.contains("conversation_field")) source.conversation_field = set["conversation_field"];
      sets.push_back(std::move(set));
    }
    source.dataset_id = join(names, "+");
    source.path = sets.front().at("path");
    source.mixture = {{"sets", std::move(sets)},
                      {"stopping_strategy", argument_text("sampling_stopping_strategy")}};
    note_unless_default({"dataset_id"}, "no effect beside data_mixture");
    return source;
  }

  // --- settings that change nothing here ---------------------------------------------------------
  void note_what_has_no_effect() {
    note_sampling_without_effect();
    const std::vector<std::string> of_fsdp = {
        "fsdp_sharding_strategy", "fsdp_state_dict_type", "fsdp_use_orig_params",
        "accelerate_config_fsdp_transformer_layer_cls_to_wrap"};
    if (options_.worst_batch_first && !reorders(options_)) {
      resolution_.notes.emplace_back(
          "--worst-batch-first has no effect with --padding max_length: all batches are as large");
    }
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
    if (!flag("flash_attn") && family_of(resolution_.job.model.hf_config) == "gpt_oss") {
      resolution_.notes.emplace_back(
          "flash_attn false has no effect on gpt_oss: attention with sinks has one form");
    }
  }

  void note_sampling_without_effect() {
    const TrainingJob& job = resolution_.job;
    const std::string without = "no effect without several sets of data";
    if (job.data.mixture.empty()) note_unless_default({"sampling_stopping_strategy"}, without);
    if (job.data.mixture.empty() && job.evaluation.split == 0) {
      note_unless_default({"sampling_seed"}, without + " or eval_split");
    }
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
      const auto input = inputs_.find(property);
      if (spec == nullptr || input == inputs_.end() || *input == spec->default_value) continue;
      resolution_.notes.push_back(property + " " + json_text(*input) + " has " + effect);
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
        "the request's experiment is in the catalog");
  return Resolver(request, settings, options, catalog).resolve();
}

std::vector<std::string> absent_hub_models(const MeasurementRequest& request,
                                           const ActuatorSettings& settings,
                                           const ResolveOptions& options, const Catalog& catalog) {
  check(catalog.experiment(request.experiment) != nullptr,
        "the request's experiment is in the catalog");
  return Resolver(request, settings, options, catalog).absent_hub_models();
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
  if (options.distribute_one_rank) inputs["distribute_one_rank"] = true;
  if (options.backend != defaults.backend) inputs["backend"] = options.backend;
  if (!options.model_path.empty()) inputs["model_path"] = options.model_path;
  name_own_data(inputs);
  return sorted(inputs);
}

std::string measurement_key(const std::string& experiment, const Json& inputs) {
  const Json canonical = {{"experiment", experiment}, {"inputs", sorted(inputs)}};
  return digest(json_text(canonical));
}

}  // namespace sftbench
