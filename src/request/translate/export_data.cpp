#include "translate/export_data.h"

#include <filesystem>

#include "sftbench/base/data_files.h"
#include "sftbench/base/dataset_part.h"
#include "sftbench/base/json_text.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/jinja/template.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";

// Where the data are, as load_dataset() of the package datasets takes it.
struct Place {
  std::string path;    // file, folder or id of the hub
  std::string loader;  // of a file: json, parquet, csv, arrow
  std::string config, split = "train";
};

Place place_of(const DataSource& data) {
  Place place;
  const bool hub = data.dataset_id.find('/') != std::string::npos &&
                   dataset_name_problem(data.dataset_id).empty();
  if (hub) {
    const DatasetName name = dataset_name(data.dataset_id);
    place.path = name.id;
    place.config = name.part.config;
    place.split = name.part.split + name.part.slice;
    return place;
  }
  const DataPlace own = data_place(data.path);
  std::string none;
  const DatasetPart part = dataset_part(own.part, none);
  place.config = part.config;
  place.split = part.split + part.slice;
  place.path = fs::absolute(own.path).lexically_normal().string();
  const std::string ending = own.path.extension().string();
  if (fs::is_directory(own.path)) return place;
  place.loader =
      ending == ".parquet" || ending == ".csv" || ending == ".arrow" ? ending.substr(1) : "json";
  return place;
}

class DataExporter {
 public:
  DataExporter(const std::string& program, const TrainingJob& job)
      : program_(program), data_(job.data), place_(place_of(job.data)) {
    const Json given = job.inputs.value("chat_template", Json());
    gives_template_ = given.is_string() && given != "None" && !data_.chat_template.empty();
  }

  ExportedData exported() {
    if (!data_.mixture.empty()) {
      refuse("a mixture of several sets", "one set");
    } else if (program_ == "fms-hf-tuning") {
      put_fms();
    } else if (program_ == "trl") {
      put_trl();
    } else if (program_ == "axolotl") {
      put_axolotl();
    } else {
      put_llamafactory();
    }
    const bool says_it =
        program_ == "fms-hf-tuning" || (program_ == "trl" && data_.mask == ConversationMask::kAll);
    if (is_conversation() && data_.mask != ConversationMask::kAssistant && !says_it) {
      out_.notes.push_back(std::string("conversation_mask ") + name_of(data_.mask) +
                           " has no equal in " + program_ + ", which has a mask of its own");
    }
    return std::move(out_);
  }

 private:
  bool is_conversation() const { return !data_.conversation_field.empty(); }
  bool is_pair() const { return !data_.input_field.empty(); }
  bool is_text() const {
    return !data_.pretokenized && !is_conversation() && data_.entry_template.empty() && !is_pair();
  }
  void refuse(std::string what, std::string expected) {
    out_.refusal = std::move(what);
    out_.expected = std::move(expected);
  }
  bool has_form(const char* name) const { return data_.entry_template == name; }
  void refuse_form() {
    std::string what = "a template of an entry's fields (--template)";
    if (data_.pretokenized) {
      what = "data of token ids (pretokenized)";
    } else if (data_.entry_template.empty()) {
      what = "data of two columns (--input-column)";
    } else if (is_named_form(data_.entry_template)) {
      what = "data in the form " + data_.entry_template;
    }
    refuse(std::move(what), "data with one field of text, or conversations");
  }

  // What else bears loss there changes neither time nor memory.
  void note_loss() {
    if (!data_.response_template.empty())
      out_.notes.push_back("all of an entry bears loss: response_template has no equal in " +
                           program_);
  }
  // trl needs marks in the template to tell what assistants say, but for well-known ones it adds
  // them.
  void put_trls_conversations() {
    Json& arguments = out_.arguments;
    const std::string& text = data_.chat_template;
    const bool marks = !text.empty() && jinja::Template(text, "chat_template").marks_generation();
    if (gives_template_) {
      arguments["chat_template_path"] = kTemplateFile;
      out_.files.push_back({kTemplateFile, text});
    }
    if (data_.mask == ConversationMask::kAll) return;
    if (gives_template_ && !marks) {
      out_.notes.emplace_back(
          "all of a conversation bears loss: assistant_only_loss of trl needs {% generation %} in "
          "the chat template");
    } else {
      arguments["assistant_only_loss"] = true;
      if (!marks)
        out_.notes.emplace_back(
            "assistant_only_loss needs {% generation %} in the chat template, which trl adds to "
            "well-known ones");
    }
  }

  void put_fms() {
    Json& arguments = out_.arguments;
    arguments["training_data_path"] = place_.path;
    if (!place_.config.empty() || place_.split != "train")
      return refuse("a part of a dataset", "the split train of its default configuration");
    if (data_.pretokenized) return;
    if (is_pair() || is_named_form(data_.entry_template)) return refuse_form();
    if (is_conversation()) {
      arguments["dataset_conversation_field"] = data_.conversation_field;
      if (!data_.chat_template.empty())
        arguments["chat_template"] = escaped_text(data_.chat_template);
      return;
    }
    if (data_.entry_template.empty()) {
      arguments["dataset_text_field"] = data_.text_field;
    } else {
      arguments["data_formatter_template"] = escaped_text(data_.entry_template);
    }
    const bool one_row = row_of(data_.padding).one_row;
    if (data_.response_template.empty() && !one_row) {
      refuse("an entry all of which bears loss, padded",
             "--response-template TEXT, or --padding packed");
    } else if (!data_.response_template.empty() && one_row) {
      note_loss();
    } else if (!data_.response_template.empty()) {
      arguments["response_template"] = escaped_text(data_.response_template);
    }
  }

  void put_trl() {
    Json set = {{"path", place_.loader.empty() ? place_.path : place_.loader}};
    if (!place_.loader.empty()) set["data_files"] = place_.path;
    if (!place_.config.empty()) set["name"] = place_.config;
    set["split"] = place_.split;
    out_.arguments["datasets"] = Json::array({std::move(set)});
    if (is_text()) {
      out_.arguments["dataset_text_field"] = data_.text_field;
      return note_loss();
    }
    if (is_conversation() && data_.conversation_field == kConversationField)
      return put_trls_conversations();
    if (is_conversation())
      return refuse("conversations in " + data_.conversation_field, kConversationField);
    if (!data_.pretokenized && !has_form(kPromptCompletionForm)) refuse_form();
  }

  void put_axolotl() {
    Json set = {{"path", place_.path}};
    if (!place_.loader.empty()) set["ds_type"] = place_.loader;
    if (!place_.config.empty()) set["name"] = place_.config;
    if (place_.loader.empty() || place_.split != "train") set["split"] = place_.split;
    if (is_text()) {
      set["type"] = "completion";
      set["field"] = data_.text_field;
      out_.notes.emplace_back("a text longer than sequence_len becomes several rows in axolotl");
      note_loss();
    } else if (is_conversation()) {
      set["type"] = "chat_template";
      set["field_messages"] = data_.conversation_field;
      if (gives_template_) {
        out_.arguments["chat_template"] = "jinja";
        out_.arguments["chat_template_jinja"] = data_.chat_template;
      }
    } else if (has_form(kAlpacaForm)) {
      set["type"] = "alpaca";
    } else {
      refuse_form();
    }
    out_.arguments["datasets"] = Json::array({std::move(set)});
  }

  void put_llamafactory() {
    Json set = Json::object();
    set[place_.path.starts_with('/') ? "file_name" : "hf_hub_url"] = place_.path;
    if (!place_.config.empty()) set["subset"] = place_.config;
    if (place_.split != "train") set["split"] = place_.split;
    Json& arguments = out_.arguments;
    arguments["stage"] = "sft";
    if (is_text()) {  // its stage sft has no entries of one text
      arguments["stage"] = "pt";
      const bool packed = data_.padding == Padding::kPacked;
      arguments["packing"] = packed;
      if (packed) out_.notes.emplace_back("packed entries see one another in its stage pt");
      set["columns"] = {{"prompt", data_.text_field}};
      note_loss();
    } else if (is_conversation()) {
      set["formatting"] = "openai";
      set["columns"] = {{"messages", data_.conversation_field}};
      if (gives_template_) {
        out_.files.push_back({kTemplateFile, data_.chat_template});
        out_.notes.emplace_back(
            std::string("llamafactory has no key for a chat template: conversations follow the "
                        "tokenizer's own until the model's folder has ") +
            kTemplateFile);
      }
    } else if (has_form(kAlpacaForm)) {
      set["columns"] = {{"prompt", "instruction"}, {"query", "input"}, {"response", "output"}};
      arguments["template"] = "alpaca";
      out_.notes.emplace_back("its template alpaca has no heading above an input");
    } else if (has_form(kPromptCompletionForm)) {
      set["columns"] = {{"prompt", "prompt"}, {"response", "completion"}};
      arguments["template"] = "empty";
    } else {
      refuse_form();
    }
    arguments["dataset"] = "data";
    arguments["dataset_dir"] = ".";
    const Json info = {{"data", std::move(set)}};
    out_.files.push_back({"dataset_info.json", json_text(info, 2) + "\n"});
  }

  const std::string& program_;
  const DataSource& data_;
  Place place_;
  bool gives_template_ = false;  // rather than the tokenizer's own
  ExportedData out_;
};

}  // namespace

ExportedData exported_data(const std::string& program, const TrainingJob& job) {
  return DataExporter(program, job).exported();
}

}  // namespace sftbench
