#include "plan/job_edits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/own_data.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/space/entity.h"

namespace sftbench {
namespace {

// Fields that are no part of what is measured, as the options that set them are no inputs.
bool is_measured(const std::string& field) {
  static const std::set<std::string> kUnmeasured = {"sample_period_s", "trace_path",
                                                    "dashboard_url",   "data.token_cache_directory",
                                                    "device.threads",  "parallel.timeout_s"};
  return kUnmeasured.count(field) == 0 && field.rfind("save.", 0) != 0;
}

// Fields that hold the value of one property.
const std::map<std::string, std::string>& properties_of_fields() {
  static const std::map<std::string, std::string> kProperties = {
      {"model.name", "model_name"},
      {"data.model_max_length", "model_max_length"},
      {"data.text_field", "dataset_text_field"},
      {"data.image_field", "dataset_image_field"},
      {"batches.gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"batches.max_steps", "max_steps"},
      {"batches.num_train_epochs", "num_train_epochs"},
      {"batches.stop_after_seconds", "stop_after_seconds"},
      {"batches.auto_stop_method", "auto_stop_method"},
      {"precision.torch_dtype", "torch_dtype"},
      {"optimizer.name", "optim"},
      {"device.gpu_model", "gpu_model"},
      {"device.nodes", "number_nodes"},
      {"parallel.layer_class", "accelerate_config_fsdp_transformer_layer_cls_to_wrap"},
      {"parallel.state_dict_type", "fsdp_state_dict_type"},
      {"parallel.use_orig_params", "fsdp_use_orig_params"},
      {"parallel.enable_roce", "enable_roce"},
      {"activations.gradient_checkpointing", "gradient_checkpointing"},
      {"activations.use_reentrant", "gradient_checkpointing_use_reentrant"},
      {"activations.offload", "offload_activations"},
      {"activations.mlp_tiles", "mlp_tiles"},
      {"optimizer.offload_state", "offload_optimizer"},
      {"parallel.offload", "offload_params"},
      {"parallel.context_ranks", "context_parallel"},
      {"kernels.flash_attention", "flash_attn"},
      {"kernels.step_graph", "step_graph"},
      {"lora.rank", "r"},
      {"lora.alpha", "lora_alpha"},
      {"lora.dropout", "lora_dropout"},
      {"lora.use_rslora", "use_rslora"},
      {"lora.use_dora", "use_dora"},
      {"lora.modules_to_save", "modules_to_save"},
      {"lora.rank_pattern", "rank_pattern"},
      {"lora.alpha_pattern", "alpha_pattern"},
      {"lora.target_modules", "target_modules"},
      {"lora.invocation_string", "alora_invocation_string"},
      {"optimizer.learning_rate", "learning_rate"},
      {"optimizer.weight_decay", "weight_decay"},
      {"optimizer.beta1", "adam_beta1"},
      {"optimizer.beta2", "adam_beta2"},
      {"optimizer.epsilon", "adam_epsilon"},
      {"optimizer.max_grad_norm", "max_grad_norm"},
      {"optimizer.schedule", "lr_scheduler_type"},
      {"optimizer.schedule_options", "lr_scheduler_kwargs"},
      {"optimizer.warmup_ratio", "warmup_ratio"},
      {"optimizer.warmup_steps", "warmup_steps"},
      {"precision.tf32", "tf32"},
      {"prompt.virtual_tokens", "num_virtual_tokens"},
      {"prompt.init", "prompt_tuning_init"},
      {"prompt.init_text", "prompt_tuning_init_text"},
      {"data.response_template", "response_template"},
      {"data.conversation_field", "conversation_column"},
      {"data.chat_template", "chat_template"},
      {"data.mask", "conversation_mask"},
      {"data.entry_template", "data_formatter_template"},
      {"data.input_field", "input_column_name"},
      {"data.output_field", "output_column_name"},
      {"data.pretokenized", "pretokenized"},
      {"model.tokenizer_directory", "tokenizer_name_or_path"},
      {"data.sampling_seed", "sampling_seed"},
      {"evaluation.split", "eval_split"},
      {"evaluation.strategy", "eval_strategy"},
      {"evaluation.steps", "eval_steps"},
      {"evaluation.steps_ratio", "eval_steps_ratio"},
      {"data.most_entries", "max_train_samples"},
      {"evaluation.per_device_batch_size", "per_device_eval_batch_size"},
      {"evaluation.on_start", "eval_on_start"},
      {"seed", "seed"},
  };
  return kProperties;
}

// Fields that options of the command line set: inputs only where they differ from the default.
const std::map<std::string, std::pair<std::string, Json>>& options() {
  static const std::map<std::string, std::pair<std::string, Json>> kOptions = {
      {"data.padding", {"padding", "longest"}},
      {"data.worst_batch_first", {"worst_batch_first", false}},
      {"batches.stop_when_known", {"stop_when_known", 0.0}},
      {"parallel.gradient_sync", {"gradient_sync", "last"}},
      {"parallel.reduce_dtype", {"reduce_dtype", ""}},
      {"parallel.distribute_one_rank", {"distribute_one_rank", false}},
  };
  return kOptions;
}

// "max_steps.5-batch_size.1" with batch_size 2. False when the property is not in the id.
bool rewrite(std::string& id, const std::string& property, const Json& value,
             const std::vector<std::string>& names) {
  const std::string head = property + ".";
  size_t begin = id.rfind(head, 0) == 0 ? 0 : id.find("-" + head);
  if (begin == std::string::npos) return false;
  begin += (begin > 0 ? 1 : 0) + head.size();
  size_t end = id.size();  // values may have hyphens and dots: the next property ends this one
  for (const std::string& name : names) end = std::min(end, id.find("-" + name + ".", begin));
  end = std::min(end, id.find("-job.", begin));
  id.replace(begin, end - begin, python_str(value));
  return true;
}

class Follower {
 public:
  Follower(TrainingJob& job, const std::vector<std::string>& edited)
      : job_(job),
        json_(to_json(job)),
        edited_(edited.begin(), edited.end()),
        experiment_(Catalog::shipped().experiment(job.experiment)) {}

  void follow() {
    follow_model();
    follow_dataset();
    follow_devices();
    follow_precision();
    follow_strategy();
    follow_kernels();
    for (const std::string& field : edited_) {
      if (followed_.count(field) == 0 && is_measured(field)) follow_field(field);
    }
    std::map<std::string, Json> sorted;
    for (const auto& [name, value] : job_.inputs.items()) sorted[name] = value;
    job_.inputs = sorted;
  }

 private:
  // Whether one of them was edited; they are taken care of, then.
  bool any_edited(const std::vector<std::string>& fields) {
    bool any = false;
    for (const std::string& field : fields) {
      any |= edited_.count(field) > 0;
      followed_.insert(field);
    }
    return any;
  }

  bool edited(const std::string& field) const { return edited_.count(field) > 0; }

  Json value_of(const std::string& field) const {
    const size_t dot = field.find('.');
    if (dot == std::string::npos) return json_.at(field);
    return json_.at(field.substr(0, dot)).at(field.substr(dot + 1));
  }

  // A property of the experiment. False when it has none of that name.
  bool put(const std::string& property, const Json& value) {
    const PropertySpec* spec = experiment_ != nullptr ? experiment_->find(property) : nullptr;
    if (spec == nullptr) return false;
    if (spec->argument) {
      put_argument(*spec, value);
      return true;
    }
    if (!job_.inputs.contains(property)) return false;
    set(property, spec->canonical(value));
    return true;
  }

  // An input only where it differs from its default.
  void put_argument(const PropertySpec& spec, const Json& value) {
    Json input = value;
    if (value.is_object()) input = json_text(value);
    if (spec.escaped && value.is_string()) input = escaped_text(value.get<std::string>());
    if (spec.one_line && value.is_string()) input = one_line_text(value.get<std::string>());
    if (!value.is_number_integer()) input = spec.canonical(input);  // seeds have 64 bits
    set(spec.identifier, input);
    if (input == spec.default_value) job_.inputs.erase(spec.identifier);
  }

  void put_option(const std::string& name, const Json& value, const Json& otherwise) {
    if (value == otherwise) {
      job_.inputs.erase(name);
    } else {
      job_.inputs[name] = value;
    }
  }

  // What no property says.
  void put_field(const std::string& field) {
    Json value = value_of(field);
    if (value.is_object()) value = digest(json_text(value));
    set("job." + field, value);
  }

  void set(const std::string& name, const Json& value) {
    if (job_.inputs.contains(name) && job_.inputs.at(name) == value) return;
    job_.inputs[name] = value;
    if (job_.entity.contains(name)) job_.entity[name] = value;
    std::vector<std::string> names = {name};
    if (experiment_ != nullptr) names = experiment_->names();
    const bool named = rewrite(job_.entity_id, name, value, names) ||
                       rewrite(job_.experiment_id, name, value, names);
    if (!named) job_.experiment_id += "-" + name + "." + python_str(value);
  }

  void follow_field(const std::string& field) {
    const auto property = properties_of_fields().find(field);
    if (property != properties_of_fields().end() && put(property->second, value_of(field))) return;
    const auto option = options().find(field);
    if (option != options().end()) {
      put_option(option->second.first, value_of(field), option->second.second);
    } else {
      put_field(field);
    }
  }

  // Random weights of the architecture that the catalog has under this name.
  bool is_what_it_is_called() const {
    const ModelFacts* facts = Catalog::shipped().models.find(job_.model.name);
    return edited("model.name") && job_.model.weights_directory.empty() && facts != nullptr &&
           facts->hf_config == job_.model.hf_config;
  }

  // Another architecture or other weights are another model, whatever it is still called.
  void follow_model() {
    if (is_what_it_is_called()) followed_.insert("model.hf_config");
    bool another = false;
    for (const char* field : {"model.hf_config", "model.weights_directory"}) {
      if (followed_.count(field) > 0 || !any_edited({field})) continue;
      another = true;
      put_field(field);
    }
    if (edited("model.weights_directory")) {
      put_option("weights", job_.model.weights_directory.empty() ? "random" : "auto", "auto");
    }
    if (another && !edited("model.name")) put("model_name", job_.model.name + "-edited");
  }

  // A dataset's file has its name, and lies in any folder.
  void follow_dataset() {
    if (!any_edited({"data.dataset_id", "data.path"})) return;
    if (!edited("data.dataset_id")) put_field("data.path");
    put("dataset_id", own_dataset_name(job_.data.path));
  }

  void follow_devices() {
    if (!any_edited({"device.kind", "device.ranks", "parallel.context_ranks",
                     "batches.per_device_batch_size"}))
      return;
    const bool gpus = job_.device.kind == "cuda";
    put("number_gpus", gpus ? job_.device.ranks : 0);
    put_option("cpu_ranks", gpus ? 1 : job_.device.ranks, 1);
    put("batch_size", job_.batches.per_device_batch_size * data_ranks(job_));
  }

  // Autocast comes from two properties, and in some experiments from none.
  void follow_precision() {
    if (!any_edited({"precision.autocast"})) return;
    const Autocast autocast = job_.precision.autocast;
    put("accelerate_config_mixed_precision", name_of(autocast));
    if (autocast != Autocast::kBf16) put("bf16", false);
    const bool fixed = experiment_ == nullptr || experiment_->hardcoded.value("fp16", false);
    if (fixed) put_field("precision.autocast");
  }

  void follow_strategy() {
    if (!any_edited({"parallel.strategy"})) return;
    const bool shards = job_.parallel.strategy != Strategy::kDdp;
    put("distributed_backend", shards ? "FSDP" : "DDP");
    if (shards) put("fsdp_sharding_strategy", name_of(job_.parallel.strategy));
  }

  void follow_kernels() {
    if (!any_edited({"kernels.fused_loss", "kernels.fused_rms_norm", "kernels.fused_rope"})) return;
    Json fast = Json::array();
    for (const bool fused :
         {job_.kernels.fused_loss, job_.kernels.fused_rms_norm, job_.kernels.fused_rope}) {
      fast.push_back(fused ? "True" : "False");
    }
    put("fast_kernels", fast);
  }

  TrainingJob& job_;
  const Json json_;
  const std::set<std::string> edited_;
  std::set<std::string> followed_;
  const Experiment* experiment_;
};

// Whether `value`, as a space spells it, is the input.
bool is_value_of(const PropertySpec& spec, const Json& value, const Json& input) {
  YamlNode node;
  node.value = value;
  if (value.is_array()) {
    node.kind = YamlNode::Kind::kSequence;
    for (const Json& item : value) {
      YamlNode& element = node.items.emplace_back();
      element.value = item;
      element.text = item.is_string() ? item.get<std::string>() : json_text(item);
    }
  }
  const std::optional<Json> accepted = spec.accept(node);
  return accepted && spec.canonical(*accepted) == input;
}

void refuse(const TrainingJob& job, const std::vector<std::string>& edited,
            const std::string& origin) {
  const auto is_edited = [&](const char* field) {
    return std::find(edited.begin(), edited.end(), field) != edited.end();
  };
  std::vector<Diagnostic> errors;
  const auto error = [&](const std::string& key, std::string message, std::string expected) {
    errors.push_back({origin, 0, key, std::move(message), std::move(expected), {}});
  };
  const Experiment* experiment = Catalog::shipped().experiment(job.experiment);
  for (const auto& [property, value] : job.entity.items()) {
    const PropertySpec* spec = experiment != nullptr ? experiment->find(property) : nullptr;
    if (spec == nullptr || !job.inputs.contains(property)) continue;
    const Json& input = job.inputs.at(property);
    // Inputs by the content of their files (own_data.h, own_model.h).
    const bool by_content = property == "data_mixture" || (property == "tokenizer_name_or_path" &&
                                                           job.inputs.contains("model_config"));
    if (by_content) continue;
    // A model that model_map names is none of the experiment's values.
    if (value == input || is_value_of(*spec, value, input)) continue;
    error("entity." + property, "was edited, and is what the space says of an input",
          json_text(input));
  }
  for (const char* field : {"experiment", "experiment_id", "entity_id", "inputs"}) {
    if (!is_edited(field)) continue;
    error(field, "was edited, and follows from the job's other fields",
          "an edit of those (batch_size: batches.per_device_batch_size; r: lora.rank), or another "
          "space");
  }
  if (is_edited("model.name") && !is_edited("model.hf_config") &&
      !is_edited("model.weights_directory")) {
    error("model.name", "was edited, and the model is the one that it was",
          "with it model.hf_config or model.weights_directory");
  }
  const std::string file = own_dataset_name(job.data.path);
  if (is_edited("data.dataset_id") && job.data.dataset_id != file) {
    error("data.dataset_id", "was edited, and data.path is " + job.data.path,
          "with it data.path, a file of that name");
  }
  if (!errors.empty()) throw InputError(std::move(errors));
}

}  // namespace

std::vector<std::string> follow_edits(TrainingJob& job, const std::vector<std::string>& edited,
                                      const std::string& origin) {
  refuse(job, edited, origin);
  std::vector<std::string> measured;
  std::copy_if(edited.begin(), edited.end(), std::back_inserter(measured), is_measured);
  if (!measured.empty()) Follower(job, measured).follow();
  return measured;
}

}  // namespace sftbench
