#include "sftbench/data/conversation.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/chat_turns.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/chat_template.h"
#include "sftbench/data/text_dataset.h"

namespace sftbench {
namespace {

// Whether the text has it as a name of its own, not within another one. `before`: what stands in
// front of it, one of these; empty: anything else.
bool has_name(std::string_view text, std::string_view name, std::string_view before = {}) {
  const auto is_part = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const char last = at == 0 ? ' ' : text[at - 1];
    const bool begins = before.empty() ? !is_part(last) : before.find(last) != before.npos;
    const size_t end = at + name.size();
    if (begins && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

// Of an object: m.name, m['name'] or m.get("name"). A variable of the template may have the same
// name.
bool reads_member(std::string_view text, std::string_view name) {
  return has_name(text, name, ".'\"");
}

bool is_said_by_assistant(const Json& message) {
  return message["role"] == "assistant";
}

bool calls_tools(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Json& message) { return message.contains("tool_calls"); });
}

}  // namespace

ConversationEncoder::ConversationEncoder(const ChatTemplateText& chat_template, std::string field,
                                         std::time_t now, ConversationMask mask)
    : field_(std::move(field)), now_(now), mask_(mask) {
  for (NamedChatTemplate& named : named_chat_templates(chat_template.text)) {
    jinja::Template parsed(named.text, chat_template.origin);
    templates_.push_back({std::move(named.name), std::move(named.text), std::move(parsed)});
  }
}

// As transformers' get_chat_template().
const ConversationEncoder::Named& ConversationEncoder::template_for(const Json& variables) const {
  if (templates_.size() == 1) return templates_.front();
  std::vector<std::string> names;
  const Named* usual = nullptr;
  for (const Named& named : templates_) {
    if (named.name == "tool_use" && variables.contains("tools")) return named;
    if (named.name == "default") usual = &named;
    names.push_back(named.name);
  }
  if (usual != nullptr) return *usual;
  throw InputError("none of the tokenizer's chat templates (" + join(names) +
                   ") is named default; --chat-template NAME chooses one");
}

// The ids and labels of one conversation.
class ConversationEncoder::Labeling {
 public:
  Labeling(const ConversationEncoder& encoder, const Named& chosen, const Tokenizer& tokenizer,
           Conversation conversation, EncodedConversation& encoded)
      : encoder_(encoder),
        template_(chosen),
        tokenizer_(tokenizer),
        conversation_(std::move(conversation)),
        encoded_(encoded) {
    add_special_tokens(variables_, tokenizer.special_tokens());
    variables_.update(conversation_.variables);
    for (const char* name : {"tools", "documents"}) {
      if (!variables_.contains(name)) variables_[name] = Json();
    }
  }

  void encode() {
    const std::set<std::string> texts = argument_texts();
    const jinja::Rendered rendered = render_whole();
    whole_ = rendered.text;
    encoded_.input_ids = tokenizer_.encode(whole_, false);
    const bool of_prompt = encoder_.field_ == kCompletionField;
    if (encoder_.mask_ == ConversationMask::kAll && !of_prompt) {
      encoded_.labels = encoded_.input_ids;
    } else if (encoder_.mask_ == ConversationMask::kFms) {
      label_by_beginnings();
    } else {
      label_turns(rendered.generation);
    }
    tell_unused();
    remark_on_roles();
    remark_on_arguments(texts);
  }

 private:
  jinja::Rendered render_all(const Json& messages, bool add_generation_prompt) const {
    Json variables = variables_;
    variables["messages"] = messages;
    variables["add_generation_prompt"] = add_generation_prompt;
    return template_.parsed.render(variables, encoder_.now_);
  }
  std::string render(const Json& messages, bool add_generation_prompt) const {
    return render_all(messages, add_generation_prompt).text;
  }

  // Parts as they are, as transformers hands them to the template, where it reads them all. Some
  // read none.
  std::optional<jinja::Rendered> render_parts() {
    Json messages = conversation_.messages;
    std::vector<std::string> texts;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (conversation_.parts[i].is_null()) continue;
      messages[i]["content"] = conversation_.parts[i];
      for (const Json& part : conversation_.parts[i]) texts.push_back(part.value("text", ""));
    }
    if (texts.empty()) return {};
    try {
      jinja::Rendered rendered = render_all(messages, false);
      for (const std::string& text : texts) {
        if (rendered.text.find(trimmed(text)) == std::string::npos) return {};
      }
      // A template that knows no parts prints the list as Python or as JSON writes it.
      for (const char* printed : {"{'type': 'text'", "{\"type\": \"text\"", "{\"type\":\"text\""}) {
        if (rendered.text.find(printed) != std::string::npos) return {};
      }
      conversation_.messages = std::move(messages);
      return rendered;
    } catch (const InputError&) {
      return {};
    }
  }

  // Some templates write arguments as they are, and refuse objects.
  jinja::Rendered render_whole() {
    if (auto rendered = render_parts()) return std::move(*rendered);
    try {
      return render_all(conversation_.messages, false);
    } catch (const InputError&) {
      if (!calls_tools(conversation_.messages)) throw;
      Json texts = with_argument_texts(conversation_.messages);
      if (texts == conversation_.messages) throw;
      std::optional<jinja::Rendered> rendered;
      try {
        rendered = render_all(texts, false);
      } catch (const InputError&) {
      }
      if (!rendered) throw;
      conversation_.messages = std::move(texts);
      return std::move(*rendered);
    }
  }

  // --- what assistants say

  // Tokens that end in front of a byte of the whole, and whether one ends there.
  std::pair<int64_t, bool> tokens_before(size_t byte) {
    const auto known = boundaries_.find(byte);
    if (known != boundaries_.end()) return known->second;
    const std::vector<int32_t>& ids = encoded_.input_ids;
    std::pair<int64_t, bool>& found = boundaries_[byte];
    if (byte == whole_.size()) return found = {std::ssize(ids), true};
    const std::vector<int32_t> before = tokenizer_.encode(whole_.substr(0, byte), false);
    const auto same = std::mismatch(before.begin(), before.end(), ids.begin(), ids.end()).first;
    return found = {same - before.begin(), same == before.end()};
  }

  void label(size_t begin, size_t end, bool has_last_in_part) {
    const int64_t first = tokens_before(begin).first;
    auto [last, exact] = tokens_before(end);
    if (!exact && has_last_in_part) ++last;
    const auto& ids = encoded_.input_ids;
    last = std::min<int64_t>(last, std::ssize(ids));
    for (int64_t i = first; i < last; ++i)
      encoded_.labels[static_cast<size_t>(i)] = ids[static_cast<size_t>(i)];
  }

  std::vector<size_t> assistants() const {
    std::vector<size_t> said;
    for (size_t i = 0; i < conversation_.messages.size(); ++i) {
      if (is_said_by_assistant(conversation_.messages[i])) said.push_back(i);
    }
    return said;
  }

  void label_turns(const std::vector<jinja::Span>& generation) {
    encoded_.labels.assign(encoded_.input_ids.size(), static_cast<int32_t>(kIgnoredLabel));
    const std::vector<size_t> said = assistants();
    const auto learned = [&](size_t message) { return conversation_.learned[message]; };
    const bool all = std::all_of(said.begin(), said.end(), learned);
    if (template_.parsed.marks_generation() && (all || generation.size() == said.size())) {
      for (size_t i = 0; i < generation.size(); ++i) {
        if (generation[i].begin < generation[i].end && (all || learned(said[i])))
          label(generation[i].begin, generation[i].end, true);
      }
      return;
    }
    const RenderMessages render = [this](const Json& messages, bool prompt) {
      return this->render(messages, prompt);
    };
    ChatTurns turns(render, conversation_.messages, whole_);
    unseen_ = turns.unseen();
    std::vector<Turn> found;
    for (const size_t message : said) {
      if (!learned(message)) continue;
      const std::vector<Turn> pieces = turns.turns(message);
      if (pieces.empty()) return label_by_beginnings();
      found.insert(found.end(), pieces.begin(), pieces.end());
    }
    for (const Turn& turn : found) label(turn.begin, turn.end, turn.end == turn.words_end);
  }

  // --- as fms-hf-tuning tells it

  // Tokens of the beginnings of one conversation. Messages side by side ask for the same ones.
  int64_t beginning_tokens(size_t messages, bool add_generation_prompt) {
    const auto key = std::make_pair(messages, add_generation_prompt);
    const auto known = beginnings_.find(key);
    if (known != beginnings_.end()) return known->second;
    Json first = Json::array();
    for (size_t i = 0; i < messages; ++i) first.push_back(conversation_.messages[i]);
    const std::string text = render(first, add_generation_prompt);
    is_prefixed_ = is_prefixed_ && whole_.starts_with(text);
    return beginnings_[key] = static_cast<int64_t>(tokenizer_.encode(text, false).size());
  }

  void label_by_beginnings() {
    const Json& messages = conversation_.messages;
    encoded_.labels = encoded_.input_ids;
    const auto held = static_cast<int64_t>(encoded_.input_ids.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      if (is_said_by_assistant(messages[i])) continue;
      // The words that begin an answer are the prompt's, not the assistant's.
      const bool is_answered = i + 1 < messages.size() && is_said_by_assistant(messages[i + 1]);
      const int64_t begin = i == 0 ? 0 : std::min(beginning_tokens(i, false), held);
      const int64_t end = std::min(beginning_tokens(i + 1, is_answered), held);
      for (int64_t k = begin; k < end; ++k)
        encoded_.labels[static_cast<size_t>(k)] = static_cast<int32_t>(kIgnoredLabel);
    }
    if (is_prefixed_) return;
    encoded_.doubtful_tokens = std::count_if(encoded_.labels.begin(), encoded_.labels.end(),
                                             [](int32_t label) { return label != kIgnoredLabel; });
  }

  // --- what the template does not read

  // Whether a message has a text under this key that stands nowhere in the whole.
  bool is_text_left_out(const std::string& key) const {
    for (const Json& message : conversation_.messages) {
      const auto found = message.find(key);
      if (found == message.end() || !found->is_string()) continue;
      if (whole_.find(trimmed(found->get_ref<const std::string&>())) == std::string::npos)
        return true;
    }
    return false;
  }

  // Of calls, where they are no objects.
  std::set<std::string> argument_texts() const {
    std::set<std::string> texts;
    for (const Json& message : conversation_.messages) {
      for (const Json& call : message.value("tool_calls", Json::array())) {
        const Json arguments = call["function"].value("arguments", Json());
        if (arguments.is_string()) texts.insert(arguments.get<std::string>());
      }
    }
    return texts;
  }

  void remark_on_arguments(const std::set<std::string>& texts) {
    if (texts.empty()) return;
    const bool quoted = std::any_of(texts.begin(), texts.end(), [this](const std::string& text) {
      return whole_.find(json_text(text)) != std::string::npos;
    });
    encoded_.remarks.push_back("arguments of a tool call are no JSON object and are trained as " +
                               std::string(quoted ? "a quoted text" : "they stand"));
  }

  void remark_on_roles() {
    if (encoder_.mask_ == ConversationMask::kAll) return;
    std::set<std::string> unknown;
    for (const Json& message : conversation_.messages) {
      const auto& role = message["role"].get_ref<const std::string&>();
      if (!is_usual_role(role)) unknown.insert(role);
    }
    for (const std::string& role : unknown)
      encoded_.remarks.push_back("the role " + role + " is no assistant's, and bears no loss");
  }

  void tell_unused() {
    for (const std::string& column : conversation_.unused_columns)
      encoded_.unused.push_back("column " + column);
    if (encoder_.mask_ != ConversationMask::kAssistant) {
      for (const size_t message : assistants()) {
        if (!conversation_.learned[message]) encoded_.unused.emplace_back("weight of messages");
      }
    }
    for (const std::string& key : conversation_.message_keys) {
      if (!reads_member(template_.text, key) || is_text_left_out(key))
        encoded_.unused.push_back("key " + key + " of messages");
    }
    if (calls_tools(conversation_.messages) && !has_name(template_.text, "tool_calls"))
      encoded_.unused.emplace_back("key tool_calls of messages");
    for (const char* name : {"tools", "documents"}) {
      if (conversation_.variables.contains(name) && !has_name(template_.text, name))
        encoded_.unused.push_back(std::string("column ") + name);
    }
    for (const size_t message : unseen_) {
      const Json& role = conversation_.messages[message]["role"];
      encoded_.unused.push_back("text of role " + role.get<std::string>());
    }
    for (const Json& message : conversation_.messages) {
      for (const char* key : kReasoningKeys) {
        const auto reasoning = message.find(key);
        if (reasoning == message.end() || !reasoning->is_string()) continue;
        const std::string_view thought = trimmed(reasoning->get_ref<const std::string&>());
        if (!thought.empty() && whole_.find(thought) == std::string::npos)
          encoded_.unused.emplace_back("reasoning of messages");
      }
    }
    std::sort(encoded_.unused.begin(), encoded_.unused.end());
    const auto end = std::unique(encoded_.unused.begin(), encoded_.unused.end());
    encoded_.unused.erase(end, encoded_.unused.end());
  }

  const ConversationEncoder& encoder_;
  const Named& template_;
  const Tokenizer& tokenizer_;
  Conversation conversation_;
  EncodedConversation& encoded_;
  Json variables_ = Json::object();
  std::string whole_;
  std::map<size_t, std::pair<int64_t, bool>> boundaries_;
  std::map<std::pair<size_t, bool>, int64_t> beginnings_;
  bool is_prefixed_ = true;
  std::vector<size_t> unseen_;
};

bool ConversationEncoder::encode(const Tokenizer& tokenizer, const Json& entry,
                                 EncodedConversation& encoded, Diagnostic& error) const {
  Conversation conversation;
  if (!read_conversation(entry, field_, conversation, error)) return false;
  try {
    const Named& chosen = template_for(conversation.variables);
    Labeling(*this, chosen, tokenizer, std::move(conversation), encoded).encode();
    return true;
  } catch (const InputError& problem) {
    error = {};
    error.key = field_;
    error.message = problem.what();
    return false;
  }
}

}  // namespace sftbench
