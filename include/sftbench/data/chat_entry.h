// One entry's conversation in the form that chat templates read, in whatever form it stands:
// messages as OpenAI, ShareGPT or LLaMA-Factory have them, or trl's prompt and completion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

// Where conversations stand unless another column is named (data/entry_form.h finds others).
inline constexpr const char* kConversationField = "messages";
inline constexpr std::string_view kCompletionField = "completion";

// By which templates read what an assistant thinks.
inline constexpr const char* kReasoningKeys[] = {"reasoning_content", "thinking", "reasoning"};

struct Conversation {
  // {role, content, tool_calls, ...}, without keys that have no value, as transformers 5.24 leaves
  // them out. Texts in parts are one text, arguments of tool calls are objects.
  Json messages = Json::array();
  Json parts =
      Json::array();  // the content of each message that is a list of texts; null of others
  // What the template reads beside them: tools, documents, and what chat_template_kwargs has.
  Json variables = Json::object();
  std::vector<bool> learned;  // of each message: an assistant's, unless its weight is 0
  // Keys of messages that only a template could read, each once, and columns that nothing reads.
  std::vector<std::string> message_keys, unused_columns;
};

// The messages under `field`, with the system text, tools, functions and documents that stand
// beside them. A conversation under "completion" begins with the messages under "prompt", which
// bear no loss. False and `error` where an entry holds no conversation, or what it holds cannot be
// read.
bool read_conversation(const Json& entry, const std::string& field, Conversation& conversation,
                       Diagnostic& error);

// Whether templates and data know the role.
bool is_usual_role(const std::string& role);

// The same messages, with the arguments of tool calls as JSON texts: some templates write these as
// they are.
Json with_argument_texts(Json messages);

}  // namespace sftbench
