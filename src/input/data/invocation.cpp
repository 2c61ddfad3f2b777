#include "sftbench/data/invocation.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"

namespace sftbench {

std::vector<int32_t> invocation_ids(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text, /*add_special_tokens=*/false);
  if (!ids.empty()) return ids;
  throw RunError(ReasonCode::kUnsupported, "alora_invocation_string " + json_text(Json(text)) +
                                               " has no tokens under this tokenizer; a text "
                                               "that it encodes works, such as the response "
                                               "template");
}

std::vector<uint8_t> silent_positions(const MicroBatch& batch,
                                      const std::vector<int32_t>& invocation) {
  std::vector<uint8_t> silent(batch.input_ids.size(), 1);
  int64_t at = 0;
  for (const int64_t length : batch.lengths) {
    const std::span<const int64_t> ids(batch.input_ids.begin() + at, static_cast<size_t>(length));
    if (const auto begin = last_invocation(ids, invocation)) {
      std::fill(silent.begin() + at + *begin, silent.begin() + at + length, uint8_t{0});
    }
    at += batch.one_row ? length : batch.length;
  }
  return silent;
}

}  // namespace sftbench
