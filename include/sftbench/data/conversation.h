// Conversations: lists of messages that a tokenizer's chat template turns into a text, of which what assistants say bears
// loss.
//
// Source: tokenize_and_apply_chat_template_with_masking of fms-hf-tuning v2.8.2 (from open-instruct) over transformers'
// apply_chat_template. How many tokens the messages before and up to one take, rendered alone, tells where it stands.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/jinja/template.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// Where conversations stand unless another column is named.
inline constexpr const char* kConversationField = "messages";

// False and `error` where `field` of an entry is not a list of messages, each an object with a role. ShareGPT's
// {from, value} are role and content: from "human" is user, from "gpt" is assistant.
bool is_conversation(const Json& entry, const std::string& field, Diagnostic& error);

struct EncodedConversation {
  std::vector<int32_t> input_ids;  // cut to the most tokens
  std::vector<int32_t> labels;     // -100 but where assistants speak
  int64_t tokens = 0;              // before they were cut
  // Whether messages rendered alone begin the whole as they stand in it. Else the masks are what fms-hf-tuning makes of
  // it, which may be some tokens off.
  bool is_prefixed = true;
};

// Safe for concurrent calls, each with a tokenizer of its own.
class ConversationEncoder {
 public:
  // InputError: the template cannot be parsed. `now` is what its strftime_now tells.
  ConversationEncoder(const ChatTemplateText& chat_template, std::string field, std::time_t now);

  // An entry's field, and its `tools` and `documents` if it has them. False and `error` where it holds no conversation, or
  // the template refuses it.
  bool encode(const Tokenizer& tokenizer, const Json& entry, int64_t most_tokens,
              EncodedConversation& encoded, Diagnostic& error) const;

  // The text of the first `messages` of a conversation. InputError.
  std::string render(const Tokenizer& tokenizer, const Json& entry, size_t messages,
                     bool add_generation_prompt) const;

 private:
  jinja::Template template_;
  std::string field_;
  std::time_t now_;
};

}  // namespace sftbench
