#include "cli/own_training.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "cli/model_folder.h"
#include "cli/quantized_method.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/entry_form.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualLength = 2048;

[[noreturn]] void refuse_own(std::string key, std::string message, std::string expected = {}) {
  throw InputError({{{}, 0, std::move(key), std::move(message), std::move(expected), {}}});
}

}  // namespace

void add_to_model_map(const OwnModel& model, ActuatorSettings& settings) {
  settings.model_map[model.name] = {{"Vanilla", model.place}, {"GPTQ-Quantized", model.place}};
}

namespace {

bool is_set(const Selection& selection, const std::string& property) {
  const std::string head = property + "=";
  return std::any_of(selection.assignments.begin(), selection.assignments.end(),
                     [&](const std::string& text) { return text.rfind(head, 0) == 0; });
}

// What a file of data begins with.
struct FirstEntry {
  Entries file;  // as much as it takes
  Json object;

  // "NAME: no such field; found a, b (data.json:1)", and completes the problem.
  std::string problem_text(Diagnostic& problem) const {
    file.explain_left_out(0, problem);
    return problem.key + ": " + problem.message + " (" + file.path(0) + ":" +
           std::to_string(file.line_number(0)) + ")";
  }
};

class Gathering {
 public:
  Gathering(const Selection& selection, const DataSearch& search)
      : selection_(selection), search_(search) {
    own_.values = given_values(selection.arguments);
    own_.experiment = selection.experiment;
  }

  OwnTraining gather() {
    if (!selection_.arguments_paths.empty() || !selection_.deepspeed_path.empty()) add_file();
    add_model();
    check_text_field();
    check_data();
    const bool splits = check_mixture();
    require_conversations();
    if ((splits || says_any({"validation_data_path", "eval_split"})) && !says("eval_strategy")) {
      add_default("eval_strategy", "epoch");
    }
    if (!says_any({"data_mixture", "eval_split"})) forget_sampling();
    if (selection_.space_path.empty() &&
        (find("model_name") != nullptr || says_any({"training_data_path", "data_mixture"}))) {
      choose_experiment();
      add_defaults();
    }
    return std::move(own_);
  }

 private:
  const GivenValue* find(const std::string& property) const {
    for (const GivenValue& value : own_.values) {
      if (value.property == property) return &value;
    }
    return nullptr;
  }
  bool says(const std::string& property) const {
    return find(property) != nullptr || is_set(selection_, property);
  }
  bool says_any(std::initializer_list<const char*> properties) const {
    return std::any_of(properties.begin(), properties.end(),
                       [this](const char* property) { return says(property); });
  }

  void add_file() {
    const GivenElsewhere given = {!selection_.model.empty() || is_set(selection_, "model_name"),
                                  says_any({"training_data_path", "data_mixture", "dataset_id"})};
    own_.file = read_argument_files(selection_.arguments_paths, selection_.deepspeed_path, given);
    for (const std::string& note : own_.file.notes) spdlog::info("{}", note);
    std::vector<GivenValue> values = own_.file.values;
    for (GivenValue& value : values) {
      const bool other_data = given.data && value.property == "data_mixture";
      if (!says(value.property) && !other_data) own_.values.push_back(std::move(value));
    }
    const ArgumentFile& file = own_.file;
    // The version that first has it: no other thing depends on it.
    if (says("fast_moe") && !says("fms_hf_tuning_version") && selection_.space_path.empty())
      own_.values.push_back({"fast_moe", "fms_hf_tuning_version", text_node("2.4.0")});
    if (file.activated && selection_.space_path.empty() && !says("alora_invocation_string")) {
      refuse_own(join(selection_.arguments_paths) + ": peft_method",
                 "is alora, and alora_invocation_string is not given",
                 "with it the text from whose last occurrence on adapters act");
    }
    const bool ranks_on_cpus = selection_.ranks > 1 && !file.processes && !says("number_gpus");
    const bool cpus = file.on_cpus || set_to_no_gpus() || ranks_on_cpus;
    if (file.processes && !says("number_gpus") && !file.on_cpus)
      add(file.processes_place, "number_gpus", *file.processes);
    if (file.on_cpus && !says("number_gpus")) add("use_cpu", "number_gpus", 0);
    const int64_t gpus = number_of("number_gpus");  // of --set rather than of the file
    const int64_t ranks =
        cpus ? cpu_ranks(selection_, file) : (gpus > 0 ? gpus : file.processes.value_or(1));
    if (file.batch_of_device && !says("batch_size")) {
      add(file.batch_place, "batch_size", *file.batch_of_device * groups_of_readers(ranks));
    }
    if (file.train_batch_size) add_train_batch(*file.train_batch_size, ranks);
    if (file.data_shards) check_shards(*file.data_shards, ranks);
  }

  // Ranks that divide rows read the same entries. Groups that do not fit are refused elsewhere.
  int64_t groups_of_readers(int64_t ranks) const {
    const int64_t divided = std::max<int64_t>(1, number_of("context_parallel"));
    return ranks % divided == 0 ? ranks / divided : ranks;
  }

  // parallelism_config_dp_shard_size: accelerate counts the groups that read entries of their own,
  // the documents' examples all ranks, among which parameters are sharded.
  void check_shards(int64_t shards, int64_t ranks) const {
    const int64_t groups = groups_of_readers(ranks);
    if (shards == ranks || shards == groups) return;
    refuse_own("parallelism_config_dp_shard_size", "found " + std::to_string(shards),
               std::to_string(groups) + ", num_processes / parallelism_config_cp_size");
  }

  // Of DeepSpeed's three sizes two give the third: train_batch_size = batch_size x
  // gradient_accumulation_steps, where batch_size is a micro-batch of all ranks.
  void add_train_batch(int64_t total, int64_t ranks) {
    const int64_t batch = number_of("batch_size");
    const int64_t accumulation = number_of("gradient_accumulation_steps");
    const int64_t known = std::max<int64_t>(batch, 1) * std::max<int64_t>(accumulation, 1);
    const bool follows = batch > 0 && accumulation > 0 ? known == total : total % known == 0;
    if (!follows || total % ranks != 0) {
      refuse_own("train_batch_size", "found " + std::to_string(total),
                 "\"auto\", or micro-batch x ranks x gradient_accumulation_steps, a multiple of " +
                     std::to_string(known));
    }
    const std::string& place = own_.file.train_batch_place;
    if (batch == 0) {
      add(place, "batch_size", total / std::max<int64_t>(accumulation, 1));
      if (accumulation == 0) add(place, "gradient_accumulation_steps", 1);
    } else if (accumulation == 0) {
      add(place, "gradient_accumulation_steps", total / batch);
    }
  }

  // Of --set, or of the arguments; 0: not given, or no number.
  int64_t number_of(const std::string& property) const {
    const GivenValue* given = find(property);
    if (given != nullptr && given->value.value.is_number_integer()) {
      return given->value.value.get<int64_t>();
    }
    return number_set(property);
  }
  int64_t number_set(const std::string& property) const {
    const std::string head = property + "=";
    for (const std::string& text : selection_.assignments) {
      if (text.rfind(head, 0) != 0) continue;
      const Json value = resolve_yaml_scalar(text.substr(head.size()));
      return value.is_number_integer() ? value.get<int64_t>() : 0;
    }
    return 0;
  }
  int64_t gpus_set() const { return number_set("number_gpus"); }
  int64_t own_gpus() const {
    const GivenValue* given = find("number_gpus");
    const bool number = given != nullptr && given->value.value.is_number_integer();
    return number ? given->value.value.get<int64_t>() : 0;
  }
  bool set_to_no_gpus() const { return is_set(selection_, "number_gpus") && gpus_set() == 0; }

  void add(const std::string& source, const std::string& property, int64_t value) {
    own_.values.push_back({source, property, scalar_node(std::to_string(value))});
  }

  void add_model() {
    const bool option = !selection_.model.empty();
    const std::string given = option ? selection_.model : own_.file.model;
    if (given.empty()) return;
    const std::string source = option ? "--model" : own_.file.model_place;
    if (is_set(selection_, "model_name")) {
      if (!option) return;
      refuse_own("--model", "gives what --set model_name gives, too", "one of them");
    }
    std::error_code error;
    if (Catalog::shipped().models.find(given) != nullptr && !fs::exists(given, error)) {
      own_.values.push_back({source, "model_name", text_node(given)});
      return;
    }
    own_.model = own_model(source, given);
    own_.values.push_back({source, "model_name", text_node(own_.model.name)});
    add_of_model();
  }

  // What arguments leave to the model's files, and what they require of its tokenizer.
  void add_of_model() {
    const std::string& folder = own_.model.folder;
    if (folder.empty()) return;
    const std::string& place = own_.file.dtype_of_model;
    const std::string dtype = place.empty() ? "" : sftbench::dtype_of_model(folder);
    if (!dtype.empty() && !says("torch_dtype"))
      own_.values.push_back({place, "torch_dtype", text_node(dtype)});
    const GivenValue* tokenizer = find("tokenizer_name_or_path");
    require_special_tokens(own_.file.special_tokens,
                           tokenizer == nullptr ? folder : tokenizer->value.text);
  }

  Entries first_entry(const std::string& source, const std::string& given) const {
    std::error_code unreadable;  // what is here is named as it was given
    const std::string path =
        fs::exists(given, unreadable) ? given : require_data(source, given, search_);
    if (!path.ends_with(".jsonl")) refuse_other_kind(source, path, "--data");
    try {
      return open_entries(path, 1);
    } catch (const RunError& error) {
      refuse_own(source, given + ": " + error.what());
    }
  }

  // The space may say where the cache is, which is looked into later.
  bool is_left_to_space(const std::string& given) const {
    return !selection_.space_path.empty() && !search_.fetches && is_dataset_name(given) &&
           !find_data(hub_cache_directory(search_.hf_home), given);
  }

  // The field has a default, so that what a job says does not tell whether somebody asked for it.
  void check_text_field() const {
    const GivenValue* field = find("dataset_text_field");
    if (field == nullptr || field->source != "--text-field") return;
    for (const char* form : {"pretokenized", "conversation_column", "data_formatter_template",
                             "input_column_name", "output_column_name"}) {
      const GivenValue* other = find(form);
      const bool none = other == nullptr || other->value.is_null() || other->value.value == false;
      if (none) continue;
      refuse_own(field->source, "says what an entry is, and so does " + other->source,
                 "one of them");
    }
  }

  // trl's configurations hold its default also beside conversations, of which it says nothing.
  void forget_usual_field() {
    const GivenValue* field = find("dataset_text_field");
    const GivenValue* data = find("training_data_path");
    if (field == nullptr || field->source == "--text-field" || field->value.text != "text" ||
        data == nullptr || !data->value.is_scalar() || is_left_to_space(data->value.text)) {
      return;
    }
    const Entries file = first_entry(data->source, data->value.text);
    Json first;
    Diagnostic problem;
    if (!file.read_object(0, first, problem) || first.contains("text")) return;
    std::erase_if(own_.values,
                  [](const GivenValue& value) { return value.property == "dataset_text_field"; });
  }

  // trl's field of texts bears loss as a whole, unless a response template says otherwise.
  void learn_from_whole_field() {
    const GivenValue* field = find("dataset_text_field");
    if (field == nullptr || field->source == "--text-field" || !selection_.space_path.empty() ||
        find("response_template") != nullptr) {
      return;
    }
    spdlog::info("{}: no response_template, so that all of the field {} bears loss", field->source,
                 field->value.text);
    own_.values.push_back({field->source, "response_template", text_node("None")});
  }

  // What the first entry shows is wrong is said before anything is measured. Entries with input_ids
  // are taken as such where nothing says what an entry is.
  void check_data() {
    forget_usual_field();
    learn_from_whole_field();
    const GivenValue* held_out = find("validation_data_path");
    if (held_out != nullptr && !is_left_to_space(held_out->value.text)) check_first(*held_out);
    const GivenValue* data = find("training_data_path");
    if (data == nullptr || !data->value.is_scalar() || is_left_to_space(data->value.text)) return;
    const std::string source = data->source, path = data->value.text;
    const FirstEntry first = check_first(*data);
    if (says_any({"pretokenized", "conversation_column", "data_formatter_template",
                  "dataset_text_field", "input_column_name", "output_column_name"})) {
      return;
    }
    const FoundForm form = has_images() ? FoundForm() : form_of(first);
    if (!form.property.empty()) {
      spdlog::info("{}: {}", path, form.sentence);
      const bool flag = form.property == "pretokenized";
      own_.values.push_back(
          {source, form.property, flag ? scalar_node(form.value) : text_node(form.value)});
      check_conversation(first);
    } else if (selection_.space_path.empty() && !has_images()) {
      check_usual_column(source, first);
    }
  }

  // A space may say which column has them.
  void require_conversations() const {
    const GivenValue* given = find("chat_template");
    const bool none =
        given == nullptr || given->value.value.is_null() || given->value.value == "None";
    if (none || !selection_.space_path.empty()) return;
    if (says_any({"conversation_column", "data_mixture"})) return;
    refuse_own(given->source, "is given, and nothing says that entries are conversations",
               "--conversation-column NAME beside it, or entries with messages");
  }

  // Files of data configurations say how data are mixed also where there is one set.
  void forget_sampling() {
    std::erase_if(own_.values, [](const GivenValue& value) {
      return value.property == "sampling_seed" || value.property == "sampling_stopping_strategy";
    });
  }

  // Finds the form of sets that say none, as of one set. Whether one of them has a split.
  bool check_mixture() {
    const auto given =
        std::find_if(own_.values.begin(), own_.values.end(),
                     [](const GivenValue& value) { return value.property == "data_mixture"; });
    if (given == own_.values.end()) return false;
    Json mixture = Json::parse(given->value.text, nullptr, /*allow_exceptions=*/false);
    if (!mixture.is_object() || !mixture.value("datasets", Json()).is_array()) return false;
    bool splits = false;
    for (Json& set : mixture["datasets"]) {
      if (!set.is_object() || !set.contains("training_data_path")) continue;
      find_form(given->source, set);
      splits = splits || set.contains("eval_split");
    }
    given->value = text_node(json_text(mixture));
    return splits;
  }

  void find_form(const std::string& source, Json& set) const {
    const std::string given = set["training_data_path"].get<std::string>();
    if (is_left_to_space(given)) return;
    Entries file = first_entry(source, given);
    for (const char* form : {"pretokenized", "conversation_column", "data_formatter_template",
                             "dataset_text_field", "input_column_name"}) {
      if (set.contains(form) || says(form)) return;
    }
    FirstEntry first{std::move(file), {}};
    Diagnostic problem;
    if (!first.file.read_object(0, first.object, problem)) throw InputError({problem});
    const FoundForm form = form_of(first);
    if (form.property.empty()) return;
    set[form.property] = form.property == "pretokenized" ? Json(true) : Json(form.value);
  }

  static FoundForm form_of(const FirstEntry& first) {
    FoundForm form;
    Diagnostic problem;
    if (find_entry_form(first.object, form, problem)) return form;
    problem.file = first.file.path(0);
    problem.line = first.file.line_number(0);
    throw InputError({problem});
  }

  // Entries with pictures are chats, which a run reads in a form of their own.
  bool has_images() const {
    return is_set(selection_, "dataset_image_field") || says("dataset_image_field");
  }

  // The first entry of a file, and its place, when it is what the values say.
  FirstEntry check_first(const GivenValue& data) const {
    FirstEntry first{first_entry(data.source, data.value.text), {}};
    Diagnostic problem;
    if (!first.file.read_object(0, first.object, problem)) throw InputError({problem});
    check_template(first);
    for (const char* column : {"dataset_text_field", "input_column_name", "output_column_name"}) {
      const bool holds_chats = has_images() && column == std::string_view("dataset_text_field");
      if (!holds_chats) check_column(column, first);
    }
    check_conversation(first);
    return first;
  }

  // Who says nothing of the entries has the field of the documents' datasets.
  static void check_usual_column(const std::string& source, const FirstEntry& first) {
    std::string text;
    Diagnostic problem;
    if (text_of_field(first.object, "output", text, problem)) return;
    refuse_own(source, first.problem_text(problem),
               "--text-field NAME, --template TEXT, or --input-column and --output-column NAME");
  }

  void check_template(const FirstEntry& first) const {
    const GivenValue* given = find("data_formatter_template");
    if (given == nullptr || !given->value.is_scalar() || given->value.is_null()) return;
    const EntryTemplate parsed(unescaped_text(given->value.text));
    if (parsed.fields().empty()) {
      refuse_own(given->source, "names no field: '" + given->value.text + "'",
                 "a text with {{name}} where an entry's fields go");
    }
    std::string text, response;
    Diagnostic problem;
    if (parsed.fill(first.object, text, response, problem)) return;
    problem.message = first.problem_text(problem);
    problem.key = given->source;
    throw InputError({problem});
  }

  // A template that cannot be parsed, and a first entry that is no conversation.
  void check_conversation(const FirstEntry& first) const {
    const GivenValue* column = find("conversation_column");
    if (column == nullptr || !column->value.is_scalar() || column->value.is_null()) return;
    const GivenValue* given = find("chat_template");
    const bool has_template =
        given != nullptr && given->value.is_scalar() && !given->value.is_null();
    if (has_template) parse_chat_template(*given);
    Diagnostic problem;
    Conversation conversation;
    if (read_conversation(first.object, column->value.text, conversation, problem)) return;
    problem.message = first.problem_text(problem);
    problem.key = column->source;
    throw InputError({problem});
  }

  void parse_chat_template(const GivenValue& given) const {
    const std::string& text = given.value.text;
    if (!text.ends_with(".jinja")) refuse_other_kind(given.source, text);
    std::error_code error;
    if (!own_.model.folder.empty() && !chat_template_of(own_.model.folder, text).empty()) return;
    if (!jinja::is_template(text) && !fs::is_regular_file(text, error)) {
      refuse_own(given.source, text + " is no file",
                 "a file with a Jinja template, or a text with {{ }} or {% %}");
    }
    const bool is_text = jinja::is_template(text);
    (void)jinja::Template(is_text ? text : read_chat_template(text), is_text ? given.source : text);
  }

  void check_column(const char* property, const FirstEntry& first) const {
    const GivenValue* given = find(property);
    if (given == nullptr || !given->value.is_scalar() || says("data_formatter_template")) return;
    std::string text;
    Diagnostic problem;
    if (text_of_field(first.object, given->value.text, text, problem)) return;
    problem.message = first.problem_text(problem);
    problem.key = given->source;
    throw InputError({problem});
  }

  void choose_experiment() {
    if (!own_.experiment.empty()) return;
    const std::string& method = own_.file.tuning;
    if (find_quantized_method(method) != nullptr) {
      own_.experiment = method;
      spdlog::info("{}: predicted in float16, which takes what bfloat16 does", method);
      std::erase_if(own_.values, [](const GivenValue& value) {
        return value.property == "torch_dtype" || value.property == "bf16" ||
               value.property == "accelerate_config_mixed_precision";
      });
      return;
    }
    const bool lora = method.empty() ? says_any({"r", "lora_alpha", "lora_dropout",
                                                 "target_modules", "alora_invocation_string"})
                                     : method == "lora";
    const bool prompt =
        method.empty()
            ? says_any({"num_virtual_tokens", "prompt_tuning_init", "prompt_tuning_init_text"})
            : method == "pt";
    own_.experiment = lora     ? "finetune_lora_benchmark-v1.0.0"
                      : prompt ? "finetune_pt_benchmark-v1.0.0"
                               : "finetune_full_benchmark-v1.0.0";
    spdlog::info("no --experiment: {}", own_.experiment);
  }

  void add_default(const std::string& property, const std::string& value) {
    spdlog::info("no {}: {}", property, value);
    own_.values.push_back({"the default of " + property, property, scalar_node(value)});
  }

  void add_defaults() {
    if (!says("number_gpus")) add_devices();
    if (!says("batch_size")) {
      const int64_t gpus = std::max(gpus_set(), own_gpus());
      add_default(
          "batch_size",
          std::to_string(gpus > 0 ? gpus : std::max<int64_t>(1, cpu_ranks(selection_, own_.file))));
    }
    if (!says("model_max_length")) add_default("model_max_length", std::to_string(length()));
  }

  void add_devices() {
    const std::unique_ptr<Nvml> nvml = Nvml::load();
    const bool gpu = nvml != nullptr && !nvml->gpus().empty();
    add_default("number_gpus", gpu ? "1" : "0");
    if (gpu && !says("gpu_model")) add_default("gpu_model", nvml->gpus().front().name);
  }

  // What the model's positions leave of the usual length.
  int64_t length() const {
    const int64_t most = own_.model.folder.empty() ? 0 : most_positions(own_.model.folder);
    return most > 0 ? std::min(most, kUsualLength) : kUsualLength;
  }

  const Selection& selection_;
  const DataSearch& search_;
  OwnTraining own_;
};

}  // namespace

OwnTraining own_training(const Selection& selection, const DataSearch& search) {
  return Gathering(selection, search).gather();
}

int64_t cpu_ranks(const Selection& selection, const ArgumentFile& file) {
  if (selection.ranks != 1 || !file.on_cpus) return selection.ranks;
  return file.processes.value_or(1);
}

}  // namespace sftbench
