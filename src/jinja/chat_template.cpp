#include "sftbench/jinja/chat_template.h"

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A text, or one of several by their names.
std::string template_in(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return {};
  for (const Json& named : *found) {
    if (!named.is_object() || named.value("name", Json()) != "default") continue;
    const Json text = named.value("template", Json());
    return text.is_string() ? text.get<std::string>() : std::string();
  }
  return {};
}

}  // namespace

ChatTemplateText chat_template_of(const fs::path& directory) {
  const fs::path own = directory / "chat_template.jinja";
  if (is_file(own)) return {read_file(own), own.string()};
  for (const char* name :
       {"tokenizer_config.json", "chat_template.json", "processor_config.json"}) {
    const fs::path path = directory / name;
    if (!is_file(path)) continue;
    std::string text = template_in(read_json_file(path.string()));
    if (!text.empty()) return {std::move(text), path.string() + ": chat_template"};
  }
  return {};
}

std::string read_chat_template(const fs::path& file) {
  std::string text = read_file(file.string());
  if (!trimmed(text).empty()) return text;
  throw InputError({finding(file, {}, "the file is empty", "a chat template in Jinja")});
}

std::string no_chat_template(const std::string& tokenizer_directory) {
  return "the tokenizer " +
         (tokenizer_directory.empty() ? "that ships" : "of " + tokenizer_directory) +
         " has no chat template, which conversations need; --chat-template FILE gives one";
}

}  // namespace sftbench
