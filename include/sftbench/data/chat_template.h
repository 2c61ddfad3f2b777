// Chats of vision datasets as the text that a processor makes of them. Templates are programs (Jinja); this renders those of
// the two documented models, and no others.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/data/parquet_library.h"

namespace sftbench {

inline constexpr const char* kImagePlaceholder = "<image>";

enum class ChatForm {
  kGraniteVision,  // <|system|> <|user|> <|assistant|>
  kLlavaMistral,   // [INST] ... [/INST]
};

// That of the chat template among a model's files: chat_template.jinja, chat_template.json, or tokenizer_config.json. Nothing
// where there is none. InputError for a template of another form.
std::optional<ChatForm> chat_form_of(const std::filesystem::path& directory);

// InputError for a role that the form has no place for.
std::string render_chat(ChatForm form, const std::vector<ChatMessage>& messages);

}  // namespace sftbench
