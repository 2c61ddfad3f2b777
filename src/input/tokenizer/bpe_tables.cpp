#include "tokenizer/bpe_tables.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace sftbench {

size_t TokenTable::place(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return i;
    if (slot.hash == hash && std::string_view(texts_).substr(slot.begin, slot.size_bytes) == text)
      return i;
  }
}

void TokenTable::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t i = slot.hash & (slots_.size() - 1);
    while (slots_[i].id >= 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

void TokenTable::reserve(size_t tokens) {
  grow(std::bit_ceil(std::max<size_t>(16, tokens * 2)));
}

void TokenTable::insert(std::string_view text, int32_t id) {
  if (slots_.size() < (count_ + 1) * 2) reserve(count_ * 2);
  const uint64_t hash = XXH3_64bits(text.data(), text.size());
  Slot& slot = slots_[place(text, hash)];
  if (slot.id < 0) {
    slot = {hash, texts_.size(), static_cast<uint32_t>(text.size()), id};
    texts_ += text;
    ++count_;
  }
  slot.id = id;
}

int32_t TokenTable::find(std::string_view text) const {
  if (count_ == 0) return -1;
  return slots_[place(text, XXH3_64bits(text.data(), text.size()))].id;
}

int32_t TokenTable::largest_id() const {
  int32_t largest = -1;
  for (const Slot& slot : slots_) largest = std::max(largest, slot.id);
  return largest;
}

std::unordered_map<int32_t, std::string_view> TokenTable::texts_of(
    const std::vector<int32_t>& ids) const {
  const std::unordered_set<int32_t> wanted(ids.begin(), ids.end());
  std::unordered_map<int32_t, std::string_view> texts;
  for (const Slot& slot : slots_) {
    if (slot.id >= 0 && wanted.contains(slot.id))
      texts[slot.id] = std::string_view(texts_).substr(slot.begin, slot.size_bytes);
  }
  return texts;
}

void MergeTable::reserve(size_t merges) {
  std::vector<Slot> old(std::bit_ceil(std::max<size_t>(16, merges * 2)));
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  count_ = 0;
  for (const Slot& slot : old) {
    if (slot.key != kEmpty)
      insert(static_cast<int32_t>(slot.key >> 32), static_cast<int32_t>(slot.key), slot.merge);
  }
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  if (slots_.size() < (count_ + 1) * 2) reserve(count_ * 2 + 8);
  const uint64_t key = key_of(left, right);
  size_t i = index_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++count_;
  slots_[i] = {key, merge};
}

}  // namespace sftbench
