// The chat template among a tokenizer's files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

struct ChatTemplateText {
  // Several of them: JSON, [{"name": "default", "template": "..."}, ...], as tokenizer_config.json
  // has it.
  std::string text;
  std::string origin;  // its file, for errors
};

struct NamedChatTemplate {
  std::string name, text;
};

// Those of a ChatTemplateText's text; a single one is named "default".
std::vector<NamedChatTemplate> named_chat_templates(const std::string& text);

// Those that transformers would take: chat_template.jinja and additional_chat_templates/, or
// chat_template of tokenizer_config.json, of chat_template.json or of processor_config.json. Empty
// text: there is none. InputError for files that cannot be read.
ChatTemplateText chat_template_of(const std::filesystem::path& tokenizer_directory);

// The one of this name among them; empty where there is none.
std::string chat_template_of(const std::filesystem::path& tokenizer_directory,
                             const std::string& name);

// The text of a file with a template. InputError where it cannot be read, or holds blanks alone.
std::string read_chat_template(const std::filesystem::path& file);

// "the tokenizer of DIR has no chat template, ..."; `tokenizer_directory` is empty for the one that
// ships.
std::string no_chat_template(const std::string& tokenizer_directory);

}  // namespace sftbench
