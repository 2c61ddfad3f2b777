#include "sftbench/jinja/chat_template.h"

#include <utf8proc.h>

#include <string_view>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_named(const Json& one) {
  return one.is_object() && one.value("name", Json()).is_string() &&
         one.value("template", Json()).is_string();
}

// A text, or several by their names.
std::string template_in(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  Json named = Json::array();
  for (const Json& one : found->is_array() ? *found : Json::array()) {
    if (is_named(one)) named.push_back(one);
  }
  return named.empty() ? std::string() : json_text(named);
}

bool is_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &character);
    if (size <= 0) return false;
    bytes += size;
    left -= size;
  }
  return true;
}

std::string read_text(const fs::path& file) {
  std::string text = read_file(file);
  if (is_utf8(text)) return text;
  throw InputError({finding(file, {}, "is no UTF-8", "a chat template in UTF-8")});
}

// "default" and what save_pretrained() writes beside it.
std::string templates_in(const fs::path& own) {
  Json named = Json::array();
  std::error_code error;
  for (const auto& file :
       fs::directory_iterator(own.parent_path() / "additional_chat_templates", error)) {
    if (file.path().extension() != ".jinja") continue;
    named.push_back({{"name", file.path().stem().string()}, {"template", read_text(file.path())}});
  }
  if (named.empty()) return read_text(own);
  named.insert(named.begin(), Json({{"name", "default"}, {"template", read_text(own)}}));
  return json_text(named);
}

}  // namespace

std::vector<NamedChatTemplate> named_chat_templates(const std::string& text) {
  std::vector<NamedChatTemplate> templates;
  const Json list =
      text.starts_with('[') ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!list.is_array()) return {{"default", text}};
  for (const Json& named : list) {
    if (!is_named(named)) return {{"default", text}};
    templates.push_back({named["name"].get<std::string>(), named["template"].get<std::string>()});
  }
  return templates;
}

ChatTemplateText chat_template_of(const fs::path& directory) {
  const fs::path own = directory / "chat_template.jinja";
  if (is_file(own)) return {templates_in(own), own.string()};
  for (const char* name :
       {"tokenizer_config.json", "chat_template.json", "processor_config.json"}) {
    const fs::path path = directory / name;
    if (!is_file(path)) continue;
    std::string text = template_in(read_json_file(path.string()));
    if (!text.empty()) return {std::move(text), path.string() + ": chat_template"};
  }
  return {};
}

std::string chat_template_of(const fs::path& directory, const std::string& name) {
  for (NamedChatTemplate& named : named_chat_templates(chat_template_of(directory).text)) {
    if (named.name == name) return std::move(named.text);
  }
  return {};
}

std::string read_chat_template(const fs::path& file) {
  const std::string text = read_text(file);
  if (!trimmed(without_byte_order_mark(text)).empty())
    return std::string(without_byte_order_mark(text));
  throw InputError({finding(file, {}, "the file is empty", "a chat template in Jinja")});
}

std::string no_chat_template(const std::string& tokenizer_directory) {
  return "the tokenizer " +
         (tokenizer_directory.empty() ? "that ships" : "of " + tokenizer_directory) +
         " has no chat template, which conversations need; --chat-template FILE gives one";
}

}  // namespace sftbench
