#include "cli/own_data.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/entry_form.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// As the experiments have it, but for the line end in front of it.
constexpr const char* kUsualResponse = "### Response:";

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

class OwnData {
 public:
  OwnData(GivenArguments& given, const Selection& selection, const DataSearch& search,
          const std::string& model_folder)
      : given_(given), selection_(selection), search_(search), model_folder_(model_folder) {}

  bool check() {
    check_text_field();
    check_data();
    const bool splits = check_mixture();
    require_conversations();
    if (!given_.says_any({"data_mixture", "eval_split"})) forget_sampling();
    return splits || given_.says_any({"validation_data_path", "eval_split"});
  }

 private:
  Entries first_entry(const std::string& source, const std::string& given) const {
    std::error_code unreadable;  // what is here is named as it was given
    const std::string path =
        fs::exists(given, unreadable) ? given : require_data(source, given, search_);
    if (!path.ends_with(".jsonl")) refuse_other_kind(source, path, "--data");
    try {
      return open_entries(path, 1);
    } catch (const RunError& error) {
      refuse_given(source, given + ": " + error.what());
    }
  }

  // The space may say where the cache is, which is looked into later. A prediction needs no entry.
  bool is_left_to_space(const std::string& given) const {
    const bool later = !selection_.space_path.empty() || selection_.predicts;
    return later && !search_.fetches && is_dataset_name(given) &&
           !find_data(hub_cache_directory(search_.hf_home), given);
  }

  // The field has a default, so that what a job says does not tell whether somebody asked for it.
  void check_text_field() const {
    const GivenValue* field = given_.find("dataset_text_field");
    if (field == nullptr || field->source != "--text-field") return;
    for (const char* form : {"pretokenized", "conversation_column", "data_formatter_template",
                             "input_column_name", "output_column_name"}) {
      const GivenValue* other = given_.find(form);
      const bool none = other == nullptr || other->value.is_null() || other->value.value == false;
      if (none) continue;
      refuse_given(field->source, "says what an entry is, and so does " + other->source,
                   "one of them");
    }
  }

  // trl's configurations hold its default also beside conversations, which come first there.
  void forget_usual_field() {
    const GivenValue* field = given_.find("dataset_text_field");
    const GivenValue* data = given_.find("training_data_path");
    if (field == nullptr || field->source == "--text-field" || field->value.text != "text" ||
        data == nullptr || !data->value.is_scalar() || is_left_to_space(data->value.text)) {
      return;
    }
    const Entries file = first_entry(data->source, data->value.text);
    Json first;
    Diagnostic problem;
    FoundForm form;
    if (!file.read_object(0, first, problem)) return;
    if (first.contains("text") && find_entry_form(first, form, problem) &&
        form.property != "conversation_column")
      return;
    given_.forget({"dataset_text_field"});
  }

  // A prediction reads no entry of data that are not here, and a chat template tells what they are.
  void expect_conversations() {
    const GivenValue* data = given_.find("training_data_path");
    if (!has_chat_template() || data == nullptr || !data->value.is_scalar() ||
        !is_left_to_space(data->value.text) || given_.says("conversation_column"))
      return;
    const GivenValue* field = given_.find("dataset_text_field");
    if (field != nullptr && field->source != kDefaultOfTrl) return;
    const std::string source = data->source;
    given_.forget({"dataset_text_field"});
    given_.values.push_back({source, "conversation_column", text_node(kConversationField)});
  }

  // trl's field of texts bears loss as a whole, unless a response template says otherwise.
  void learn_from_whole_field() {
    const GivenValue* field = given_.find("dataset_text_field");
    if (field == nullptr || field->source == "--text-field" || !selection_.space_path.empty() ||
        given_.find("response_template") != nullptr) {
      return;
    }
    spdlog::info("{}: no response_template, so that all of the field {} bears loss", field->source,
                 field->value.text);
    given_.values.push_back({field->source, "response_template", text_node("None")});
  }

  // What the first entry shows is wrong is said before anything is measured. Entries with input_ids
  // are taken as such where nothing says what an entry is.
  void check_data() {
    forget_usual_field();
    expect_conversations();
    learn_from_whole_field();
    const GivenValue* held_out = given_.find("validation_data_path");
    if (held_out != nullptr && !is_left_to_space(held_out->value.text)) check_first(*held_out);
    const GivenValue* data = given_.find("training_data_path");
    if (data == nullptr || !data->value.is_scalar() || is_left_to_space(data->value.text)) return;
    const std::string source = data->source, path = data->value.text;
    const FirstEntry first = check_first(*data);
    if (given_.says_any({"pretokenized", "conversation_column", "data_formatter_template",
                         "dataset_text_field", "input_column_name", "output_column_name"})) {
      return;
    }
    const FoundForm form = has_images() ? FoundForm() : form_of(first);
    if (!form.property.empty()) {
      spdlog::info("{}: {}", path, form.sentence);
      const bool flag = form.property == "pretokenized";
      given_.values.push_back(
          {source, form.property, flag ? scalar_node(form.value) : text_node(form.value)});
      check_conversation(first);
    } else if (selection_.space_path.empty() && !has_images()) {
      check_usual_column(source, first);
    }
  }

  bool has_chat_template() const {
    const GivenValue* given = given_.find("chat_template");
    return given != nullptr && !given->value.value.is_null() && given->value.value != "None";
  }

  // A space may say which column has them.
  void require_conversations() const {
    if (!has_chat_template() || !selection_.space_path.empty()) return;
    if (given_.says_any({"conversation_column", "data_mixture"})) return;
    refuse_given(given_.find("chat_template")->source,
                 "is given, and nothing says that entries are conversations",
                 "--conversation-column NAME beside it, or entries with messages");
  }

  // Files of data configurations say how data are mixed also where there is one set.
  void forget_sampling() { given_.forget({"sampling_seed", "sampling_stopping_strategy"}); }

  // Finds the form of sets that say none, as of one set. Whether one of them has a split.
  bool check_mixture() {
    const auto given =
        std::find_if(given_.values.begin(), given_.values.end(),
                     [](const GivenValue& value) { return value.property == "data_mixture"; });
    if (given == given_.values.end()) return false;
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
      if (set.contains(form) || given_.says(form)) return;
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
    return given_.is_set("dataset_image_field") || given_.says("dataset_image_field");
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
  void check_usual_column(const std::string& source, const FirstEntry& first) const {
    std::string text;
    Diagnostic problem;
    if (text_of_field(first.object, "output", text, problem))
      return warn_without_response(first, text);
    refuse_given(source, first.problem_text(problem),
                 "--text-field NAME, --template TEXT, or --input-column and --output-column NAME");
  }

  // Another entry may have it. Where none does, the run ends when it has read them all.
  void warn_without_response(const FirstEntry& first, const std::string& text) const {
    if (given_.says("response_template")) return;
    if (text.find(kUsualResponse) != std::string::npos) return;
    spdlog::warn(
        "no '{}' in output ({}:{}), behind which loss begins: {}--response-template None "
        "lets all of it bear loss",
        kUsualResponse, first.file.path(0), first.file.line_number(0),
        first.object.contains("input") ? "--input-column input --output-column output trains "
                                         "on the answer, and "
                                       : "");
  }

  void check_template(const FirstEntry& first) const {
    const GivenValue* given = given_.find("data_formatter_template");
    if (given == nullptr || !given->value.is_scalar() || given->value.is_null()) return;
    const EntryTemplate parsed(unescaped_text(given->value.text));
    if (parsed.has_open_field()) {
      refuse_given(given->source, "a field is not closed: '" + given->value.text + "'",
                   "{{name}} around each name");
    }
    if (parsed.fields().empty()) {
      refuse_given(given->source, "names no field: '" + given->value.text + "'",
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
    const GivenValue* column = given_.find("conversation_column");
    if (column == nullptr || !column->value.is_scalar() || column->value.is_null()) return;
    const GivenValue* given = given_.find("chat_template");
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
    if (!model_folder_.empty() && !chat_template_of(model_folder_, text).empty()) return;
    if (!jinja::is_template(text) && !fs::is_regular_file(text, error)) {
      refuse_given(given.source, text + " is no file",
                   "a file with a Jinja template, or a text with {{ }} or {% %}");
    }
    const bool is_text = jinja::is_template(text);
    (void)jinja::Template(is_text ? text : read_chat_template(text), is_text ? given.source : text);
  }

  void check_column(const char* property, const FirstEntry& first) const {
    const GivenValue* given = given_.find(property);
    if (given == nullptr || !given->value.is_scalar() || given_.says("data_formatter_template"))
      return;
    std::string text;
    Diagnostic problem;
    if (text_of_field(first.object, given->value.text, text, problem)) return;
    problem.message = first.problem_text(problem);
    problem.key = given->source;
    throw InputError({problem});
  }

  GivenArguments& given_;
  const Selection& selection_;
  const DataSearch& search_;
  const std::string& model_folder_;
};

}  // namespace

bool check_own_data(GivenArguments& given, const Selection& selection, const DataSearch& search,
                    const std::string& model_folder) {
  return OwnData(given, selection, search, model_folder).check();
}

}  // namespace sftbench
