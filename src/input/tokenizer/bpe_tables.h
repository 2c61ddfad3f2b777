// The two hash tables of a BPE model: token text -> id, and (left id, right id) -> merge.
// Open addressing in flat memory; nothing is ever sized by an id, so absurd ids cost nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sftbench {

// Text -> id. A later insertion of the same text replaces the id, as in a JSON object.
class TokenTable {
 public:
  void reserve(size_t tokens);
  void insert(std::string_view text, int32_t id);
  int32_t find(std::string_view text) const;  // -1: not there
  size_t size() const { return count_; }
  int32_t largest_id() const;
  // The texts of those of `ids` that are here.
  std::unordered_map<int32_t, std::string_view> texts_of(const std::vector<int32_t>& ids) const;

 private:
  struct Slot {
    uint64_t hash;
    size_t begin;
    uint32_t size_bytes;
    int32_t id = -1;
  };
  size_t place(std::string_view text, uint64_t hash) const;
  void grow(size_t slots);

  std::vector<Slot> slots_;
  std::string texts_;
  size_t count_ = 0;
};

struct Merge {
  uint32_t rank = 0xFFFFFFFF;  // smaller merges first; this value: no such merge
  int32_t id = -1;
};

// A later insertion of the same pair replaces the merge.
class MergeTable {
 public:
  void reserve(size_t merges);
  void insert(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = index_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t index_of(uint64_t key) const {
    key ^= key >> 29;
    key *= 0xBF58476D1CE4E5B9ULL;
    return static_cast<size_t>(key ^ key >> 32) & mask_;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t mask_ = 1;
  size_t count_ = 0;
};

}  // namespace sftbench
