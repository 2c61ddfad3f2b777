#include "cli/argument_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cli/data_configuration.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/text.h"
#include "sftbench/trackers/spec.h"

namespace sftbench {
namespace {

// Keys that are a property under another name, or under its own.
const std::map<std::string, std::string>& argument_properties() {
  static const std::map<std::string, std::string> kProperties = {
      {"adam_beta1", "adam_beta1"},
      {"adam_beta2", "adam_beta2"},
      {"adam_epsilon", "adam_epsilon"},
      {"batch_size", "batch_size"},
      {"bf16", "bf16"},
      {"chat_template", "chat_template"},
      {"context_length", "model_max_length"},
      {"conversation_column", "conversation_column"},
      {"data_formatter_template", "data_formatter_template"},
      {"dataset_text_field", "dataset_text_field"},
      {"eval_batch_size_per_device", "per_device_eval_batch_size"},
      {"eval_steps", "eval_steps"},
      {"eval_strategy", "eval_strategy"},
      {"evaluation_strategy", "eval_strategy"},
      {"fast_moe", "fast_moe"},
      {"flash_attention_2", "flash_attn"},
      {"fsdp_activation_checkpointing", "gradient_checkpointing"},
      {"fsdp_mixed_precision_policy", "accelerate_config_mixed_precision"},
      {"fsdp_sharding_strategy", "fsdp_sharding_strategy"},
      {"fsdp_state_dict_type", "fsdp_state_dict_type"},
      {"fsdp_transformer_layer_cls_to_wrap",
       "accelerate_config_fsdp_transformer_layer_cls_to_wrap"},
      {"fsdp_use_orig_params", "fsdp_use_orig_params"},
      {"gpu_model", "gpu_model"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"gradient_checkpointing", "gradient_checkpointing"},
      {"input_column_name", "input_column_name"},
      {"learning_rate", "learning_rate"},
      {"lora_alpha", "lora_alpha"},
      {"lora_dropout", "lora_dropout"},
      {"lora_r", "r"},
      {"lr_scheduler_kwargs", "lr_scheduler_kwargs"},
      {"lr_scheduler_type", "lr_scheduler_type"},
      {"max_grad_norm", "max_grad_norm"},
      {"max_length", "model_max_length"},
      {"max_seq_length", "model_max_length"},
      {"max_steps", "max_steps"},
      {"mixed_precision", "accelerate_config_mixed_precision"},
      {"model_max_length", "model_max_length"},
      {"num_epochs", "num_train_epochs"},
      {"num_machines", "number_nodes"},
      {"num_train_epochs", "num_train_epochs"},
      {"num_virtual_tokens", "num_virtual_tokens"},
      {"number_gpus", "number_gpus"},
      {"optim", "optim"},
      {"output_column_name", "output_column_name"},
      {"per_device_eval_batch_size", "per_device_eval_batch_size"},
      {"prompt_tuning_init", "prompt_tuning_init"},
      {"prompt_tuning_init_text", "prompt_tuning_init_text"},
      {"r", "r"},
      {"response_template", "response_template"},
      {"seed", "seed"},
      {"target_modules", "target_modules"},
      {"tf32", "tf32"},
      {"tokenizer_name_or_path", "tokenizer_name_or_path"},
      {"torch_dtype", "torch_dtype"},
      {"dtype", "torch_dtype"},
      {"train_path", "training_data_path"},
      {"training_data_path", "training_data_path"},
      {"use_flash_attn", "flash_attn"},
      {"valid_path", "validation_data_path"},
      {"validation_data_path", "validation_data_path"},
      {"warmup_ratio", "warmup_ratio"},
      {"warmup_steps", "warmup_steps"},
      {"weight_decay", "weight_decay"},
  };
  return kProperties;
}

// Keys whose one value is what the program does; any other has no equal. As text.
const std::map<std::string, std::set<std::string>>& fixed_arguments() {
  static const std::map<std::string, std::set<std::string>> kFixed = {
      {"add_eos_token", {"true"}},
      {"bias", {"none"}},
      {"compute_environment", {"LOCAL_MACHINE"}},
      {"dataloader_drop_last", {"false"}},
      {"dataloader_num_workers", {"0"}},
      {"ddp_find_unused_parameters", {"false"}},
      {"debug", {"false"}},
      {"do_eval", {"false", "true"}},  // eval_strategy decides
      {"do_train", {"true"}},
      {"downcast_bf16", {"no", "false"}},
      {"dynamo_backend", {"no", "NO"}},
      {"enable_cpu_affinity", {"false"}},
      {"fan_in_fan_out", {"false"}},
      {"greater_is_better", {"false"}},
      {"metric_for_best_model", {"eval_loss", "loss"}},
      {"fsdp_auto_wrap_policy", {"TRANSFORMER_BASED_WRAP"}},
      {"fsdp_backward_prefetch", {"BACKWARD_PRE"}},
      {"fsdp_backward_prefetch_policy", {"BACKWARD_PRE"}},
      {"fsdp_cpu_ram_efficient_loading", {"true"}},
      {"fsdp_forward_prefetch",
       {"false", "true"}},  // the order alone; bytes and values are the same
      {"fsdp_offload_params", {"false"}},
      {"fsdp_reshard_after_forward", {"FULL_SHARD"}},
      {"fsdp_sync_module_states", {"true"}},
      {"fsdp_version", {"1"}},
      {"include_tokens_per_second", {"true"}},
      {"init_lora_weights", {"true"}},
      {"instruction_template", {"None", ""}},
      {"lora_bias", {"none"}},
      {"machine_rank", {"0"}},
      {"main_training_function", {"main"}},
      {"modules_to_save", {"None", "[]"}},
      {"multiple_of", {"None"}},
      {"remove_unused_columns", {"true"}},
      {"rdzv_backend", {"static"}},
      {"same_network", {"true"}},
      {"split_batches", {"false"}},
      {"task_type", {"CAUSAL_LM"}},
      {"tpu_use_cluster", {"false"}},
      {"tpu_use_sudo", {"false"}},
      {"tracker", {"none", "None", "file_logger"}},  // training_logs.jsonl, of each output folder
      {"use_rslora", {"false"}},
      {"use_dora", {"false"}},
  };
  return kFixed;
}

// Keys that people will look for: what works instead.
const std::map<std::string, std::string>& argument_advice() {
  static const std::map<std::string, std::string> kAdvice = {
      {"dataset_name", "training_data_path, a file"},
      {"deepspeed", "distributed_backend FSDP: SHARD_GRAD_OP is ZeRO 2, FULL_SHARD is ZeRO 3"},
      {"parallelism_config_cp_size", "a shorter model_max_length, or gradient_checkpointing"},
      {"parallelism_config_dp_shard_size", "fsdp_sharding_strategy HYBRID_SHARD"},
      {"use_liger", "fast_kernels: --set 'fast_kernels=[\"True\",\"True\",\"True\"]'"},
      {"use_liger_kernel", "fast_kernels: --set 'fast_kernels=[\"True\",\"True\",\"True\"]'"},
      {"use_parallelism_config", "no such key"},
      {"worker_resources", "gpu_model"},
  };
  return kAdvice;
}

// Mappings whose members are arguments themselves.
bool is_section(const std::string& key) {
  static const std::set<std::string> kSections = {
      "accelerate_launch_args", "fsdp_config", "lora_config", "peft_config", "training_arguments"};
  return kSections.count(key) > 0;
}

std::string argument_text(const YamlNode& node) {
  if (node.is_null()) return "None";
  if (node.is_sequence()) return node.items.empty() ? "[]" : "a list";
  if (node.is_mapping()) return "an object";
  if (node.value.is_boolean()) return node.value.get<bool>() ? "true" : "false";
  // Python's spelling in quotes, as fms-hf-tuning's configurations have it.
  if (node.text == "True") return "true";
  return node.text == "False" ? "false" : node.text;
}

class ArgumentFileReader {
 public:
  explicit ArgumentFileReader(const std::string& path) : path_(path), diagnostics_(path) {
    for (const auto& [name, property] : argument_properties()) known_.push_back(name);
    for (const auto& [name, values] : fixed_arguments()) known_.push_back(name);
    for (const auto& [name, read] : readers_) known_.push_back(name);
  }

  ArgumentFile read() {
    const YamlNode root = read_yaml_file(path_);
    if (!root.is_mapping()) {
      diagnostics_.error(root, {}, "found " + describe(root),
                         "names of arguments and their values");
    }
    members(root, {});
    track_in_folder();
    diagnostics_.throw_if_failed();
    return std::move(file_);
  }

 private:
  void members(const YamlNode& mapping, const std::string& prefix) {
    for (const auto& [key, node] : mapping.members) {
      if (is_section(key) && node.is_mapping()) {
        members(node, prefix + key + ".");
      } else {
        member(key, node, prefix + key);
      }
    }
  }

  void member(const std::string& key, const YamlNode& node, const std::string& path) {
    if (const auto reader = readers_.find(key); reader != readers_.end()) {
      if (!node.is_null()) reader->second(node, path);
    } else if (const auto property = argument_properties().find(key);
               property != argument_properties().end()) {
      if (!node.is_null()) put(property->second, node, path);
    } else if (const auto values = fixed_arguments().find(key); values != fixed_arguments().end()) {
      const std::string found = argument_text(node);
      if (values->second.count(found) > 0) return;
      error(node, path, "found " + describe(node) + ", which has no equal here",
            join({values->second.begin(), values->second.end()}, " or "));
    } else {
      const auto instead = argument_advice().find(key);
      error(node, path, "has no equal here",
            instead == argument_advice().end() ? std::string() : instead->second,
            instead == argument_advice().end() ? nearest_spelling(key, known_) : std::string());
    }
  }

  void error(const YamlNode& node, const std::string& path, const std::string& message,
             std::string expected, std::string nearest = {}) {
    diagnostics_.error(node, path, message, std::move(expected), std::move(nearest));
  }

  void put(const std::string& property, YamlNode value, const std::string& path) {
    value.line = 0;
    for (YamlNode& item : value.items) item.line = 0;
    // Booleans that are texts, as Python writes them.
    if (value.is_scalar() && value.value.is_string() &&
        (value.text == "True" || value.text == "False")) {
      value.value = value.text == "True";
    }
    for (const GivenValue& other : file_.values) {
      if (other.property != property) continue;
      if (other.value.value == value.value && value.is_scalar()) return;
      return diagnostics_.error(0, path, "says what " + other.source + " says, too", "one of them");
    }
    file_.values.push_back({path_ + ": " + path, property, std::move(value)});
  }

  std::string text(const YamlNode& node, const std::string& path) {
    if (node.is_scalar() && !node.text.empty()) return node.text;
    error(node, path, "found " + describe(node), "a text");
    return {};
  }

  std::optional<int64_t> count(const YamlNode& node, const std::string& path) {
    constexpr int64_t kMost = 1 << 20;
    const Json& value = node.value;
    if (node.is_scalar() && value.is_number_integer() && value.get<int64_t>() > 0 &&
        value.get<int64_t>() <= kMost) {
      return value.get<int64_t>();
    }
    error(node, path, "found " + describe(node), "an integer of at least 1");
    return std::nullopt;
  }

  // One of `meanings`, by name; what a name means is done.
  void choose(const YamlNode& node, const std::string& path,
              const std::map<std::string, std::function<void()>>& meanings) {
    const auto found = meanings.find(argument_text(node));
    if (found != meanings.end()) return found->second();
    std::vector<std::string> names;
    for (const auto& [name, meaning] : meanings) names.push_back(name);
    error(node, path, "found " + describe(node) + ", which has no equal here", join(names, " or "),
          nearest_spelling(argument_text(node), names));
  }

  void put_text(const std::string& property, const std::string& value, const std::string& path) {
    YamlNode node;
    node.text = value;
    node.plain = true;
    node.value = resolve_yaml_scalar(value);
    put(property, std::move(node), path);
  }

  using Read = std::function<void(const YamlNode&, const std::string&)>;
  static void nothing() {}

  const std::map<std::string, Read> readers_ = {
      {"model_name_or_path",
       [this](const YamlNode& n, const std::string& p) { file_.model = text(n, p); }},
      {"model_id", [this](const YamlNode& n, const std::string& p) { file_.model = text(n, p); }},
      {"peft_method",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"lora", [this] { file_.tuning = "lora"; }},
                 {"pt", [this] { file_.tuning = "pt"; }},
                 {"none", [this] { file_.tuning = "full"; }},
                 {"None", [this] { file_.tuning = "full"; }}});
       }},
      {"per_device_train_batch_size",
       [this](const YamlNode& n, const std::string& p) { file_.batch_of_device = count(n, p); }},
      {"train_batch_size_per_device",
       [this](const YamlNode& n, const std::string& p) { file_.batch_of_device = count(n, p); }},
      {"num_processes",
       [this](const YamlNode& n, const std::string& p) { file_.processes = count(n, p); }},
      {"num_devices",
       [this](const YamlNode& n, const std::string& p) { file_.processes = count(n, p); }},
      {"use_cpu",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"true", [this] { file_.on_cpus = true; }}, {"false", nothing}});
       }},
      {"use_fsdp",
       [this](const YamlNode& n, const std::string& p) {
         choose(
             n, p,
             {{"true", [&] { put_text("distributed_backend", "FSDP", p); }}, {"false", nothing}});
       }},
      {"distributed_type",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"FSDP", [&] { put_text("distributed_backend", "FSDP", p); }},
                 {"MULTI_GPU", [&] { put_text("distributed_backend", "DDP", p); }},
                 {"MULTI_CPU",
                  [this, &p] {
                    file_.on_cpus = true;
                    put_text("distributed_backend", "DDP", p);
                  }},
                 {"NO", nothing},
                 {"false", nothing},
                 {"no", nothing}});
       }},
      {"fp16",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"true", [&] { put_text("accelerate_config_mixed_precision", "fp16", p); }},
                 {"false", nothing}});
       }},
      {"packing",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"true", [this] { file_.padding = "packed"; }}, {"false", nothing}});
       }},
      {"padding_free",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"huggingface", [this] { file_.padding = "none"; }},
                 {"true", [this] { file_.padding = "none"; }},
                 {"false", nothing},
                 {"a list", [this] { file_.padding = "none"; }}});
       }},
      {"padding",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"longest", [this] { file_.padding = "longest"; }},
                 {"max_length", [this] { file_.padding = "max_length"; }}});
       }},
      {"attn_implementation", [this](const YamlNode& n, const std::string& p) { attention(n, p); }},
      {"flash_attn_implementation",
       [this](const YamlNode& n, const std::string& p) { attention(n, p); }},
      {"gradient_checkpointing_kwargs",
       [this](const YamlNode& n, const std::string& p) {
         for (const auto& [key, node] : n.members) {
           if (key == "use_reentrant") {
             put("gradient_checkpointing_use_reentrant", node, p + "." + key);
           } else {
             error(node, p + "." + key, "has no equal here", "use_reentrant");
           }
         }
         if (!n.is_mapping()) error(n, p, "found " + describe(n), "{use_reentrant: false}");
       }},
      {"fast_kernels",
       [this](const YamlNode& n, const std::string& p) {
         YamlNode list = n;
         for (YamlNode& item : list.items) {
           if (item.value.is_boolean()) item.value = item.value.get<bool>() ? "True" : "False";
           item.text = item.value.is_string() ? item.value.get<std::string>() : item.text;
         }
         put("fast_kernels", std::move(list), p);
       }},
      {"dataprocessor",
       [this](const YamlNode& n, const std::string& p) {
         read_data_processor(n, p, diagnostics_, taker());
       }},
      {"datasets", [this](const YamlNode& n,
                          const std::string& p) { read_datasets(n, p, diagnostics_, taker()); }},
      {"data_config_path",
       [this](const YamlNode& n, const std::string& p) { data_configuration(text(n, p), p); }},
      {"report_to", [this](const YamlNode& n, const std::string& p) { report_to(n, p); }},
      {"logging_dir",
       [this](const YamlNode& n, const std::string& p) { logging_directory_ = text(n, p); }},
      {"output_dir",
       [this](const YamlNode& n, const std::string& p) { file_.output_directory = text(n, p); }},
      {"save_model_dir",
       [this](const YamlNode& n, const std::string& p) { file_.model_directory = text(n, p); }},
      {"save_strategy",
       [this](const YamlNode& n, const std::string& p) { interval(n, p, file_.save_strategy); }},
      {"logging_strategy",
       [this](const YamlNode& n, const std::string& p) { interval(n, p, file_.log_strategy); }},
      {"logging_steps",
       [this](const YamlNode& n, const std::string& p) { file_.log_steps = count(n, p); }},
      {"save_steps",
       [this](const YamlNode& n, const std::string& p) { file_.save_steps = count(n, p); }},
      {"save_total_limit",
       [this](const YamlNode& n, const std::string& p) { file_.save_total_limit = count(n, p); }},
      {"load_best_model_at_end",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"true", [this] { file_.best_model = true; }}, {"false", nothing}});
       }},
      {"num_checkpoints_to_keep",
       [this](const YamlNode& n, const std::string& p) { file_.save_total_limit = count(n, p); }},
      {"resume_from_checkpoint",
       [this](const YamlNode& n, const std::string& p) {
         const std::string found = argument_text(n);
         const bool asks = found == "false" || found == "true";
         file_.resume_from = asks ? found : text(n, p);
       }},
  };

  void interval(const YamlNode& node, const std::string& path, std::string& strategy) {
    choose(node, path,
           {{"no", [&] { strategy = "no"; }},
            {"false", [&] { strategy = "no"; }},
            {"steps", [&] { strategy = "steps"; }},
            {"epoch", [&] { strategy = "epoch"; }}});
  }

  void attention(const YamlNode& node, const std::string& path) {
    choose(node, path,
           {{"eager", [&] { put_text("flash_attn", "false", path); }},
            {"flash_attention_2", [&] { put_text("flash_attn", "true", path); }},
            {"sdpa", [&] { put_text("flash_attn", "true", path); }}});
  }

  // One, or a list of them.
  void report_to(const YamlNode& node, const std::string& path) {
    for (const YamlNode& item : node.is_sequence() ? node.items : std::vector<YamlNode>{node}) {
      if (item.text == "tensorboard") {
        reports_to_tensorboard_ = true;
      } else if (item.text == "mlflow") {
        file_.trackers.push_back("mlflow=" + environment("MLFLOW_TRACKING_URI"));
      } else if (item.text != "none") {
        const std::string instead = tracker_instead_of(item.text);
        error(
            item, path, "found " + describe(item) + ", which this program does not write to",
            instead.empty() ? "none, tensorboard or mlflow" : "tensorboard, or --track " + instead);
      }
    }
  }

  // Where transformers writes it.
  void track_in_folder() {
    if (!reports_to_tensorboard_) return;
    if (logging_directory_.empty() && !file_.output_directory.empty())
      logging_directory_ = file_.output_directory + "/runs";
    if (logging_directory_.empty())
      diagnostics_.error(0, "report_to", "tensorboard has no folder to write to",
                         "logging_dir or output_dir beside it");
    file_.trackers.push_back("tensorboard=" + logging_directory_);
  }

  TakeValue taker() {
    return [this](const std::string& property, YamlNode value, const std::string& path) {
      put(property, std::move(value), path);
    };
  }

  // A file of its own: what is wrong with it is said under its name.
  void data_configuration(const std::string& path, const std::string& key) {
    if (path.empty()) return;
    Diagnostics diagnostics(path);
    const YamlNode root = read_yaml_file(path);
    const TakeValue take = [&](const std::string& property, YamlNode value, const std::string&) {
      put(property, std::move(value), key);
    };
    diagnostics.unknown_keys(root, {}, {"dataprocessor", "datasets"});
    if (const YamlNode* node = root.find("dataprocessor")) {
      read_data_processor(*node, "dataprocessor", diagnostics, take);
    }
    const YamlNode* datasets = root.find("datasets");
    if (datasets == nullptr)
      diagnostics.error(root, "datasets", "is missing", "a list of datasets");
    if (datasets != nullptr) read_datasets(*datasets, "datasets", diagnostics, take);
    diagnostics.throw_if_failed();
  }

  std::string path_;
  Diagnostics diagnostics_;
  ArgumentFile file_;
  std::vector<std::string> known_;
  std::string logging_directory_;
  bool reports_to_tensorboard_ = false;
};

}  // namespace

bool saves_files(const ArgumentFile& file) {
  const bool resumes_from_folder =
      !file.resume_from.empty() && file.resume_from != "true" && file.resume_from != "false";
  return !file.output_directory.empty() || !file.model_directory.empty() || resumes_from_folder;
}

ArgumentFile read_argument_file(const std::string& path) {
  return ArgumentFileReader(path).read();
}

}  // namespace sftbench
