// Conversations: lists of messages that a tokenizer's chat template turns into a text, of which
// what assistants say bears loss.
//
// Where a template marks it with generation blocks, these tell what assistants say; else the turns
// of the whole rendering do (data/chat_turns.h). Where neither can be had, and for
// ConversationMask::kFms, it is told as tokenize_and_apply_chat_template_with_masking of
// fms-hf-tuning v2.8.2 (from open-instruct) tells it: by how many tokens the messages before and up
// to one take, rendered alone.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/data/chat_entry.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/jinja/template.h"
#include "sftbench/tokenizer/tokenizer.h"
#include "sftbench/variants/conversation_mask.h"

namespace sftbench {

struct EncodedConversation {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // -100 but where assistants speak
  // Tokens that bear loss and may not be what an assistant says: fms-hf-tuning's masks, where
  // beginnings look otherwise.
  int64_t doubtful_tokens = 0;
  std::vector<std::string> unused;  // what of the entry the template does not read: "column weight"
  std::vector<std::string> remarks;  // sentences on the entry, each once
};

// Safe for concurrent calls, each with a tokenizer of its own.
class ConversationEncoder {
 public:
  // InputError: the template cannot be parsed. `now` is what its strftime_now tells.
  ConversationEncoder(const ChatTemplateText& chat_template, std::string field, std::time_t now,
                      ConversationMask mask = ConversationMask::kAssistant);

  // False and `error` where the entry holds no conversation, or the template refuses it.
  bool encode(const Tokenizer& tokenizer, const Json& entry, EncodedConversation& encoded,
              Diagnostic& error) const;

 private:
  struct Named {
    std::string name, text;
    jinja::Template parsed;
  };
  class Labeling;

  const Named& template_for(const Json& variables) const;

  std::vector<Named> templates_;
  std::string field_;
  std::time_t now_;
  ConversationMask mask_;
};

}  // namespace sftbench
