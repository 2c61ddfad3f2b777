// Activated LoRA: its adapters act from the last occurrence of an invocation on, in each sequence,
// and the base model alone reads what stands before. An entry without the invocation is the base
// model's. Source: peft's calculate_alora_offsets and ALoraLinearVariant. There a row is one
// sequence; here the entries of a row without padding are searched one by one, and padding is not
// searched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sftbench/data/micro_batch.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// The text's tokens without special ones around them, as fms-hf-tuning encodes
// alora_invocation_string. RunError(kUnsupported) when there are none.
std::vector<int32_t> invocation_ids(const Tokenizer& tokenizer, const std::string& text);

// First position of the last occurrence, which may overlap others.
template <typename Id>
std::optional<int64_t> last_invocation(std::span<const Id> ids,
                                       const std::vector<int32_t>& invocation) {
  const auto last = std::find_end(ids.begin(), ids.end(), invocation.begin(), invocation.end());
  if (last == ids.end()) return std::nullopt;
  return last - ids.begin();
}

// [batch, length] of the batch: whether adapters are silent, padding included.
std::vector<uint8_t> silent_positions(const MicroBatch& batch,
                                      const std::vector<int32_t>& invocation);

}  // namespace sftbench
