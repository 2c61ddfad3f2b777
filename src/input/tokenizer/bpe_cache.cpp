#include "tokenizer/bpe_cache.h"

#include <xxhash.h>

#include <algorithm>

namespace sftbench {

// The short slots go in and out at the front of a set, so that the last way holds the oldest.
template <typename Slot>
static void push_front(Slot* set, size_t ways, const Slot& slot) {
  std::copy_backward(set, set + ways - 1, set + ways);
  set[0] = slot;
}

PieceCache::PieceCache() : short_(kShortSets * kWays), long_(kLongSets * kWays) {}

void PieceCache::clear() {
  std::fill(short_.begin(), short_.end(), ShortSlot{});
  std::fill(long_.begin(), long_.end(), LongSlot{});
  arena_.clear();
  texts_.clear();
}

PieceCache::Ids PieceCache::store(std::span<const int32_t> ids) {
  Ids stored;
  stored.count = static_cast<uint32_t>(ids.size());
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), stored.inlined);
  } else {
    stored.inlined[0] = static_cast<int32_t>(arena_.size());
    arena_.insert(arena_.end(), ids.begin(), ids.end());
  }
  return stored;
}

void PieceCache::insert(std::string_view piece, std::span<const int32_t> ids) {
  if (arena_.size() + ids.size() > kArenaMost || texts_.size() + piece.size() > kArenaMost) clear();
  if (piece.size() <= kInline_bytes) {
    ShortSlot slot;
    key_of(piece, slot.low, slot.high);
    slot.ids = store(ids);
    return push_front(&short_[short_set(slot.low, slot.high) * kWays], kWays, slot);
  }
  LongSlot slot;
  slot.hash = XXH3_64bits(piece.data(), piece.size());
  slot.begin = static_cast<uint32_t>(texts_.size());
  slot.size_bytes = static_cast<uint32_t>(piece.size());
  texts_.insert(texts_.end(), piece.begin(), piece.end());
  slot.ids = store(ids);
  push_front(&long_[(slot.hash & (kLongSets - 1)) * kWays], kWays, slot);
}

bool PieceCache::find_long(std::string_view piece, IdBuffer& ids) const {
  const uint64_t hash = XXH3_64bits(piece.data(), piece.size());
  const LongSlot* set = &long_[(hash & (kLongSets - 1)) * kWays];
  for (size_t way = 0; way < kWays; ++way) {
    const LongSlot& slot = set[way];
    if (slot.hash == hash && slot.size_bytes == piece.size() &&
        std::memcmp(texts_.data() + slot.begin, piece.data(), piece.size()) == 0) {
      append(slot.ids, ids);
      return true;
    }
  }
  return false;
}

}  // namespace sftbench
