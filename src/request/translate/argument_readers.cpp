#include <algorithm>
#include <filesystem>
#include <map>

#include "sftbench/base/environment.h"
#include "sftbench/base/text.h"
#include "sftbench/jinja/template.h"
#include "sftbench/plan/tracker_spec.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_layers.h"
#include "translate/argument_reader.h"
#include "translate/argument_reasons.h"
#include "translate/foreign_datasets.h"
#include "translate/llmforge_resources.h"

namespace sftbench {

ArgumentFileReader::Read ArgumentFileReader::reader_of(const std::string& key) {
  using Self = ArgumentFileReader;
  static const std::map<std::string, Read> kReaders = {
      {"model_name_or_path", &Self::model},
      {"model_id", &Self::model},
      {"base_model", &Self::model},
      {"model_revision", &Self::revision},
      {"revision_of_model", &Self::revision},
      {"torch_dtype", &Self::dtype},
      {"dtype", &Self::dtype},
      {"dataset_name", &Self::hub_dataset},
      {"dataset_config", &Self::hub_config},
      {"dataset_train_split", &Self::hub_split},
      {"dataset_test_split", &Self::hub_test_split},
      {"dataset_mixture", &Self::handbook_mixture},
      {"dataset_mixer", &Self::old_mixture},
      {"dataset_splits", &Self::old_mixture},
      {"dataset_configs", &Self::old_mixture},
      {"datasets", &Self::datasets},
      {"data_config", &Self::data_configuration},
      {"data_config_path", &Self::data_configuration},
      {"dataprocessor", &Self::data_processor},
      {"dataset", &Self::registered_dataset},
      {"dataset_dir", &Self::dataset_folder},
      {"media_dir", &Self::nothing},
      {"chat_template", &Self::template_of},
      {"chat_template_path", &Self::template_of},
      {"chat_template_jinja", &Self::template_of},
      {"template", &Self::named_template},
      {"stage", &Self::stage},
      {"eos_token", &Self::special_token},
      {"special_tokens.bos_token", &Self::special_token},
      {"special_tokens.eos_token", &Self::special_token},
      {"special_tokens.unk_token", &Self::special_token},
      {"tokens.bos_token", &Self::special_token},
      {"tokens.eos_token", &Self::special_token},
      {"tokens.unk_token", &Self::special_token},
      {"warmup_steps", &Self::warmup},
      {"eval_steps", &Self::eval_steps},
      {"save_steps", &Self::save_steps},
      {"logging_steps", &Self::log_steps},
      {"val_size", &Self::evaluated_share},
      {"val_set_size", &Self::evaluated_share},
      {"test_split_size", &Self::evaluated_share},
      {"evals_per_epoch", &Self::evaluations_of_epoch},
      {"saves_per_epoch", &Self::saves_of_epoch},
      {"per_device_train_batch_size", &Self::batch_of_device},
      {"per_gpu_train_batch_size", &Self::batch_of_device},
      {"train_batch_size_per_device", &Self::batch_of_device},
      {"micro_batch_size", &Self::batch_of_device},
      {"num_processes", &Self::processes},
      {"num_devices", &Self::processes},
      {"parallelism_config_dp_shard_size", &Self::data_shards},
      {"dp_shard_size", &Self::data_shards},
      {"gradient_checkpointing_kwargs", &Self::checkpointing_options},
      {"activation_checkpointing_kwargs", &Self::checkpointing_options},
      {"optim", &Self::optimizer},
      {"optimizer", &Self::optimizer},
      {"fsdp_activation_checkpointing", &Self::fsdp_checkpointing},
      {"attn_implementation", &Self::attention},
      {"flash_attn_implementation", &Self::attention},
      {"flash_attn", &Self::attention},
      {"fast_kernels", &Self::fast_kernels},
      {"use_liger", &Self::liger},
      {"use_liger_kernel", &Self::liger},
      {"enable_liger_kernel", &Self::liger},
      {"liger_kernel_config.rope", &Self::liger_kernel},
      {"liger_kernel_config.rms_norm", &Self::liger_kernel},
      {"liger_kernel_config.cross_entropy", &Self::liger_kernel},
      {"liger_kernel_config.fused_linear_cross_entropy", &Self::liger_kernel},
      {"liger_rope", &Self::liger_kernel},
      {"liger_rms_norm", &Self::liger_kernel},
      {"liger_cross_entropy", &Self::liger_kernel},
      {"liger_fused_linear_cross_entropy", &Self::liger_kernel},
      {"cut_cross_entropy", &Self::cut_cross_entropy},
      {"plugins", &Self::plugins},
      {"fast_moe", &Self::experts},
      {"auto_gptq", &Self::gptq},
      {"lora_rank", &Self::lora_rank},
      {"target_modules", &Self::targets},
      {"lora_target_modules", &Self::targets},
      {"lora_target", &Self::targets},
      {"lora_target_linear", &Self::all_targets},
      {"pad_to_sequence_len", &Self::pad_to_length},
      {"save_strategy", &Self::save_strategy},
      {"logging_strategy", &Self::log_strategy},
      {"save_total_limit", &Self::total_limit},
      {"num_checkpoints_to_keep", &Self::total_limit},
      {"resume_from_checkpoint", &Self::resume},
      {"output_dir", &Self::output_folder},
      {"save_model_dir", &Self::model_folder},
      {"report_to", &Self::report_to},
      {"tracker", &Self::report_to},
      {"trackers", &Self::report_to},
      {"logging_dir", &Self::log_folder},
      {"fsdp", &Self::fsdp},
      {"deepspeed", &Self::deepspeed_key},
      {"deepspeed_config_file", &Self::deepspeed_key},
      {"worker_resources", &Self::worker_resources},
      {"trainer_resources", &Self::trainer_resources},
  };
  return kReaders.at(key);
}

// --- model and data ------------------------------------------------------------------------------

void ArgumentFileReader::model(const YamlNode& node, const std::string& path) {
  file_.model = text(node, path);
  file_.model_place = place(node, path);
}

void ArgumentFileReader::revision(const YamlNode& node, const std::string& path) {
  if (given_.model) return;  // of another model
  if (given_.predicts) return note(path + " has no effect: a prediction reads no weights");
  error(node, path, "found " + describe(node) + ", which has no equal here",
        "--model DIR with the files of this revision, or main");
}

// "auto" is what the model's files have.
void ArgumentFileReader::dtype(const YamlNode& node, const std::string& path) {
  if (is_value(node, "auto")) {
    file_.dtype_of_model = place(node, path);
  } else {
    put("torch_dtype", node, path);
  }
}

void ArgumentFileReader::hub_dataset(const YamlNode& node, const std::string& path) {
  hub_data_.name = text(node, path);
  hub_data_.source = place(node, path);
}

void ArgumentFileReader::hub_config(const YamlNode& node, const std::string& path) {
  hub_data_.config = text(node, path);
}

void ArgumentFileReader::hub_split(const YamlNode& node, const std::string& path) {
  hub_data_.split = text(node, path);
}

void ArgumentFileReader::hub_test_split(const YamlNode& node, const std::string& path) {
  hub_data_.test_split = text(node, path);
}

void ArgumentFileReader::handbook_mixture(const YamlNode& node, const std::string& path) {
  if (given_.data) return;
  read_handbook_mixture(node, path, *diagnostics_, taker());
}

// Of the handbook's earlier versions.
void ArgumentFileReader::old_mixture(const YamlNode& node, const std::string& path) {
  if (!given_.data)
    error(node, path, "has no equal here", "dataset_mixture, or " + std::string(kOtherData));
}

void ArgumentFileReader::datasets(const YamlNode& node, const std::string& path) {
  const bool of_axolotl =
      node.is_sequence() && !node.items.empty() && node.items.front().find("path") != nullptr;
  if (!of_axolotl) return read_datasets(node, path, *diagnostics_, taker(), file_.notes);
  if (!given_.data) read_axolotl_datasets(node, path, *diagnostics_, taker());
}

// A file of its own: what is wrong with it is said under its name.
void ArgumentFileReader::data_configuration(const YamlNode& node, const std::string& key) {
  const std::string path = text(node, key);
  if (path.empty()) return;
  Diagnostics diagnostics(path);
  YamlNode root;
  try {
    root = read_yaml_file(path);
  } catch (const InputError& error) {
    problems_.insert(problems_.end(), error.diagnostics().begin(), error.diagnostics().end());
    return;
  }
  const TakeValue take = [&](const std::string& property, YamlNode value, const std::string&) {
    value.line = 0;  // of the other file
    put(property, std::move(value), key);
  };
  diagnostics.unknown_keys(root, {}, {"dataprocessor", "datasets"});
  if (const YamlNode* processor = root.find("dataprocessor")) {
    read_data_processor(*processor, "dataprocessor", diagnostics, take);
  }
  const YamlNode* sets = root.find("datasets");
  if (sets == nullptr) diagnostics.error(root, "datasets", "is missing", "a list of datasets");
  if (sets != nullptr) read_datasets(*sets, "datasets", diagnostics, take, file_.notes);
  collect(diagnostics);
}

void ArgumentFileReader::data_processor(const YamlNode& node, const std::string& path) {
  read_data_processor(node, path, *diagnostics_, taker());
}

// LLaMA-Factory's names of its dataset_info.json, which are read when the stage is known.
void ArgumentFileReader::registered_dataset(const YamlNode& node, const std::string& path) {
  std::vector<std::string> names;
  for (const YamlNode& item : node.is_sequence() ? node.items : std::vector<YamlNode>{node}) {
    for (const std::string& name : parts_of(item.text, ',')) names.emplace_back(trimmed(name));
  }
  registered_.source = place(node, path);
  registered_.value = describe(node);
  registered_.names = std::move(names);
  if (registered_.beside.empty())
    registered_.beside = std::filesystem::path(diagnostics_->file()).parent_path().string();
}

void ArgumentFileReader::dataset_folder(const YamlNode& node, const std::string& path) {
  registered_.folder = text(node, path);
  registered_.beside = std::filesystem::path(diagnostics_->file()).parent_path().string();
}

// LLaMA-Factory's training on whole texts.
void ArgumentFileReader::stage(const YamlNode& node, const std::string& path) {
  if (!is_value(node, "pt"))
    return error(node, path, "found " + describe(node) + ", which has no equal here", "sft or pt");
  put("response_template", text_node("None"), path);
  of_texts_ = true;
  note(place(node, path) + " pt: entries are packed where --padding packed says so");
}

// A word is axolotl's name of a template of its own. A file may stand beside the one that names it.
void ArgumentFileReader::template_of(const YamlNode& node, const std::string& path) {
  const std::string& name = node.text;
  const bool is_word =
      node.is_scalar() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-';
      });
  const bool is_text = !node.is_scalar() || jinja::is_template(name);
  if (is_text || std::filesystem::exists(name)) return put("chat_template", node, path);
  const std::filesystem::path beside =
      std::filesystem::path(diagnostics_->file()).parent_path() / name;
  std::error_code error;
  if (std::filesystem::is_regular_file(beside, error)) {
    YamlNode file = text_node(beside.string());
    file.line = node.line;
    return put("chat_template", std::move(file), path);
  }
  if (!is_word) return put("chat_template", node, path);
  if (!name.starts_with("tokenizer_default")) named_template(node, path);
}

void ArgumentFileReader::named_template(const YamlNode& node, const std::string& path) {
  named_template_ = {place(node, path), describe(node), node.text};
}

void ArgumentFileReader::special_token(const YamlNode& node, const std::string& path) {
  const std::string token = text(node, path);
  if (token.empty()) return;
  if (given_.model) return note(place(node, path) + " has no effect: it is of another model");
  const size_t dot = path.rfind('.');
  file_.special_tokens.push_back(
      {place(node, path), dot == std::string::npos ? path : path.substr(dot + 1), token});
}

// --- steps ---------------------------------------------------------------------------------------

void ArgumentFileReader::steps(const YamlNode& node, const std::string& path,
                               std::optional<int64_t>& count_of_steps,
                               std::optional<double>& ratio) {
  const Json value = node.is_scalar() ? resolve_yaml_scalar(node.text) : Json();
  if (value.is_number_float() && value.get<double>() > 0 && value.get<double>() < 1) {
    ratio = value.get<double>();
  } else {
    count_of_steps = count(node, path);
  }
}

// transformers has both in one key.
void ArgumentFileReader::warmup(const YamlNode& node, const std::string& path) {
  const Json value = node.is_scalar() ? resolve_yaml_scalar(node.text) : Json();
  const bool is_share =
      value.is_number_float() && value.get<double>() > 0 && value.get<double>() < 1;
  put(is_share ? "warmup_ratio" : "warmup_steps", node, path);
}

void ArgumentFileReader::eval_steps(const YamlNode& node, const std::string& path) {
  std::optional<int64_t> count_of_steps;
  std::optional<double> ratio;
  steps(node, path, count_of_steps, ratio);
  if (count_of_steps || ratio) put(ratio ? "eval_steps_ratio" : "eval_steps", node, path);
}

void ArgumentFileReader::save_steps(const YamlNode& node, const std::string& path) {
  steps(node, path, file_.save_steps, file_.save_steps_ratio);
}

void ArgumentFileReader::log_steps(const YamlNode& node, const std::string& path) {
  steps(node, path, file_.log_steps, file_.log_steps_ratio);
}

// A share, or a number of entries.
void ArgumentFileReader::evaluated_share(const YamlNode& node, const std::string& path) {
  put("eval_split", node, path);
}

void ArgumentFileReader::evaluations_of_epoch(const YamlNode& node, const std::string& path) {
  evaluations_of_epoch_ = count(node, path);
}

void ArgumentFileReader::saves_of_epoch(const YamlNode& node, const std::string& path) {
  saves_of_epoch_ = count(node, path);
}

void ArgumentFileReader::batch_of_device(const YamlNode& node, const std::string& path) {
  file_.batch_of_device = count(node, path);
  file_.batch_place = place(node, path);
}

void ArgumentFileReader::processes(const YamlNode& node, const std::string& path) {
  if (is_value(node, "-1")) return;
  file_.processes = count(node, path);
  file_.processes_place = place(node, path);
}

void ArgumentFileReader::data_shards(const YamlNode& node, const std::string& path) {
  file_.data_shards = count(node, path);
}

// --- adapters ------------------------------------------------------------------------------------

void ArgumentFileReader::checkpointing_options(const YamlNode& node, const std::string& path) {
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

void ArgumentFileReader::lora_rank(const YamlNode& node, const std::string& path) {
  rank_without_alpha_ = count(node, path);
  rank_place_ = place(node, path);
  if (rank_without_alpha_) put("r", node, path);
}

void ArgumentFileReader::targets(const YamlNode& node, const std::string& path) {
  if (is_value(node, "all")) return put("target_modules", text_node("all-linear"), path);
  put("target_modules", node, path);
}

void ArgumentFileReader::all_targets(const YamlNode& node, const std::string& path) {
  all_targets_ = place(node, path);
}

void ArgumentFileReader::pad_to_length(const YamlNode& node, const std::string& path) {
  pads_to_length_ = place(node, path);
}

// --- files that a run leaves behind --------------------------------------------------------------

void ArgumentFileReader::interval(const YamlNode& node, const std::string& path,
                                  std::string& strategy) {
  const std::string found = argument_text(node);
  if (found == "no" || found == "false") {
    strategy = "no";
  } else if (found == "steps" || found == "epoch") {
    strategy = found;
  } else {
    const std::vector<std::string> known = {"epoch", "no", "steps"};
    error(node, path, "found " + describe(node) + ", which has no equal here", join(known, " or "),
          nearest_spelling(found, known));
  }
}

void ArgumentFileReader::save_strategy(const YamlNode& node, const std::string& path) {
  interval(node, path, file_.save_strategy);
}

void ArgumentFileReader::log_strategy(const YamlNode& node, const std::string& path) {
  interval(node, path, file_.log_strategy);
}

void ArgumentFileReader::total_limit(const YamlNode& node, const std::string& path) {
  file_.save_total_limit = count(node, path);
}

void ArgumentFileReader::resume(const YamlNode& node, const std::string& path) {
  const std::string found = argument_text(node);
  const bool asks = found == "false" || found == "true";
  file_.resume_from = asks ? found : text(node, path);
}

void ArgumentFileReader::output_folder(const YamlNode& node, const std::string& path) {
  file_.output_directory = text(node, path);
}

void ArgumentFileReader::model_folder(const YamlNode& node, const std::string& path) {
  file_.model_directory = text(node, path);
}

// One, or a list of them.
void ArgumentFileReader::report_to(const YamlNode& node, const std::string& path) {
  for (const YamlNode& item : node.is_sequence() ? node.items : std::vector<YamlNode>{node}) {
    if (item.text == "tensorboard") {
      tensorboard_ = place(node, path);
    } else if (item.text == "mlflow") {
      file_.trackers.push_back("mlflow=" + environment("MLFLOW_TRACKING_URI"));
    } else if (!says_nothing(item) && item.text != "none" && item.text != "None" &&
               item.text != "file_logger") {
      const std::string instead = tracker_instead_of(item.text);
      note(place(node, path) + " " + describe(item) + " has no effect" +
           (instead.empty() ? "" : ": --track " + instead));
    }
  }
}

void ArgumentFileReader::log_folder(const YamlNode& node, const std::string& path) {
  logging_directory_ = text(node, path);
}

// --- ranks ---------------------------------------------------------------------------------------

// "full_shard auto_wrap offload", or a list of such words.
void ArgumentFileReader::fsdp(const YamlNode& node, const std::string& path) {
  std::string words = argument_text(node) == "true" ? "full_shard" : node.text;
  for (const YamlNode& item : node.items) words += " " + item.text;
  for (size_t begin = words.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    YamlNode word = text_node(words.substr(begin, end - begin));
    word.line = node.line;
    chosen(*find_argument("fsdp"), word, path);
    begin = words.find_first_not_of(' ', end);
  }
}

// A file, LLMForge's {config_path: FILE}, or as transformers takes it the configuration itself,
// also as text. It is read when all else is known.
void ArgumentFileReader::deepspeed_key(const YamlNode& node, const std::string& path) {
  const std::optional<YamlNode> block = mapping_of(node);
  const YamlNode* named = block ? block->find("config_path") : &node;
  std::string found = named == nullptr ? diagnostics_->file() : text(*named, path);
  // As it was given, or beside the file that names it.
  const std::filesystem::path beside = std::filesystem::path(diagnostics_->file()).parent_path();
  if (named != nullptr && !std::filesystem::exists(found) &&
      std::filesystem::exists(beside / found)) {
    found = (beside / found).string();
  }
  if (!deepspeed_path_.empty() && deepspeed_path_ != found) {
    return error(node, path, "says what --deepspeed says, too", "one of them");
  }
  deepspeed_path_ = found;
  if (named == nullptr) deepspeed_block_ = *block;
}

void ArgumentFileReader::worker_resources(const YamlNode& node, const std::string& path) {
  read_worker_resources(node, path, *diagnostics_, taker(), file_.notes);
}

void ArgumentFileReader::trainer_resources(const YamlNode& node, const std::string& path) {
  read_trainer_resources(node, path, *diagnostics_, file_.notes);
}

}  // namespace sftbench
