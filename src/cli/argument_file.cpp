#include "cli/argument_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "cli/argument_layers.h"
#include "cli/argument_names.h"
#include "cli/argument_options.h"
#include "cli/argument_values.h"
#include "cli/data_configuration.h"
#include "cli/deepspeed_file.h"
#include "cli/llmforge_resources.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/text.h"
#include "sftbench/base/train_files.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/trackers/spec.h"

namespace sftbench {
namespace {

class ArgumentFileReader : ArgumentValues {
 public:
  ArgumentFileReader(const std::vector<std::string>& paths, std::string deepspeed_path)
      : paths_(paths), deepspeed_path_(std::move(deepspeed_path)) {
    for (const auto& [name, property] : argument_properties()) known_.push_back(name);
    for (const auto& [name, values] : fixed_arguments()) known_.push_back(name);
    for (const auto& [name, why] : arguments_without_effect()) known_.push_back(name);
    for (const auto& [name, read] : readers_) known_.push_back(name);
  }

  ArgumentFile read() {
    for (ArgumentLayer& layer : read_argument_layers(paths_, file_.notes)) {
      begin_file(layer.diagnostics);
      for (const auto& [key, path, node] : layer.members) {
        line_ = node.line;
        member(key, node, path);
      }
      put_hub_data();
      collect(layer.diagnostics);
    }
    Diagnostics together{std::string()};
    check_mxfp4(together);
    check_invocation(together);
    track_in_folder(together);
    collect(together);
    if (deepspeed_block_) {
      deepspeed(*deepspeed_block_);
    } else if (!deepspeed_path_.empty()) {
      deepspeed(read_yaml_file(deepspeed_path_));
    }
    if (!problems_.empty()) throw InputError(problems_);
    return std::move(file_);
  }

 private:
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
    } else if (const auto idle = arguments_without_effect().find(key);
               idle != arguments_without_effect().end()) {
      if (!node.is_null()) note(place(node, path) + " has no effect: " + idle->second);
    } else if (is_section(key)) {
      error(node, path, "found " + describe(node), "a mapping of arguments");
    } else {
      const auto instead = argument_advice().find(key);
      const bool advised = instead != argument_advice().end();
      // To look for the nearest takes longer than all else, and only the first errors are shown.
      const bool looks = !advised && !diagnostics_->full();
      error(node, path, "has no equal here", advised ? instead->second : std::string(),
            looks ? nearest_spelling(key, known_) : std::string());
    }
  }

  using Read = std::function<void(const YamlNode&, const std::string&)>;
  static void nothing() {}

  const std::map<std::string, Read> readers_ = {
      {"model_name_or_path", [this](const YamlNode& n, const std::string& p) { model(n, p); }},
      {"model_id", [this](const YamlNode& n, const std::string& p) { model(n, p); }},
      {"peft_method",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"lora", [this] { file_.tuning = "lora"; }},
                 {"alora",
                  [this] {
                    file_.tuning = "lora";
                    file_.activated = true;
                  }},
                 {"pt", [this] { file_.tuning = "pt"; }},
                 {"none", [this] { file_.tuning = "full"; }},
                 {"None", [this] { file_.tuning = "full"; }}});
       }},
      {"per_device_train_batch_size",
       [this](const YamlNode& n, const std::string& p) { batch_of_device(n, p); }},
      {"train_batch_size_per_device",
       [this](const YamlNode& n, const std::string& p) { batch_of_device(n, p); }},
      {"num_processes", [this](const YamlNode& n, const std::string& p) { processes(n, p); }},
      {"num_devices", [this](const YamlNode& n, const std::string& p) { processes(n, p); }},
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
      {"fsdp", [this](const YamlNode& n, const std::string& p) { fsdp(n, p); }},
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
       [this](const YamlNode& n, const std::string& p) { checkpointing_options(n, p); }},
      {"no_gradient_checkpoint",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"true", [&] { put_text("gradient_checkpointing", "false", p); }},
                 {"false", [&] { put_text("gradient_checkpointing", "true", p); }}});
       }},
      {"use_liger", [this](const YamlNode& n, const std::string& p) { liger(n, p); }},
      {"use_liger_kernel", [this](const YamlNode& n, const std::string& p) { liger(n, p); }},
      {"quantization_method",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p,
                {{"mxfp4", [&] { mxfp4_ = place(n, p); }}, {"none", nothing}, {"None", nothing}});
       }},
      {"dequantize",
       [this](const YamlNode& n, const std::string& p) {
         choose(n, p, {{"true", [this] { dequantizes_ = true; }}, {"false", nothing}});
       }},
      {"worker_resources",
       [this](const YamlNode& n, const std::string& p) {
         read_worker_resources(n, p, *diagnostics_, taker(), file_.notes);
       }},
      {"trainer_resources",
       [this](const YamlNode& n, const std::string& p) {
         read_trainer_resources(n, p, *diagnostics_, file_.notes);
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
         read_data_processor(n, p, *diagnostics_, taker());
       }},
      {"dataset_name",
       [this](const YamlNode& n, const std::string& p) {
         hub_data_.line = n.line;
         hub_data_.key = p;
         hub_data_.name = text(n, p);
       }},
      {"dataset_config",
       [this](const YamlNode& n, const std::string& p) { hub_data_.config = text(n, p); }},
      {"dataset_train_split",
       [this](const YamlNode& n, const std::string& p) { hub_data_.split = text(n, p); }},
      {"datasets", [this](const YamlNode& n,
                          const std::string& p) { read_datasets(n, p, *diagnostics_, taker()); }},
      {"data_config",
       [this](const YamlNode& n, const std::string& p) { data_configuration(text(n, p), p); }},
      {"data_config_path",
       [this](const YamlNode& n, const std::string& p) { data_configuration(text(n, p), p); }},
      {"report_to", [this](const YamlNode& n, const std::string& p) { report_to(n, p); }},
      {"tracker", [this](const YamlNode& n, const std::string& p) { report_to(n, p); }},
      {"trackers", [this](const YamlNode& n, const std::string& p) { report_to(n, p); }},
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

  void model(const YamlNode& node, const std::string& path) {
    file_.model = text(node, path);
    file_.model_place = place(node, path);
  }

  void batch_of_device(const YamlNode& node, const std::string& path) {
    file_.batch_of_device = count(node, path);
    file_.batch_place = place(node, path);
  }

  void processes(const YamlNode& node, const std::string& path) {
    file_.processes = count(node, path);
    file_.processes_place = place(node, path);
  }

  void checkpointing_options(const YamlNode& node, const std::string& path) {
    const std::optional<YamlNode> options = mapping_of(node);
    if (!options) return error(node, path, "found " + describe(node), "{\"use_reentrant\": false}");
    for (const auto& [key, value] : options->members) {
      if (key == "use_reentrant") {
        put("gradient_checkpointing_use_reentrant", value, path + "." + key);
      } else {
        error(value, path + "." + key, "has no equal here", "use_reentrant");
      }
    }
  }

  // Its kernels are the three of fast_kernels.
  void liger(const YamlNode& node, const std::string& path) {
    const auto all = [&] {
      YamlNode kernels;
      kernels.kind = YamlNode::Kind::kSequence;
      kernels.line = node.line;
      kernels.items.assign(3, text_node("True"));
      put("fast_kernels", std::move(kernels), path);
    };
    choose(node, path, {{"true", all}, {"false", nothing}});
  }

  // "full_shard auto_wrap offload", or a list of such words.
  void fsdp(const YamlNode& node, const std::string& path) {
    std::string words = argument_text(node) == "true" ? "full_shard" : node.text;
    for (const YamlNode& item : node.items) words += " " + item.text;
    const auto shard = [&](const char* strategy) {
      put_text("distributed_backend", "FSDP", path);
      put_text("fsdp_sharding_strategy", strategy, path);
    };
    const std::map<std::string, std::function<void()>> meanings = {
        {"full_shard", [&] { shard("FULL_SHARD"); }},
        {"shard_grad_op", [&] { shard("SHARD_GRAD_OP"); }},
        {"no_shard", [&] { shard("NO_SHARD"); }},
        {"hybrid_shard", [&] { shard("HYBRID_SHARD"); }},
        {"hybrid_shard_zero2", [&] { shard("HYBRID_SHARD_ZERO2"); }},
        {"offload", [&] { put_text("offload_params", "true", path); }},
        {"auto_wrap", nothing},
        {"false", nothing}};
    for (size_t begin = words.find_first_not_of(' '); begin != std::string::npos;) {
      const size_t end = std::min(words.find(' ', begin), words.size());
      YamlNode word = text_node(words.substr(begin, end - begin));
      word.line = node.line;
      choose(word, path, meanings);
      begin = words.find_first_not_of(' ', end);
    }
  }

  // The kernels of others compute what this program's attention does.
  void attention(const YamlNode& node, const std::string& path) {
    const bool foreign =
        node.text == "flash_attention_3" || (node.text.starts_with("kernels-community/") &&
                                             node.text.find("flash-attn") != std::string::npos);
    if (foreign) {
      note(place(node, path) + " " + describe(node) + ": attention is this program's own");
      return put_text("flash_attn", "true", path);
    }
    choose(node, path,
           {{"eager", [&] { put_text("flash_attn", "false", path); }},
            {"flash_attention_2", [&] { put_text("flash_attn", "true", path); }},
            {"sdpa", [&] { put_text("flash_attn", "true", path); }}});
  }

  // transformers trains MXFP4 weights no more than this program does.
  void check_mxfp4(Diagnostics& diagnostics) {
    file_.decodes_mxfp4 = !mxfp4_.empty() && dequantizes_;
    if (mxfp4_.empty() || dequantizes_) return;
    diagnostics.error(0, mxfp4_,
                      "weights in MXFP4 are not trained; they are decoded as they are read",
                      "dequantize: true beside it");
  }

  // One, or a list of them.
  void report_to(const YamlNode& node, const std::string& path) {
    for (const YamlNode& item : node.is_sequence() ? node.items : std::vector<YamlNode>{node}) {
      if (item.text == "tensorboard") {
        tensorboard_ = place(node, path);
      } else if (item.text == "mlflow") {
        file_.trackers.push_back("mlflow=" + environment("MLFLOW_TRACKING_URI"));
      } else if (item.text != "none" && item.text != "None" && item.text != "file_logger") {
        const std::string instead = tracker_instead_of(item.text);
        error(
            item, path, "found " + describe(item) + ", which this program does not write to",
            instead.empty() ? "none, tensorboard or mlflow" : "tensorboard, or --track " + instead);
      }
    }
  }

  // fms-hf-tuning reads the text beside peft_method alora alone.
  void check_invocation(Diagnostics& diagnostics) {
    if (file_.activated || file_.tuning.empty()) return;
    for (const GivenValue& value : file_.values) {
      if (value.property != "alora_invocation_string") continue;
      diagnostics.error(0, value.source, "has no effect beside this peft_method",
                        "peft_method: alora");
    }
  }

  // Where transformers writes it.
  void track_in_folder(Diagnostics& diagnostics) {
    if (tensorboard_.empty()) return;
    if (logging_directory_.empty() && !file_.output_directory.empty())
      logging_directory_ = file_.output_directory + "/runs";
    if (logging_directory_.empty())
      diagnostics.error(0, tensorboard_, "tensorboard has no folder to write to",
                        "logging_dir or output_dir beside it");
    file_.trackers.push_back("tensorboard=" + logging_directory_);
  }

  // trl's names of a dataset, of which --data makes one. They stand together in one file.
  void put_hub_data() {
    const HubData data = std::exchange(hub_data_, {});
    if (data.name.empty()) {
      if (data.config.empty() && data.split.empty()) return;
      diagnostics_->error(0, data.config.empty() ? "dataset_train_split" : "dataset_config",
                          "is given alone", "dataset_name beside it");
      return;
    }
    DatasetPart part;
    part.config = data.config;
    if (!data.split.empty()) part.split = data.split;
    YamlNode node = text_node(data.name + text_of(part));
    node.line = data.line;
    put("training_data_path", std::move(node), data.key);
  }

  // A file, LLMForge's {config_path: FILE}, or as transformers takes it the configuration itself, also as text. It is
  // read when all else is known.
  void deepspeed_key(const YamlNode& node, const std::string& path) {
    const std::optional<YamlNode> block = mapping_of(node);
    const YamlNode* named = block ? block->find("config_path") : &node;
    const std::string found = named == nullptr ? diagnostics_->file() : text(*named, path);
    if (!deepspeed_path_.empty() && deepspeed_path_ != found) {
      return error(node, path, "says what --deepspeed says, too", "one of them");
    }
    deepspeed_path_ = found;
    if (named == nullptr) deepspeed_block_ = *block;
  }

  // What is wrong with it is said under its name.
  void deepspeed(const YamlNode& root) {
    Diagnostics diagnostics(deepspeed_path_);
    begin_beside(diagnostics);
    const DeepspeedFile found = read_deepspeed(root, diagnostics, taker());
    file_.train_batch_size = found.train_batch_size;
    file_.train_batch_place = deepspeed_path_ + ": train_batch_size";
    for (const std::string& text : found.notes)
      note(std::string(deepspeed_path_).append(": ").append(text));
    const std::string key = "train_micro_batch_size_per_gpu";
    if (found.batch_of_device && file_.batch_of_device &&
        *file_.batch_of_device != *found.batch_of_device) {
      diagnostics.error(0, key, "found " + std::to_string(*found.batch_of_device),
                        "what " + file_.batch_place + " says, " +
                            std::to_string(*file_.batch_of_device) + ", or \"auto\"");
    } else if (found.batch_of_device) {
      file_.batch_of_device = found.batch_of_device;
      file_.batch_place = place_of(deepspeed_path_, 0, key);
    }
    collect(diagnostics);
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
    collect(diagnostics);
  }

  const std::vector<std::string>& paths_;
  std::string deepspeed_path_;
  std::optional<YamlNode> deepspeed_block_;  // where the file of arguments holds it
  std::vector<std::string> known_;
  struct HubData {
    int line = 0;
    std::string key, name, config, split;
  } hub_data_;
  std::string logging_directory_;
  std::string tensorboard_, mxfp4_;  // places of what asks for them
  bool dequantizes_ = false;
};

}  // namespace

bool saves_files(const ArgumentFile& file) {
  const bool resumes_from_folder =
      !file.resume_from.empty() && file.resume_from != "true" && file.resume_from != "false";
  return !file.output_directory.empty() || !file.model_directory.empty() || resumes_from_folder;
}

ArgumentFile read_argument_files(const std::vector<std::string>& paths,
                                 const std::string& deepspeed_path) {
  return ArgumentFileReader(paths, deepspeed_path).read();
}

}  // namespace sftbench
