#include "sftbench/data/conversation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sftbench/base/text.h"
#include "sftbench/data/text_dataset.h"

namespace sftbench {
namespace {

bool is_from_and_value(const Json& message) {
  return !message.contains("role") && message.contains("from") && message.contains("value");
}

// nullptr where it is no text.
const std::string* role_of(const Json& message) {
  const auto found = message.find(is_from_and_value(message) ? "from" : "role");
  if (found == message.end() || !found->is_string()) return nullptr;
  static const std::map<std::string, std::string> kRoles = {{"human", "user"},
                                                            {"gpt", "assistant"}};
  const std::string& said = found->get_ref<const std::string&>();
  const auto usual = found.key() == "from" ? kRoles.find(said) : kRoles.end();
  return usual == kRoles.end() ? &said : &usual->second;
}

// {from, value}, as ShareGPT has messages, under the names that templates read.
Json with_usual_names(const Json& message) {
  if (!is_from_and_value(message)) return message;
  Json usual = {{"role", *role_of(message)}, {"content", message.at("value")}};
  for (const auto& [key, value] : message.items()) {
    if (key != "from" && key != "value") usual[key] = value;
  }
  return usual;
}

}  // namespace

bool is_conversation(const Json& entry, const std::string& field, Diagnostic& error) {
  error = {};
  error.key = field;
  error.expected = "a list of messages, each an object with role and content";
  const auto found = entry.find(field);
  if (found == entry.end()) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : entry.items()) keys.push_back(key);
    error.message = "no such field; found " + join(keys);
    error.nearest = nearest_spelling(field, keys);
    return false;
  }
  if (!found->is_array() || found->empty()) {
    error.message = found->is_array() ? "the conversation is empty" : "the field is no list";
    return false;
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& message = (*found)[i];
    if (message.is_object() && role_of(message) != nullptr) continue;
    error.message =
        "message " + std::to_string(i) + (message.is_object() ? " has no role" : " is no object");
    return false;
  }
  return true;
}

namespace {

// Reasoning goes by several names; templates read one of two.
Json with_reasoning_aliases(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    Json aliased = {{"thinking", *found}};
    aliased.update(message);
    aliased["reasoning_content"] = *found;
    return aliased;
  }
  return message;
}

Json first_messages(const Json& messages, size_t count) {
  Json first = Json::array();
  for (size_t i = 0; i < count; ++i)
    first.push_back(with_reasoning_aliases(with_usual_names(messages[i])));
  return first;
}

void add_special_tokens(Json& variables, const SpecialTokens& tokens) {
  const std::pair<const char*, const std::string*> named[] = {{"bos_token", &tokens.bos},
                                                              {"eos_token", &tokens.eos},
                                                              {"unk_token", &tokens.unk},
                                                              {"pad_token", &tokens.pad}};
  for (const auto& [name, text] : named) {
    if (!text->empty()) variables[name] = *text;
  }
}

}  // namespace

ConversationEncoder::ConversationEncoder(const ChatTemplateText& chat_template, std::string field,
                                         std::time_t now)
    : template_(chat_template.text, chat_template.origin), field_(std::move(field)), now_(now) {}

std::string ConversationEncoder::render(const Tokenizer& tokenizer, const Json& entry,
                                        size_t messages, bool add_generation_prompt) const {
  Json variables = Json::object();
  add_special_tokens(variables, tokenizer.special_tokens());
  variables["messages"] = first_messages(entry.at(field_), messages);
  for (const char* name : {"tools", "documents"}) variables[name] = entry.value(name, Json());
  variables["add_generation_prompt"] = add_generation_prompt;
  return template_.render(variables, now_).text;
}

namespace {

// Tokens of the beginnings of one conversation. Messages side by side ask for the same ones.
class Beginnings {
 public:
  Beginnings(const ConversationEncoder& encoder, const Tokenizer& tokenizer, const Json& entry,
             const std::string& whole)
      : encoder_(encoder), tokenizer_(tokenizer), entry_(entry), whole_(whole) {}

  int64_t tokens(size_t messages, bool add_generation_prompt) {
    const auto key = std::make_pair(messages, add_generation_prompt);
    const auto known = counts_.find(key);
    if (known != counts_.end()) return known->second;
    const std::string text = encoder_.render(tokenizer_, entry_, messages, add_generation_prompt);
    is_prefixed_ = is_prefixed_ && whole_.starts_with(text);
    return counts_[key] = static_cast<int64_t>(tokenizer_.encode(text, false).size());
  }

  bool is_prefixed() const { return is_prefixed_; }

 private:
  const ConversationEncoder& encoder_;
  const Tokenizer& tokenizer_;
  const Json& entry_;
  const std::string& whole_;
  std::map<std::pair<size_t, bool>, int64_t> counts_;
  bool is_prefixed_ = true;
};

bool is_said_by_assistant(const Json& message) {
  return *role_of(message) == "assistant";
}

}  // namespace

bool ConversationEncoder::encode(const Tokenizer& tokenizer, const Json& entry, int64_t most_tokens,
                                 EncodedConversation& encoded, Diagnostic& error) const {
  if (!is_conversation(entry, field_, error)) return false;
  const Json& messages = entry[field_];
  try {
    const std::string whole = render(tokenizer, entry, messages.size(), false);
    std::vector<int32_t>& ids = encoded.input_ids;
    ids = tokenizer.encode(whole, false);
    encoded.tokens = static_cast<int64_t>(ids.size());
    ids.resize(std::min(ids.size(), static_cast<size_t>(most_tokens)));
    encoded.labels = ids;
    const auto held = static_cast<int64_t>(ids.size());
    Beginnings beginnings(*this, tokenizer, entry, whole);
    for (size_t i = 0; i < messages.size(); ++i) {
      if (is_said_by_assistant(messages[i])) continue;
      // The words that begin an answer are the prompt's, not the assistant's.
      const bool is_answered = i + 1 < messages.size() && is_said_by_assistant(messages[i + 1]);
      const int64_t begin = i == 0 ? 0 : std::min(beginnings.tokens(i, false), held);
      const int64_t end = std::min(beginnings.tokens(i + 1, is_answered), held);
      for (int64_t k = begin; k < end; ++k)
        encoded.labels[static_cast<size_t>(k)] = static_cast<int32_t>(kIgnoredLabel);
      if (end == held) break;
    }
    encoded.is_prefixed = beginnings.is_prefixed();
    return true;
  } catch (const InputError& problem) {
    error = {};
    error.key = field_;
    error.message = problem.what();
    return false;
  }
}

}  // namespace sftbench
