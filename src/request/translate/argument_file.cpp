#include "sftbench/translate/argument_file.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/base/train_files.h"
#include "sftbench/translate/argument_options.h"
#include "sftbench/translate/file_kind.h"
#include "translate/argument_layers.h"
#include "translate/argument_reader.h"
#include "translate/deepspeed_file.h"

namespace sftbench {
namespace {

YamlNode number_node(double number) {
  YamlNode node = text_node(json_text(Json(number)));
  node.value = number;
  return node;
}

// Words that no program has, and whose nearest spelling is something else.
constexpr std::pair<std::string_view, const char*> kMeant[] = {
    {"lr", "learning_rate"},
    {"rank", "lora_r"},
    {"alpha", "lora_alpha"},
    {"dropout", "lora_dropout"},
    {"rslora", "use_rslora"},
    {"dora", "use_dora"},
    {"epochs", "num_train_epochs"},
    {"batch_size_per_device", "per_device_train_batch_size"},
    {"seq_len", "max_length"},
    {"seq_length", "max_length"},
    {"train_file", "training_data_path"},
    {"data_path", "training_data_path"}};

// Those of trl give way to those of programs around it.
constexpr std::pair<std::string_view, const char*> kOwnKeys[] = {
    {"use_peft", "trl"},
    {"use_bnb_nested_quant", "trl"},
    {"assistant_only_loss", "trl"},
    {"dataset_name", "trl"},
    {"dataset_train_split", "trl"},
    {"dataset_test_split", "trl"},
    {"dataset_mixture", "trl"},
    {"finetuning_type", "LLaMA-Factory"},
    {"cutoff_len", "LLaMA-Factory"},
    {"base_model", "axolotl"},
    {"sequence_len", "axolotl"}};

}  // namespace

ArgumentFileReader::ArgumentFileReader(const std::vector<std::string>& paths,
                                       std::string deepspeed_path, GivenElsewhere given)
    : paths_(paths), deepspeed_path_(std::move(deepspeed_path)), given_(given) {}

ArgumentFile ArgumentFileReader::read() {
  for (ArgumentLayer& layer : read_argument_layers(paths_, file_.notes)) {
    begin_file(layer.diagnostics);
    for (const auto& [key, path, node] : layer.members) {
      line_ = node.line;
      member(key, node, path);
    }
    tell_idle(layer.diagnostics.file());
    collect(layer.diagnostics);
  }
  Diagnostics together{std::string()};
  begin_beside(together);
  settle();
  collect(together);
  read_deepspeed_files();
  if (!problems_.empty()) throw InputError(problems_);
  return std::move(file_);
}

void ArgumentFileReader::member(const std::string& key, const YamlNode& node,
                                const std::string& path) {
  const ArgumentName* name = find_argument(key);
  if (name == nullptr) return unknown(key, node, path);
  // An empty text of this property lets all of an entry bear loss.
  const bool says_empty = name->what == "response_template" && node.is_scalar() && !node.is_null();
  if (key == "max_length" && node.is_null()) uncut_ = path;
  if (says_nothing(node) && !says_empty) return;
  for (const auto& [own_key, program] : kOwnKeys) {
    const bool gives_way = !program_.empty() && program == std::string_view(kTrlProgram);
    if (key == own_key && !gives_way) program_ = program;
  }
  for (const char* word : {"fsdp", "deepspeed", "zero_", "dp_shard"}) {
    const bool is_off = node.is_scalar() && argument_text(node) == "false";
    says_how_to_share_ = says_how_to_share_ || (!is_off && key.find(word) != key.npos);
  }
  if (std::any_of(name->neutral.begin(), name->neutral.end(),
                  [&node](const std::string& value) { return is_value(node, value); })) {
    return;
  }
  switch (name->use) {
    case ArgumentUse::kProperty:
      return put(name->what, node, path);
    case ArgumentUse::kRead:
      return (this->*reader_of(key))(node, path);
    case ArgumentUse::kChoice:
      return chosen(*name, node, path);
    case ArgumentUse::kFixed:
      return fixed(*name, node, path);
    case ArgumentUse::kIdle:
      break;
  }
  const auto same = std::find_if(idle_.begin(), idle_.end(),
                                 [name](const Idle& idle) { return idle.why == name->what; });
  if (same != idle_.end()) {
    same->paths.push_back(path);
  } else {
    idle_.push_back({name->what, {path}});
  }
}

void ArgumentFileReader::unknown(const std::string& key, const YamlNode& node,
                                 const std::string& path) {
  if (is_section(key)) {
    return error(node, path, "found " + describe(node), "a mapping of arguments");
  }
  if (says_nothing(node)) return;
  for (const auto& [word, meant] : kMeant) {
    if (key == word) return error(node, path, "has no equal here", {}, meant);
  }
  // To look for the nearest takes longer than all else, and only the first errors are shown.
  error(node, path, "has no equal here", {},
        diagnostics_->full() ? std::string() : nearest_spelling(key, argument_keys()));
}

void ArgumentFileReader::fixed(const ArgumentName& name, const YamlNode& node,
                               const std::string& path) {
  if (argument_text(node) == "None") return;
  std::string expected = name.what;
  const std::string neutral = join(name.neutral, " or ");
  if (!neutral.empty()) expected += (expected.empty() ? "" : ", or ") + neutral;
  error(node, path,
        neutral.empty() ? "has no equal here"
                        : "found " + describe(node) + ", which has no equal here",
        expected.empty() ? "no such key" : expected);
}

void ArgumentFileReader::chosen(const ArgumentName& name, const YamlNode& node,
                                const std::string& path) {
  const std::string found = argument_text(node);
  bool known = found == "None";
  std::vector<std::string> values;
  for (const ArgumentChoice* choice : name.choices) {
    if (is_value(node, choice->value)) {
      known = true;
      if (*choice->property != '\0') put_text(choice->property, choice->set, path);
    }
    if (values.empty() || values.back() != choice->value) values.emplace_back(choice->value);
  }
  if (known) return;
  values.insert(values.end(), name.neutral.begin(), name.neutral.end());
  error(node, path, "found " + describe(node) + ", which has no equal here", join(values, " or "),
        nearest_spelling(found, values));
}

// One line for a file, however many keys of other programs' housekeeping it has.
void ArgumentFileReader::tell_idle(const std::string& file) {
  if (idle_.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [why, paths] : idle_) parts.push_back(join(paths) + " (" + why + ")");
  note(file + ": no effect here: " + join(parts, ", "));
  idle_.clear();
}

// --- together ------------------------------------------------------------------------------------

void ArgumentFileReader::settle() {
  settle_warmup();
  settle_adapters();
  settle_evaluation();
  settle_padding();
  settle_checkpointing();
  settle_mxfp4();
  settle_kernels();
  settle_hub_data();
  settle_registered_data();
  settle_named_template();
  settle_invocation();
  file_.on_cpus = !taken("use_cpu").empty();
  file_.best_model = !taken("best_model").empty();
  if (const std::string from = taken("resume_from_checkpoint"); file_.resume_from.empty())
    file_.resume_from = from;
  settle_trackers();
  // accelerate's default.
  const bool deepspeed = !taken("uses_deepspeed").empty();
  if (deepspeed || !deepspeed_path_.empty() || deepspeed_block_) file_.stack = "deepspeed";
  if (!taken("uses_unsloth").empty()) {
    file_.stack = "unsloth";
    note("use_unsloth: `run` has kernels of its own, and `predict` takes --stack unsloth");
  }
  if (deepspeed && find("distributed_backend") == nullptr && deepspeed_path_.empty()) {
    put_text("distributed_backend", "FSDP", "distributed_type");
    put_text("fsdp_sharding_strategy", "SHARD_GRAD_OP", "distributed_type");
  }
  settle_llmforge();
  settle_whole();
  if (program_ == kTrlProgram && !uncut_.empty() && !given_.length &&
      find("model_max_length") == nullptr)
    diagnostics_->error(0, uncut_, "null cuts no entry, which has no equal here",
                        "the tokens of the longest entry");
}

void ArgumentFileReader::settle_whole() {
  const bool shares = says_how_to_share_ || !deepspeed_path_.empty() || deepspeed_block_ ||
                      find("distributed_backend") != nullptr || file_.data_shards;
  if (!shares) file_.whole_by = program_;
  file_.program = program_;
}

// Stage 3 with everything on the host, unless the file says otherwise.
void ArgumentFileReader::settle_llmforge() {
  const auto given_as = [this](const char* property, const char* key) {
    const GivenValue* value = find(property);
    return value != nullptr && value->source.find(key) != std::string::npos;
  };
  file_.of_llmforge = given_as("gpu_model", "worker_resources.") ||
                      given_as("model_max_length", "context_length") ||
                      file_.batch_place.ends_with("train_batch_size_per_device");
  if (!file_.of_llmforge || !deepspeed_path_.empty() || find("distributed_backend") != nullptr ||
      file_.on_cpus)
    return;
  const std::string source = "LLMForge without deepspeed";
  put_text("distributed_backend", "FSDP", source);
  put_text("fsdp_sharding_strategy", "FULL_SHARD", source);
  put_text("offload_optimizer", "true", source);
  put_text("offload_params", "true", source);
  note(source + ": stage 3, with parameters and the optimizer's state on the host");
}

// Without a share of the steps, none is said to have no warm-up.
void ArgumentFileReader::settle_warmup() {
  const GivenValue* steps = find("warmup_steps");
  if (steps == nullptr || !is_value(steps->value, "0") || find("warmup_ratio") != nullptr) return;
  file_.values.push_back({steps->source, "warmup_ratio", scalar_node("0")});
}

void ArgumentFileReader::settle_adapters() {
  // LLaMA-Factory trains in float32 what pure_bf16 does not leave in bfloat16.
  if (const GivenValue* tuning = find("tuning");
      tuning != nullptr && tuning->source.ends_with("finetuning_type") &&
      tuning->value.text == "full" && find("torch_dtype") == nullptr) {
    put_text("torch_dtype", "float32", "finetuning_type");
  }
  file_.activated = !taken("activated").empty();
  const GivenValue* tuned = find("tuning");
  const bool uses_peft = tuned != nullptr && tuned->source.ends_with("use_peft");
  file_.tuning = taken("tuning");
  if (const GivenValue* quantized = find("quantized_tuning")) {
    if (file_.tuning != "lora") {
      diagnostics_->error(0, quantized->source, "quantizes weights, and nothing asks for LoRA",
                          "use_peft: true, adapter: qlora or finetuning_type: lora beside it");
    }
    // trl's default.
    const bool of_trl = quantized->source.ends_with("load_in_4bit") && uses_peft;
    file_.tuning = taken("quantized_tuning");
    if (of_trl && find("bnb_4bit_use_double_quant") == nullptr)
      put_text("bnb_4bit_use_double_quant", "false", "load_in_4bit");
  }
  if (file_.tuning != "qlora") (void)taken("bnb_4bit_use_double_quant");
  if (!all_targets_.empty()) {
    std::erase_if(file_.values,
                  [](const GivenValue& value) { return value.property == "target_modules"; });
    file_.values.push_back({all_targets_, "target_modules", text_node("all-linear")});
  }
  // LLaMA-Factory's default.
  if (rank_without_alpha_ && find("lora_alpha") == nullptr) {
    file_.values.push_back(
        {rank_place_, "lora_alpha", scalar_node(std::to_string(2 * *rank_without_alpha_))});
  }
  if (file_.tuning != "full") return;
  std::vector<std::string> idle;
  for (const std::string& property : adapter_properties()) {
    if (property == "alora_invocation_string") continue;  // settle_invocation()
    if (const GivenValue* value = find(property)) idle.push_back(value->source);
    (void)taken(property);
  }
  if (!idle.empty()) note("no effect in full tuning: " + join(idle));
}

void ArgumentFileReader::settle_evaluation() {
  const bool evaluates = find("eval_split") != nullptr || find("validation_data_path") != nullptr;
  const double all = epochs().value_or(1);
  if (evaluations_of_epoch_ && evaluates && find("eval_strategy") == nullptr) {
    const double ratio = 1 / (static_cast<double>(*evaluations_of_epoch_) * all);
    put_text("eval_strategy", ratio < 1 ? "steps" : "epoch", "evals_per_epoch");
    if (ratio < 1) put("eval_steps_ratio", number_node(ratio), "evals_per_epoch");
  }
  if (saves_of_epoch_ && file_.save_strategy.empty()) {
    const double ratio = 1 / (static_cast<double>(*saves_of_epoch_) * all);
    file_.save_strategy = ratio < 1 ? "steps" : "epoch";
    if (ratio < 1) file_.save_steps_ratio = ratio;
  }
}

std::optional<double> ArgumentFileReader::epochs() const {
  const GivenValue* given = find("num_train_epochs");
  if (given == nullptr) return std::nullopt;
  const Json value = resolve_yaml_scalar(given->value.text);
  return value.is_number() && value.get<double>() > 0 ? std::optional(value.get<double>())
                                                      : std::nullopt;
}

void ArgumentFileReader::settle_padding() {
  file_.padding = taken("padding");
  if (!pads_to_length_.empty() && file_.padding.empty()) file_.padding = "max_length";
}

// transformers trains MXFP4 weights no more than this program does.
void ArgumentFileReader::settle_mxfp4() {
  const bool dequantizes = !taken("dequantize").empty();
  const GivenValue* given = find("mxfp4");
  if (given == nullptr) return;
  file_.decodes_mxfp4 = dequantizes;
  if (!dequantizes) {
    diagnostics_->error(0, given->source,
                        "weights in MXFP4 are not trained; they are decoded as they are read",
                        "dequantize: true beside it");
  }
  (void)taken("mxfp4");
}

// fms-hf-tuning reads the text beside peft_method alora alone.
void ArgumentFileReader::settle_invocation() {
  if (file_.activated || file_.tuning.empty()) return;
  const GivenValue* value = find("alora_invocation_string");
  if (value == nullptr) return;
  diagnostics_->error(0, value->source, "has no effect beside this peft_method",
                      "peft_method: alora");
}

// Where transformers writes it.
void ArgumentFileReader::settle_trackers() {
  if (tensorboard_.empty()) return;
  if (logging_directory_.empty() && !file_.output_directory.empty())
    logging_directory_ = file_.output_directory + "/runs";
  if (logging_directory_.empty())
    diagnostics_->error(0, tensorboard_, "tensorboard has no folder to write to",
                        "logging_dir or output_dir beside it");
  file_.trackers.push_back("tensorboard=" + logging_directory_);
}

void ArgumentFileReader::read_deepspeed_files() {
  if (deepspeed_block_) return deepspeed(*deepspeed_block_);
  if (deepspeed_path_.empty()) return;
  try {
    refuse_other_kind("--deepspeed", deepspeed_path_, "--deepspeed");
    deepspeed(read_yaml_file(deepspeed_path_));
  } catch (const InputError& error) {
    problems_.insert(problems_.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
}

// What is wrong with it is said under its name.
void ArgumentFileReader::deepspeed(const YamlNode& root) {
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

bool saves_files(const ArgumentFile& file) {
  const bool resumes_from_folder =
      !file.resume_from.empty() && file.resume_from != "true" && file.resume_from != "false";
  return !file.output_directory.empty() || !file.model_directory.empty() || resumes_from_folder;
}

ArgumentFile read_argument_files(const std::vector<std::string>& paths,
                                 const std::string& deepspeed_path, GivenElsewhere given) {
  return ArgumentFileReader(paths, deepspeed_path, given).read();
}

}  // namespace sftbench
