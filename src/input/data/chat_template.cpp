#include "sftbench/data/chat_template.h"

#include <ctime>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraniteSystem =
    "<|system|>\nA chat between a curious user and an artificial intelligence assistant. The "
    "assistant gives helpful, detailed, and polite answers to the user's questions.\n";

constexpr const char* kSmolVlm =
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if "
    "message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in "
    "message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}{% elif line['type'] == "
    "'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string template_in(const fs::path& path) {
  if (!is_there(path)) return {};
  const Json json = read_json_file(path.string());
  const auto found = json.find("chat_template");
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A processor's, which goes before the tokenizer's.
std::string template_of(const fs::path& directory) {
  std::string text;
  if (is_there(directory / "chat_template.jinja"))
    text = read_file(directory / "chat_template.jinja");
  for (const char* name :
       {"chat_template.json", "processor_config.json", "tokenizer_config.json"}) {
    if (text.empty()) text = template_in(directory / name);
  }
  return text;
}

// Images first, as both templates have them.
std::string images_of(const ChatMessage& message) {
  std::string text;
  for (const ChatPart& part : message.parts) {
    if (part.image) text += std::string(kImagePlaceholder) + "\n";
  }
  return text;
}

std::string texts_of(const ChatMessage& message, const char* end) {
  std::string text;
  for (const ChatPart& part : message.parts) {
    if (!part.image) text += part.text + end;
  }
  return text;
}

// content[0]['text']
std::string first_text(const ChatMessage& message) {
  return message.parts.empty() ? std::string() : message.parts.front().text;
}

InputError no_place_for(const std::string& role, const std::string& expected) {
  return InputError("the chat has a message of role '" + role + "'; expected " + expected);
}

std::string granite_vision(const std::vector<ChatMessage>& messages) {
  std::string text;
  bool has_system = false;
  for (const ChatMessage& message : messages) has_system |= message.role == "system";
  if (!has_system) text += kGraniteSystem;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      text += "<|system|>\n" + first_text(message) + "\n";
    } else if (message.role == "user") {
      text += "<|user|>\n" + images_of(message) + texts_of(message, "\n");
    } else if (message.role == "assistant") {
      text += "<|assistant|>\n" + first_text(message) + "<|end_of_text|>";
    } else {
      throw no_place_for(message.role, "system, user or assistant");
    }
  }
  return text;
}

// "<\s> " is what the published template says.
std::string llava_mistral(const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& message : messages) {
    if (message.role == "user") {
      text += "[INST] " + images_of(message) + texts_of(message, "") + " [/INST]";
    } else if (message.role == "assistant") {
      text += " " + first_text(message) + "<\\s> ";
    } else {
      throw no_place_for(message.role, "user or assistant");
    }
  }
  return text;
}

}  // namespace

std::optional<ChatForm> chat_form_of(const fs::path& directory) {
  const std::string text = template_of(directory);
  if (text.empty()) return std::nullopt;
  const auto has = [&text](const char* part) { return text.find(part) != std::string::npos; };
  if (has("'<|user|>") || has("<|user|>\n")) return ChatForm::kGraniteVision;
  if (has("[INST] ") && has(kImagePlaceholder)) return ChatForm::kLlavaMistral;
  throw InputError(directory.string() +
                   ": its chat template is neither that of granite-vision (<|user|>) nor that of "
                   "llava-v1.6-mistral ([INST]); a column of texts needs none");
}

std::string render_chat(ChatForm form, const std::vector<ChatMessage>& messages) {
  return form == ChatForm::kGraniteVision ? granite_vision(messages) : llava_mistral(messages);
}

jinja::Template smolvlm_template(const fs::path& directory) {
  const std::string text = directory.empty() ? std::string() : template_of(directory);
  if (text.empty()) return {kSmolVlm, "SmolVLM's chat template"};
  return {text, directory.string() + ": its chat template"};
}

std::string render_chat(const jinja::Template& own, const std::vector<ChatMessage>& messages,
                        const SpecialTokens& tokens) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    Json content = Json::array();
    for (const ChatPart& part : message.parts) {
      content.push_back(part.image ? Json{{"type", "image"}}
                                   : Json{{"type", "text"}, {"text", part.text}});
    }
    list.push_back({{"role", message.role}, {"content", std::move(content)}});
  }
  Json variables = {{"messages", std::move(list)}, {"add_generation_prompt", false}};
  add_special_tokens(variables, tokens);
  return own.render(variables, std::time(nullptr)).text;
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

}  // namespace sftbench
