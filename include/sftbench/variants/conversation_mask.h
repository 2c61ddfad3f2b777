// What of a conversation bears loss (data/conversation.h).
#pragma once

#include <array>

#include "sftbench/base/named.h"

namespace sftbench {

enum class ConversationMask { kAssistant, kFms, kAll };
struct ConversationMaskRow {
  ConversationMask kind;
  const char* name;
};
inline constexpr std::array kConversationMasks = {
    ConversationMaskRow{ConversationMask::kAssistant, "assistant"},
    ConversationMaskRow{ConversationMask::kFms, "fms"},
    ConversationMaskRow{ConversationMask::kAll, "all"}};
static_assert(is_in_order(kConversationMasks));
constexpr const auto& rows_of(ConversationMask) {
  return kConversationMasks;
}
constexpr const char* noun_of(ConversationMask) {
  return "mask";
}

}  // namespace sftbench
