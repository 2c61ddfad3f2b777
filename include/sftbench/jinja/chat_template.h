// The chat template among a tokenizer's files.
#pragma once

#include <filesystem>
#include <string>

namespace sftbench {

struct ChatTemplateText {
  std::string text;
  std::string origin;  // its file, for errors
};

// The one that transformers would take: chat_template.jinja, or chat_template of tokenizer_config.json ("default" of
// several), of chat_template.json or of processor_config.json. Empty text: there is none. InputError for files that
// cannot be read.
ChatTemplateText chat_template_of(const std::filesystem::path& tokenizer_directory);

// The text of a file with a template. InputError where it cannot be read, or holds blanks alone.
std::string read_chat_template(const std::filesystem::path& file);

// "the tokenizer of DIR has no chat template, ..."; `tokenizer_directory` is empty for the one that ships.
std::string no_chat_template(const std::string& tokenizer_directory);

}  // namespace sftbench
