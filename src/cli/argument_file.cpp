#include "cli/argument_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "cli/argument_names.h"
#include "cli/data_configuration.h"
#include "cli/deepspeed_file.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/trackers/spec.h"

namespace sftbench {
namespace {

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
  ArgumentFileReader(const std::string& path, const std::string& deepspeed_path)
      : path_(path), diagnostics_(path), deepspeed_path_(deepspeed_path) {
    for (const auto& [name, property] : argument_properties()) known_.push_back(name);
    for (const auto& [name, values] : fixed_arguments()) known_.push_back(name);
    for (const auto& [name, read] : readers_) known_.push_back(name);
  }

  ArgumentFile read() {
    if (!path_.empty()) read_arguments();
    if (!deepspeed_path_.empty()) deepspeed(read_yaml_file(deepspeed_path_));
    diagnostics_.throw_if_failed();
    return std::move(file_);
  }

 private:
  void read_arguments() {
    const YamlNode root = read_yaml_file(path_);
    if (!root.is_mapping()) {
      diagnostics_.error(root, {}, "found " + describe(root),
                         "names of arguments and their values");
    }
    members(root, {});
    track_in_folder();
  }

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
    put_of(path_, property, std::move(value), path);
  }

  // `file`: whose key `path` says it.
  void put_of(const std::string& file, const std::string& property, YamlNode value,
              const std::string& path) {
    const int line = std::exchange(value.line, 0);
    for (YamlNode& item : value.items) item.line = 0;
    // Booleans that are texts, as Python writes them.
    if (value.is_scalar() && value.value.is_string() &&
        (value.text == "True" || value.text == "False")) {
      value.value = value.text == "True";
    }
    for (const GivenValue& other : file_.values) {
      if (other.property != property) continue;
      if (other.value.value == value.value && value.is_scalar()) return;
      const bool own = file == path_;
      return diagnostics_.error(
          own ? line : 0, own ? path : source_of(file, line, path),
          "says " + describe(value) + ", where " + other.source + " says " + describe(other.value),
          "one of them");
    }
    if (file == path_) check_domain(property, value, line, path);
    file_.values.push_back({source_of(file, line, path), property, std::move(value)});
  }

  // "arguments.yaml:3: learning_rate".
  static std::string source_of(const std::string& file, int line, const std::string& path) {
    return file + (line > 0 ? ":" + std::to_string(line) : "") + ": " + path;
  }

  // What no experiment takes is named with all else that is wrong with the file. Whether the chosen
  // one takes it is known when the experiment is.
  void check_domain(const std::string& property, const YamlNode& value, int line,
                    const std::string& path) {
    const PropertySpec* known = nullptr;
    for (const Experiment& experiment : Catalog::shipped().experiments) {
      const PropertySpec* spec = experiment.find(property);
      if (spec == nullptr) continue;
      if (spec->escaped || spec->values_from == "models" || spec->accept(value)) return;
      known = spec;
    }
    const bool several = value.is_sequence() || value.text.find(',') != std::string::npos;
    if (known == nullptr || several) return;
    diagnostics_.error(line, path, describe(value) + " is no value of " + property,
                       known->expectation(), nearest_spelling(value.text, known->values));
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
      {"parallelism_config_dp_shard_size",
       [this](const YamlNode& n, const std::string& p) { file_.data_shards = count(n, p); }},
      {"parallelism_config_cp_comm_strategy",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"allgather", [&] { put_text("context_rotation", "allgather", p); }},
                 {"alltoall", [&] { put_text("context_rotation", "ring", p); }}});
       }},
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
      {"deepspeed", [this](const YamlNode& n, const std::string& p) { deepspeed_key(n, p); }},
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

  // A file, or LLMForge's {config_path: FILE}. It is read when all else is known.
  void deepspeed_key(const YamlNode& node, const std::string& path) {
    const YamlNode* file = node.is_mapping() ? node.find("config_path") : &node;
    if (file == nullptr) return error(node, path, "found " + describe(node), "config_path: FILE");
    const std::string found = text(*file, path);
    if (!deepspeed_path_.empty() && deepspeed_path_ != found) {
      return error(node, path, "says what --deepspeed says, too", "one of them");
    }
    deepspeed_path_ = found;
  }

  // What is wrong with it is said under its name.
  void deepspeed(const YamlNode& root) {
    Diagnostics diagnostics(deepspeed_path_);
    const DeepspeedFile found = read_deepspeed(
        root, diagnostics,
        [this](const std::string& property, YamlNode value, const std::string& path) {
          put_of(deepspeed_path_, property, std::move(value), path);
        });
    diagnostics.throw_if_failed();
    file_.train_batch_size = found.train_batch_size;
    for (const std::string& note : found.notes)
      file_.notes.push_back(std::string(deepspeed_path_).append(": ").append(note));
    if (!found.batch_of_device) return;
    if (file_.batch_of_device && *file_.batch_of_device != *found.batch_of_device) {
      diagnostics_.error(
          0, deepspeed_path_ + ": train_micro_batch_size_per_gpu",
          "found " + std::to_string(*found.batch_of_device),
          "what " + path_ + " says, " + std::to_string(*file_.batch_of_device) + ", or \"auto\"");
    }
    file_.batch_of_device = found.batch_of_device;
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
      value.line = 0;  // of the other file
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
  std::string deepspeed_path_;
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

ArgumentFile read_argument_file(const std::string& path, const std::string& deepspeed_path) {
  return ArgumentFileReader(path, deepspeed_path).read();
}

}  // namespace sftbench
