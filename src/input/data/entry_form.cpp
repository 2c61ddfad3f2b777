#include "sftbench/data/entry_form.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/text.h"
#include "sftbench/data/chat_entry.h"
#include "sftbench/data/entry_template.h"

namespace sftbench {
namespace {

bool is_list(const Json& value) {
  if (!value.is_string()) return value.is_array();
  return trimmed(value.get_ref<const std::string&>()).starts_with('[');
}

class FormFinder {
 public:
  FormFinder(const Json& entry, Diagnostic& error) : entry_(entry), error_(error) {}

  // Data that are made for another kind of training than this one.
  bool is_foreign() {
    if (has("chosen") && has("rejected")) {
      return refuse("chosen", "the entries are preferences (chosen and rejected)",
                    "--conversation-column chosen or --text-field chosen, which trains on these");
    }
    if (is_list(value("completions")) && has("labels")) {
      return refuse("completions", "the entries rate the steps of an answer (completions, labels)",
                    "entries with one completion each");
    }
    if (has("prompt") && has("completion") && value("label").is_boolean()) {
      return refuse("label", "the entries are rated answers (prompt, completion, label)",
                    "--template prompt_completion, which trains on all of them");
    }
    const Json& history = value("history");
    if (has("instruction") && has("output") && history.is_array() && !history.empty()) {
      return refuse("history", "the entries have earlier turns beside instruction and output",
                    "one list of messages in each entry");
    }
    if (!find().property.empty() || has("output")) return false;
    if (has("role") && has("content") && entry_.size() == 2) {
      return refuse("role", "each entry is one message (role, content)",
                    "a list of messages in each entry, one on each line");
    }
    return is_whole_file();
  }

  FoundForm find() const {
    if (has("input_ids")) return {"pretokenized", "true", "the entries are tokenized already"};
    for (const char* column : {kConversationField, "conversations"}) {
      if (!has("output") && is_list(value(column))) return conversations(column);
    }
    if (has("prompt") && has("completion")) {
      if (is_list(value("completion"))) return conversations("completion");
      return {"data_formatter_template", kPromptCompletionForm,
              "the entries are prompts and completions"};
    }
    if (has("instruction") && has("output")) {
      return {"data_formatter_template", kAlpacaForm,
              "the entries are instructions, which get the prompt of Alpaca"};
    }
    return has("output") ? FoundForm() : other_conversations();
  }

 private:
  static FoundForm conversations(const std::string& column) {
    return {"conversation_column", column, "the entries are conversations (" + column + ")"};
  }

  // The only column of messages, whatever its name.
  FoundForm other_conversations() const {
    FoundForm found;
    for (const auto& [column, list] : entry_.items()) {
      if (!list.is_array() || list.empty()) continue;
      const bool chats = std::all_of(list.begin(), list.end(), [](const Json& message) {
        return message.is_object() && (message.contains("role") || message.contains("from")) &&
               (message.contains("content") || message.contains("value"));
      });
      if (!chats) continue;
      if (!found.property.empty()) return {};
      found = conversations(column);
    }
    return found;
  }

  // {"version": "1.1", "data": [entry, ...]}, or {"train": [entry, ...], ...}.
  bool is_whole_file() {
    for (const auto& [key, list] : entry_.items()) {
      if (!list.is_array() || list.empty() || !list.front().is_object()) continue;
      Diagnostic none;
      const FormFinder first(list.front(), none);
      if (first.find().property.empty() && !first.has("output")) continue;
      return refuse(key, "holds a list of entries within one entry",
                    "a file of that list, as jq ." + key + " FILE makes it");
    }
    return false;
  }

  const Json& value(const char* key) const {
    static const Json kNone;
    const auto found = entry_.find(key);
    return found == entry_.end() ? kNone : *found;
  }
  bool has(const char* key) const { return !value(key).is_null(); }

  bool refuse(std::string key, std::string message, std::string expected) {
    error_ = {};
    error_.key = std::move(key);
    error_.message = std::move(message);
    error_.expected = std::move(expected);
    return true;
  }

  const Json& entry_;
  Diagnostic& error_;
};

}  // namespace

bool find_entry_form(const Json& entry, FoundForm& form, Diagnostic& error) {
  FormFinder finder(entry, error);
  if (finder.is_foreign()) return false;
  form = finder.find();
  return true;
}

}  // namespace sftbench
