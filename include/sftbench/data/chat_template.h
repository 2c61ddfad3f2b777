// Chats of vision datasets as the text that a processor makes of them. The templates of the two
// documented models are known; others are run as the programs (Jinja) that they are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/jinja/template.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

inline constexpr const char* kImagePlaceholder = "<image>";

enum class ChatForm {
  kGraniteVision,  // <|system|> <|user|> <|assistant|>
  kLlavaMistral,   // [INST] ... [/INST]
};

// That of the chat template among a model's files: chat_template.jinja, chat_template.json, or
// tokenizer_config.json. Nothing where there is none. InputError for a template of another form.
std::optional<ChatForm> chat_form_of(const std::filesystem::path& directory);

// InputError for a role that the form has no place for.
std::string render_chat(ChatForm form, const std::vector<ChatMessage>& messages);

// The template of a folder's files, or that of SmolVLM where it has none, and where `directory` is
// empty. InputError: it cannot be parsed.
jinja::Template smolvlm_template(const std::filesystem::path& directory);

// InputError as the template raises it.
std::string render_chat(const jinja::Template& own, const std::vector<ChatMessage>& messages,
                        const SpecialTokens& tokens);

// bos_token, eos_token, unk_token and pad_token, those that there are, as variables of a template.
void add_special_tokens(Json& variables, const SpecialTokens& tokens);

}  // namespace sftbench
