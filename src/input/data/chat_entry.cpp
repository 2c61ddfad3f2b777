#include "sftbench/data/chat_entry.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "sftbench/base/json_builder.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/jinja/template.h"

namespace sftbench {
namespace {

// What is wrong with a message or a column; read_conversation() says it of the entry.
struct Unusable {
  std::string key, message, expected;
};

constexpr const char* kCall = "function_call";
constexpr const char* kExpected = "a list of messages, each an object with role and content";

// Names of roles as data have them, and those that templates know.
const std::map<std::string, std::string>& usual_roles() {
  static const std::map<std::string, std::string> kRoles = {{"ai", "assistant"},
                                                            {"assistant", "assistant"},
                                                            {"bard", "assistant"},
                                                            {"bing", "assistant"},
                                                            {"bot", "assistant"},
                                                            {"chatgpt", "assistant"},
                                                            {"developer", "developer"},
                                                            {"function", "tool"},
                                                            {"function_response", "tool"},
                                                            {kCall, kCall},
                                                            {"gpt", "assistant"},
                                                            {"human", "user"},
                                                            {"model", "assistant"},
                                                            {"observation", "tool"},
                                                            {"system", "system"},
                                                            {"tool", "tool"},
                                                            {"tool_call", kCall},
                                                            {"tool_response", "tool"},
                                                            {"user", "user"}};
  return kRoles;
}

// Another one stays as it is.
std::string usual_role(const std::string& said) {
  const auto usual = usual_roles().find(lower_case(said));
  return usual == usual_roles().end() ? said : usual->second;
}

// Not operator[], which searches all members for each new one.
void append(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The value of a text that is JSON; anything else as it is.
Json parsed(const Json& value, const std::string& key, const std::string& expected) {
  if (!value.is_string()) return value;
  try {
    return build_json(value.get_ref<const std::string&>());
  } catch (const Json::exception& problem) {
    throw Unusable{key, "is a text that is no JSON: " + json_problem(problem), expected};
  }
}

bool is_blank(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && trimmed(value.get_ref<const std::string&>()).empty());
}

Json without_nulls(const Json& object) {
  Json with_values = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (!value.is_null()) append(with_values, key, value);
  }
  return with_values;
}

// Keys that have a value and are none of these, which a template reads or which have no words.
void add_unknown_keys(const Json& object, std::initializer_list<std::string_view> known,
                      std::set<std::string>& keys) {
  for (const auto& [key, value] : object.items()) {
    if (!value.is_null() && std::find(known.begin(), known.end(), key) == known.end())
      keys.insert(key);
  }
}

// {type: function, function: {name, arguments}} of that, or of what stands under its `function`
// alone. Adds its other keys.
Json tool_call(const Json& given, const std::string& place, std::set<std::string>& keys) {
  const std::string expected = "an object with name and arguments";
  if (!given.is_object()) throw Unusable{place, "a tool call is no object", expected};
  const Json* inner = member(given, "function");
  Json function = without_nulls(inner != nullptr && inner->is_object() ? *inner : given);
  if (member(function, "name") == nullptr)
    throw Unusable{place, "a tool call has no name", expected};
  if (const Json* arguments = member(function, "arguments")) {
    // Arguments that are no JSON stay a text: the assistant wrote them so.
    Json object = Json::parse(arguments->is_string() ? arguments->get<std::string>() : "", nullptr,
                              /*allow_exceptions=*/false);
    if (object.is_object()) function["arguments"] = std::move(object);
  }
  add_unknown_keys(function, {"name", "arguments", "id", "type"}, keys);
  Json call = inner == nullptr ? Json::object() : without_nulls(given);
  add_unknown_keys(call, {"function", "id", "type", "index"}, keys);
  if (!call.contains("type")) call["type"] = "function";
  call["function"] = std::move(function);
  return call;
}

Json tool_calls(const Json& given, const std::string& place, std::set<std::string>& keys) {
  const Json value = parsed(given, place, "a list of tool calls");
  Json calls = Json::array();
  if (!value.is_array()) {
    calls.push_back(tool_call(value, place, keys));
    return calls;
  }
  for (const Json& call : value)
    calls.push_back(tool_call(parsed(call, place, "tool calls"), place, keys));
  return calls;
}

// The schemas of functions, each {type: function, function: ...}.
Json tool_schemas(const Json& given, const std::string& column) {
  const std::string expected = "a list of objects, each a function's schema";
  const Json value = parsed(given, column, expected);
  Json tools = Json::array();
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    Json tool = parsed(item, column, expected);
    if (!tool.is_object()) throw Unusable{column, "has what is no object", expected};
    const bool bare = !tool.contains("function") && tool.contains("name");
    tools.push_back(bare ? Json({{"type", "function"}, {"function", std::move(tool)}})
                         : std::move(tool));
  }
  return tools;
}

// A text, or the texts of parts behind each other. Parts that are thoughts go to `reasoning`.
std::string text_of_parts(const Json& parts, const std::string& place, std::string& reasoning) {
  std::string text;
  for (const Json& part : parts) {
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    const std::string type = part.is_object() ? part.value("type", Json()).is_string()
                                                    ? part["type"].get<std::string>()
                                                    : std::string("text")
                                              : std::string();
    const bool thought = type == "thinking" || type == "reasoning";
    const Json* own = type.empty() ? nullptr : member(part, thought ? type.c_str() : "text");
    if (own == nullptr && type == "refusal") own = member(part, "refusal");
    if (own == nullptr || !own->is_string()) {
      throw Unusable{place,
                     "has a part " + (type.empty() ? "that is no object" : "of type " + type),
                     "parts that are texts"};
    }
    (thought ? reasoning : text) += own->get_ref<const std::string&>();
  }
  return text;
}

bool are_texts(const Json& parts) {
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const Json& part) {
    return part.is_object() && part.value("type", Json()) == "text";
  });
}

class MessageReader {
 public:
  MessageReader(Conversation& conversation, std::set<std::string>& keys)
      : conversation_(conversation), keys_(keys) {}

  // `bears_loss`: where an assistant says it.
  void read(const Json& given, const std::string& place, bool bears_loss) {
    if (!given.is_object()) throw Unusable{place, "is no object", kExpected};
    const Json* role = member(given, "role");
    if (role == nullptr) role = member(given, "from");
    if (role == nullptr || !role->is_string()) throw Unusable{place, "has no role", kExpected};
    message_ = Json::object();
    parts_ = nullptr;
    reasoning_.clear();
    const std::string said = usual_role(role->get<std::string>());
    append(message_, "role", said == kCall ? "assistant" : said);
    if (said == kCall) {
      add_call(given, place);
    } else {
      add_content(given, place);
    }
    add_others(given, place, said);
    const bool learned = message_["role"] == "assistant" && weight_of(given, place);
    conversation_.learned.push_back(bears_loss && learned);
    conversation_.messages.push_back(std::move(message_));
    conversation_.parts.push_back(std::move(parts_));
  }

 private:
  static const Json* content_of(const Json& given) {
    const Json* content = member(given, "content");
    return content != nullptr ? content : member(given, "value");
  }

  void add_content(const Json& given, const std::string& place) {
    const Json* content = content_of(given);
    if (content == nullptr) return;
    if (content->is_array()) {
      append(message_, "content", text_of_parts(*content, place, reasoning_));
      for (const Json& part : *content) {
        if (part.is_object())
          add_unknown_keys(part, {"type", "text", "thinking", "reasoning", "refusal"}, keys_);
      }
      if (are_texts(*content)) parts_ = *content;
    } else if (content->is_string()) {
      append(message_, "content", *content);
    } else {
      throw Unusable{place, std::string("has a content that is ") + content->type_name(),
                     "a text, or a list of parts; an object as a text in JSON"};
    }
  }

  // What ShareGPT has as a turn of its own is an assistant's message without words.
  void add_call(const Json& given, const std::string& place) {
    const Json* call = content_of(given);
    if (call == nullptr)
      throw Unusable{place, "has no call", "a JSON text with name and arguments"};
    append(message_, "content", "");
    append(message_, "tool_calls", tool_calls(*call, place, keys_));
  }

  void add_others(const Json& given, const std::string& place, const std::string& said) {
    static const std::set<std::string> kRead = {"role", "from", "content", "value", "weight"};
    for (const auto& [key, value] : given.items()) {
      if (kRead.count(key) > 0 || value.is_null()) continue;
      if (key == "tool_calls" || (key == kCall && !given.contains("tool_calls"))) {
        if (value.is_array() && value.empty()) continue;
        if (said != kCall && !is_blank(value))
          append(message_, "tool_calls", tool_calls(value, place + "." + key, keys_));
        continue;
      }
      append(message_, key, value);
      keys_.insert(key);
    }
    add_reasoning();
  }

  // A key stays what it is: a template reads the one that it knows, as under transformers. Thoughts
  // in parts have none.
  void add_reasoning() {
    for (const char* name : kReasoningKeys) {
      const Json* found = member(message_, name);
      if (found != nullptr && found->is_string()) keys_.erase(name);  // looked for in the text
      if (found == nullptr && !reasoning_.empty()) append(message_, name, reasoning_);
    }
  }

  // Of OpenAI's fine-tuning: 0 is read and not learned.
  static bool weight_of(const Json& given, const std::string& place) {
    const Json* weight = member(given, "weight");
    if (weight == nullptr) return true;
    if (weight->is_boolean()) return weight->get<bool>();
    if (weight->is_number() && (*weight == 0 || *weight == 1)) return *weight == 1;
    throw Unusable{place + ".weight", "found " + json_text(*weight), "0 or 1"};
  }

  Conversation& conversation_;
  std::set<std::string>& keys_;
  Json message_, parts_;
  std::string reasoning_;  // of parts
};

class EntryReader {
 public:
  EntryReader(const Json& entry, const std::string& field, Conversation& conversation)
      : entry_(entry), field_(field), conversation_(conversation) {}

  void read() {
    const Json messages = messages_of(field_);
    std::set<std::string> keys;
    MessageReader reader(conversation_, keys);
    used_.insert(field_);
    if (field_ == kCompletionField && member(entry_, "prompt") != nullptr) {
      read_messages(reader, messages_of("prompt"), false);
      used_.insert("prompt");
    }
    read_messages(reader, messages, true);
    conversation_.message_keys.assign(keys.begin(), keys.end());
    add_system();
    add_tools();
    add_documents();
    add_variables();
    for (const auto& [key, value] : entry_.items()) {
      if (used_.count(key) == 0 && !is_blank(value)) conversation_.unused_columns.push_back(key);
    }
  }

 private:
  Json messages_of(const std::string& field) const {
    const auto found = entry_.find(field);
    if (found == entry_.end())
      throw Unusable{field, "no such field; found " + join_some(keys_of(entry_)), kExpected};
    const bool list =
        found->is_string() && trimmed(found->get_ref<const std::string&>()).starts_with('[');
    const Json messages = list ? parsed(*found, field, kExpected) : *found;
    if (!messages.is_array()) throw Unusable{field, "the field is no list", kExpected};
    if (messages.empty()) throw Unusable{field, "the conversation is empty", kExpected};
    return messages;
  }

  static void read_messages(MessageReader& reader, const Json& messages, bool bear_loss) {
    for (size_t i = 0; i < messages.size(); ++i)
      reader.read(messages[i], "message " + std::to_string(i), bear_loss);
  }

  // A system text among the messages comes first, as in LLaMA-Factory.
  void add_system() {
    const auto found = entry_.find("system");
    if (found == entry_.end() || (!found->is_string() && !found->is_null())) return;
    const bool has_own = conversation_.messages.front()["role"] == "system";
    if (has_own && !is_blank(*found) &&
        conversation_.messages.front().value("content", Json()) != *found)
      return;
    used_.insert("system");
    if (has_own || is_blank(*found)) return;
    conversation_.messages.insert(conversation_.messages.begin(),
                                  Json({{"role", "system"}, {"content", *found}}));
    conversation_.learned.insert(conversation_.learned.begin(), false);
    conversation_.parts.insert(conversation_.parts.begin(), Json());
  }

  void add_tools() {
    for (const char* column : {"tools", "functions"}) {
      const Json* given = member(entry_, column);
      if (given == nullptr || conversation_.variables.contains("tools")) continue;
      used_.insert(column);
      if (is_blank(*given)) continue;
      Json tools = tool_schemas(*given, column);
      if (!tools.empty()) conversation_.variables["tools"] = std::move(tools);
    }
  }

  void add_documents() {
    const Json* given = member(entry_, "documents");
    if (given == nullptr) return;
    used_.insert("documents");
    if (!is_blank(*given))
      conversation_.variables["documents"] = parsed(*given, "documents", "a list of documents");
  }

  void add_variables() {
    const Json* given = member(entry_, "chat_template_kwargs");
    if (given == nullptr) return;
    used_.insert("chat_template_kwargs");
    if (is_blank(*given)) return;
    const Json variables = parsed(*given, "chat_template_kwargs", "an object");
    if (!variables.is_object()) throw Unusable{"chat_template_kwargs", "is no object", "an object"};
    for (const auto& [name, value] : variables.items()) {
      if (!value.is_null()) conversation_.variables[name] = value;
    }
  }

  const Json& entry_;
  const std::string& field_;
  Conversation& conversation_;
  std::set<std::string> used_;
};

}  // namespace

bool is_usual_role(const std::string& role) {
  return usual_roles().contains(role);
}

bool read_conversation(const Json& entry, const std::string& field, Conversation& conversation,
                       Diagnostic& error) {
  conversation = {};
  try {
    EntryReader(entry, field, conversation).read();
    return true;
  } catch (const Unusable& problem) {
    error = {};
    const bool of_message = problem.key.starts_with("message ");
    error.key = of_message ? field : problem.key;
    error.message = of_message ? problem.key + " " + problem.message : problem.message;
    error.expected = problem.expected;
    if (problem.key == field && !entry.contains(field)) {
      error.nearest = nearest_spelling(field, keys_of(entry));
    }
    return false;
  }
}

Json with_argument_texts(Json messages) {
  static const jinja::Template kText("{{ arguments | tojson }}", "arguments");
  for (Json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (Json& call : *calls) {
      Json& function = call["function"];
      if (!function.contains("arguments") || function["arguments"].is_string()) continue;
      const Json variables = {{"arguments", function["arguments"]}};
      function["arguments"] = kText.render(variables, 0).text;
    }
  }
  return messages;
}

}  // namespace sftbench
