#include "cli/own_training.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "cli/given_arguments.h"
#include "cli/model_folder.h"
#include "cli/own_data.h"
#include "cli/quantized_method.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/measure/nvml.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualLength = 2048, kUsualLengthOfTrl = 1024;

constexpr std::string_view kBatchOfDevice = "per_device_train_batch_size";

enum class DefaultOf { kAll, kAdapters, kConversations };

struct ProgramDefault {
  const char* program;
  std::string_view property;
  const char* value;
  DefaultOf of = DefaultOf::kAll;
};

// trl's SFTConfig and ModelConfig, axolotl's schemas, LLaMA-Factory's finetuning_args.py and
// model_args.py, and TrainingArguments of transformers beside the first and the last. A batch is
// that of a device.
constexpr ProgramDefault kProgramDefaults[] = {
    {"trl", kBatchOfDevice, "8"},
    {"trl", "gradient_accumulation_steps", "1"},
    {"trl", "num_train_epochs", "3"},
    {"trl", "learning_rate", "2e-05"},
    {"trl", "lr_scheduler_type", "linear"},
    {"trl", "warmup_ratio", "0"},
    {"trl", "torch_dtype", "float32"},
    {"trl", "bf16", "true"},
    {"trl", "r", "16", DefaultOf::kAdapters},
    {"trl", "lora_alpha", "32", DefaultOf::kAdapters},
    {"trl", "conversation_mask", "all", DefaultOf::kConversations},
    {"LLaMA-Factory", kBatchOfDevice, "8"},
    {"LLaMA-Factory", "gradient_accumulation_steps", "1"},
    {"LLaMA-Factory", "num_train_epochs", "3"},
    {"LLaMA-Factory", "learning_rate", "5e-05"},
    {"LLaMA-Factory", "lr_scheduler_type", "linear"},
    {"LLaMA-Factory", "warmup_ratio", "0"},
    {"LLaMA-Factory", "r", "8", DefaultOf::kAdapters},
    {"LLaMA-Factory", "lora_alpha", "16", DefaultOf::kAdapters},
    {"LLaMA-Factory", "lora_dropout", "0", DefaultOf::kAdapters},
    {"LLaMA-Factory", "target_modules", "all-linear", DefaultOf::kAdapters},
    {"axolotl", "gradient_accumulation_steps", "1"},
    {"axolotl", "gradient_checkpointing", "false"},
};

class Gathering {
 public:
  Gathering(const Selection& selection, const DataSearch& search)
      : selection_(selection),
        search_(search),
        given_{given_values(selection.arguments), selection.assignments} {
    own_.experiment = selection.experiment;
  }

  OwnTraining gather() {
    if (!selection_.arguments_paths.empty() || !selection_.deepspeed_path.empty()) add_file();
    add_model();
    const bool holds_out = check_own_data(given_, selection_, search_, own_.model.folder);
    add_defaults_of_program();
    if (holds_out && !given_.says("eval_strategy")) add_default("eval_strategy", "epoch");
    const bool file_of_set_model =
        !selection_.arguments_paths.empty() && given_.is_set("model_name");
    if (selection_.space_path.empty() &&
        (given_.find("model_name") != nullptr || file_of_set_model ||
         given_.says_any({"training_data_path", "data_mixture"}))) {
      choose_experiment();
      add_defaults();
    }
    own_.values = std::move(given_.values);
    return std::move(own_);
  }

 private:
  void add_file() {
    const GivenElsewhere given = {
        .model = !selection_.model.empty() || given_.is_set("model_name"),
        .data = given_.says_any({"training_data_path", "data_mixture", "dataset_id"}),
        .length = given_.says("model_max_length") || given_.is_set("model_max_length"),
        .predicts = selection_.predicts};
    own_.file = read_argument_files(selection_.arguments_paths, selection_.deepspeed_path, given);
    for (const std::string& note : own_.file.notes) spdlog::info("{}", note);
    std::vector<GivenValue> values = own_.file.values;
    for (GivenValue& value : values) {
      const bool other_data = given.data && value.property == "data_mixture";
      if (!given_.says(value.property) && !other_data) given_.values.push_back(std::move(value));
    }
    const ArgumentFile& file = own_.file;
    // The version that first has it: no other thing depends on it.
    if (given_.says("fast_moe") && !given_.says("fms_hf_tuning_version") &&
        selection_.space_path.empty())
      given_.values.push_back({"fast_moe", "fms_hf_tuning_version", text_node("2.4.0")});
    if (file.activated && selection_.space_path.empty() &&
        !given_.says("alora_invocation_string")) {
      refuse_given(join(selection_.arguments_paths) + ": peft_method",
                   "is alora, and alora_invocation_string is not given",
                   "with it the text from whose last occurrence on adapters act");
    }
    const bool ranks_on_cpus =
        selection_.ranks > 1 && !file.processes && !given_.says("number_gpus");
    const bool cpus = file.on_cpus || set_to_no_gpus() || ranks_on_cpus;
    if (file.processes && !given_.says("number_gpus") && !file.on_cpus)
      given_.add(file.processes_place, "number_gpus", *file.processes);
    if (file.on_cpus && !given_.says("number_gpus")) given_.add("use_cpu", "number_gpus", 0);
    const int64_t gpus = given_.number_of("number_gpus");  // of --set rather than of the file
    const int64_t ranks =
        cpus ? cpu_ranks(selection_, file) : (gpus > 0 ? gpus : file.processes.value_or(1));
    if (file.batch_of_device && !given_.says("batch_size")) {
      given_.add(file.batch_place, "batch_size", *file.batch_of_device * groups_of_readers(ranks));
    }
    if (file.train_batch_size) add_train_batch(*file.train_batch_size, ranks);
    readers_ = groups_of_readers(ranks);
    if (file.program == "trl" && given_.says("training_data_path") &&
        !given_.says_any({"pretokenized", "conversation_column", "data_formatter_template",
                          "dataset_text_field", "input_column_name", "output_column_name"}))
      given_.values.push_back({kDefaultOfTrl, "dataset_text_field", text_node("text")});
    if (file.data_shards) check_shards(*file.data_shards, ranks);
    if (ranks > 1 && !file.whole_by.empty()) add_whole_parameters(file.whole_by);
  }

  // What a program does where its file says nothing, and the experiments do something else.
  void add_defaults_of_program() {
    if (own_.file.program.empty() || !selection_.space_path.empty()) return;
    std::vector<std::string> added;
    for (const ProgramDefault& row : kProgramDefaults) {
      if (own_.file.program != row.program || !matters(row)) continue;
      const std::string source = std::string("the default of ") + row.program;
      const bool batch = row.property == kBatchOfDevice;
      if (batch) {
        given_.add(source, "batch_size", std::stoll(row.value) * readers_);
      } else {
        given_.values.push_back({source, std::string(row.property), scalar_node(row.value)});
      }
      added.push_back(std::string(row.property) + " " + row.value);
    }
    if (!added.empty()) spdlog::info("defaults of {}: {}", own_.file.program, join(added));
  }

  bool matters(const ProgramDefault& row) const {
    const std::string& method = own_.file.tuning;
    const bool adapts = method == "lora" || find_quantized_method(method) != nullptr;
    if (row.of == DefaultOf::kAdapters && !adapts) return false;
    if (row.of == DefaultOf::kConversations && !given_.says("conversation_column")) return false;
    if (row.property == "num_train_epochs" && given_.number_of("max_steps") > 0) return false;
    // What says the same in another unit.
    static const std::map<std::string_view, const char*> kOthers = {
        {kBatchOfDevice, "batch_size"},
        {"bf16", "accelerate_config_mixed_precision"},
        {"warmup_ratio", "warmup_steps"}};
    const auto other = kOthers.find(row.property);
    return !given_.says(std::string(row.property)) &&
           (other == kOthers.end() || !given_.says(other->second));
  }

  // What the program does, whatever the experiments' default is. A space says it itself.
  void add_whole_parameters(const std::string& program) {
    if (!selection_.space_path.empty() ||
        given_.says_any({"distributed_backend", "fsdp_sharding_strategy", "offload_params"}))
      return;
    const std::string source = program + " without FSDP or DeepSpeed";
    given_.values.push_back({source, "distributed_backend", text_node("DDP")});
    spdlog::info("{}: distributed_backend DDP, as it trains several ranks", source);
  }

  // Ranks that divide rows read the same entries. Groups that do not fit are refused elsewhere.
  int64_t groups_of_readers(int64_t ranks) const {
    const int64_t divided = std::max<int64_t>(1, given_.number_of("context_parallel"));
    return ranks % divided == 0 ? ranks / divided : ranks;
  }

  // parallelism_config_dp_shard_size: accelerate counts the groups that read entries of their own,
  // the documents' examples all ranks, among which parameters are sharded.
  void check_shards(int64_t shards, int64_t ranks) const {
    const int64_t groups = groups_of_readers(ranks);
    if (shards == ranks || shards == groups) return;
    refuse_given("parallelism_config_dp_shard_size", "found " + std::to_string(shards),
                 std::to_string(groups) + ", num_processes / parallelism_config_cp_size");
  }

  // Of DeepSpeed's three sizes two give the third: train_batch_size = batch_size x
  // gradient_accumulation_steps, where batch_size is a micro-batch of all ranks.
  void add_train_batch(int64_t total, int64_t ranks) {
    const int64_t batch = given_.number_of("batch_size");
    const int64_t accumulation = given_.number_of("gradient_accumulation_steps");
    const int64_t known = std::max<int64_t>(batch, 1) * std::max<int64_t>(accumulation, 1);
    const bool follows = batch > 0 && accumulation > 0 ? known == total : total % known == 0;
    if (!follows || total % ranks != 0) {
      refuse_given(
          "train_batch_size", "found " + std::to_string(total),
          "\"auto\", or micro-batch x ranks x gradient_accumulation_steps, a multiple of " +
              std::to_string(known));
    }
    const std::string& place = own_.file.train_batch_place;
    if (batch == 0) {
      given_.add(place, "batch_size", total / std::max<int64_t>(accumulation, 1));
      if (accumulation == 0) given_.add(place, "gradient_accumulation_steps", 1);
    } else if (accumulation == 0) {
      given_.add(place, "gradient_accumulation_steps", total / batch);
    }
  }

  bool set_to_no_gpus() const {
    return given_.is_set("number_gpus") && given_.number_set("number_gpus") == 0;
  }

  void add_model() {
    const bool option = !selection_.model.empty();
    const std::string given = option ? selection_.model : own_.file.model;
    if (given.empty()) return;
    const std::string source = option ? "--model" : own_.file.model_place;
    if (given_.is_set("model_name")) {
      if (!option) return spdlog::info("--set model_name: {} {} gives way", source, given);
      refuse_given("--model", "gives what --set model_name gives, too", "one of them");
    }
    std::error_code error;
    if (Catalog::shipped().models.find(given) != nullptr && !fs::exists(given, error)) {
      given_.values.push_back({source, "model_name", text_node(given)});
      return;
    }
    own_.model = own_model(source, given);
    given_.values.push_back({source, "model_name", text_node(own_.model.name)});
    add_of_model();
  }

  // What arguments leave to the model's files, and what they require of its tokenizer.
  void add_of_model() {
    const std::string& folder = own_.model.folder;
    if (folder.empty()) return;
    const std::string& place = own_.file.dtype_of_model;
    const std::string dtype = place.empty() ? "" : sftbench::dtype_of_model(folder);
    if (!dtype.empty() && !given_.says("torch_dtype"))
      given_.values.push_back({place, "torch_dtype", text_node(dtype)});
    const GivenValue* tokenizer = given_.find("tokenizer_name_or_path");
    require_special_tokens(own_.file.special_tokens,
                           tokenizer == nullptr ? folder : tokenizer->value.text);
  }

  void choose_experiment() {
    const std::string& method = own_.file.tuning;
    if (!own_.experiment.empty()) {
      const Experiment* asked = Catalog::shipped().experiment(own_.experiment);
      const std::string name = asked == nullptr ? own_.experiment : name_of(asked->tuning);
      if (!method.empty() && method != name)
        spdlog::info("--method {}: the file's {} gives way", own_.experiment, method);
      return;
    }
    if (find_quantized_method(method) != nullptr || method == name_of(TuningMethod::kGptqLora)) {
      own_.experiment = method;
      return;
    }
    const bool lora = method.empty() ? given_.says_any(adapter_properties()) : method == "lora";
    const bool prompt = method.empty()
                            ? given_.says_any({"num_virtual_tokens", "prompt_tuning_init",
                                               "prompt_tuning_init_text"})
                            : method == "pt";
    own_.experiment = lora     ? "finetune_lora_benchmark-v1.0.0"
                      : prompt ? "finetune_pt_benchmark-v1.0.0"
                               : "finetune_full_benchmark-v1.0.0";
    spdlog::info("no --experiment: {}", own_.experiment);
  }

  void add_default(const std::string& property, const std::string& value) {
    spdlog::info("no {}: {}", property, value);
    given_.values.push_back({"the default of " + property, property, scalar_node(value)});
  }

  void add_defaults() {
    if (!given_.says("number_gpus")) add_devices();
    if (!given_.says("batch_size")) add_batch();
    if (!given_.says("model_max_length")) add_default("model_max_length", std::to_string(length()));
  }

  // One entry for each device. What it grows to is logged instead.
  void add_batch() {
    const int64_t gpus = given_.number_of("number_gpus");
    const std::string entries =
        std::to_string(gpus > 0 ? gpus : std::max<int64_t>(1, cpu_ranks(selection_, own_.file)));
    own_.fits_batch = own_.file.of_llmforge && gpus > 0;
    if (!own_.fits_batch) return add_default("batch_size", entries);
    given_.values.push_back({"LLMForge", "batch_size", scalar_node(entries)});
  }

  void add_devices() {
    const std::unique_ptr<Nvml> nvml = Nvml::load();
    const bool named = given_.says("gpu_model");
    const bool gpu = nvml != nullptr && !nvml->gpus().empty();
    add_default("number_gpus", gpu || named ? "1" : "0");
    if (gpu && !named) add_default("gpu_model", nvml->gpus().front().name);
  }

  // What the model's positions leave of the usual length.
  int64_t length() const {
    const int64_t most = own_.model.folder.empty() ? 0 : most_positions(own_.model.folder);
    const int64_t usual = own_.file.program == "trl" ? kUsualLengthOfTrl : kUsualLength;
    return most > 0 ? std::min(most, usual) : usual;
  }

  const Selection& selection_;
  const DataSearch& search_;
  GivenArguments given_;
  OwnTraining own_;
  int64_t readers_ = 1;  // ranks that read entries of their own, as a file of arguments has them
};

}  // namespace

void add_to_model_map(const OwnModel& model, ActuatorSettings& settings) {
  settings.model_map[model.name] = {{"Vanilla", model.place}, {"GPTQ-Quantized", model.place}};
}

OwnTraining own_training(const Selection& selection, const DataSearch& search) {
  return Gathering(selection, search).gather();
}

int64_t cpu_ranks(const Selection& selection, const ArgumentFile& file) {
  if (selection.ranks != 1 || !file.on_cpus) return selection.ranks;
  return file.processes.value_or(1);
}

}  // namespace sftbench
