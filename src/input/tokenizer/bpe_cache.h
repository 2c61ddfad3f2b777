// Ids of pieces that were encoded before: words recur, so most of a text is looked up, not merged.
//
// A set-associative table of fixed size in which new pieces push out old ones, so that no text can
// make it grow or slow. Short pieces (nearly all) stand whole in their 32-byte slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace sftbench {

// Token ids that are written without asking for room each time.
class IdBuffer {
 public:
  void clear() { count_ = 0; }
  std::span<const int32_t> ids() const { return {ids_.data(), count_}; }

  // Room for `more` ids behind those that are there.
  void reserve(size_t more) {
    if (count_ + more > ids_.size()) ids_.resize(std::max(count_ + more, ids_.size() * 2));
  }
  void push(int32_t id) {
    reserve(1);
    ids_[count_++] = id;
  }
  void append(std::span<const int32_t> ids) {
    reserve(ids.size());
    std::copy(ids.begin(), ids.end(), end());
    count_ += ids.size();
  }
  int32_t* end() { return ids_.data() + count_; }
  void advance(size_t count) { count_ += count; }

 private:
  std::vector<int32_t> ids_ = std::vector<int32_t>(1024);
  size_t count_ = 0;
};

class PieceCache {
 public:
  PieceCache();

  static constexpr size_t kInlineIds = 3;

  static constexpr size_t kLongestPiece_bytes = 256;

  // Appends the ids of `piece` and returns true, or returns false.
  // REQUIRES: 16 readable bytes from piece.data() on; not empty; at most kLongestPiece_bytes; room
  // for kInlineIds in `ids`.
  bool find(std::string_view piece, IdBuffer& ids) const {
    return piece.size() <= kInline_bytes ? find_short(piece, ids) : find_long(piece, ids);
  }
  // What find() needs for a batch of `pieces`; a piece with many ids makes room again.
  static constexpr size_t kReserve = 64 * kInlineIds;
  // Remembers the ids of a piece that find() did not know.
  void insert(std::string_view piece, std::span<const int32_t> ids);
  void clear();

 private:
  static constexpr size_t kInline_bytes = 15;
  static constexpr size_t kWays = 4;
  static constexpr size_t kShortSets = size_t{1} << 14;
  static constexpr size_t kLongSets = size_t{1} << 11;
  static constexpr size_t kArenaMost = size_t{1} << 20;

  struct Ids {
    uint32_t count = 0;
    int32_t inlined[kInlineIds] = {};  // more ids: [0] is their place in the arena
  };
  struct ShortSlot {
    uint64_t low = 0, high = 0;  // the bytes, and in the highest byte their count; high 0: empty
    Ids ids;
  };
  struct LongSlot {
    uint64_t hash = 0;
    uint32_t begin = 0, size_bytes = 0;  // size 0: empty
    Ids ids;
  };

  static void key_of(std::string_view piece, uint64_t& low, uint64_t& high) {
    std::memcpy(&low, piece.data(), 8);
    std::memcpy(&high, piece.data() + 8, 8);
    const size_t size = piece.size();
    const uint64_t keep_low = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (size * 8)) - 1;
    const uint64_t keep_high = size <= 8 ? 0 : (uint64_t{1} << ((size - 8) * 8)) - 1;
    low &= keep_low;
    high = (high & keep_high) | static_cast<uint64_t>(size) << 56;
  }
  static size_t short_set(uint64_t low, uint64_t high) {
    uint64_t hash = (low ^ 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
    hash ^= hash >> 32 ^ (high * 0x94D049BB133111EBULL);
    hash *= 0xD6E8FEB86659FD93ULL;
    return static_cast<size_t>(hash >> 40) & (kShortSets - 1);
  }

  bool find_short(std::string_view piece, IdBuffer& ids) const {
    uint64_t low = 0, high = 0;
    key_of(piece, low, high);
    const ShortSlot* set = &short_[short_set(low, high) * kWays];
    for (size_t way = 0; way < kWays; ++way) {
      if (set[way].low == low && set[way].high == high) {
        append(set[way].ids, ids);
        return true;
      }
    }
    return false;
  }
  bool find_long(std::string_view piece, IdBuffer& ids) const;

  void append(const Ids& found, IdBuffer& ids) const {
    if (found.count > kInlineIds) {
      const auto begin = arena_.begin() + found.inlined[0];
      ids.append({begin, begin + found.count});
      ids.reserve(kReserve);
      return;
    }
    std::memcpy(ids.end(), found.inlined, sizeof(found.inlined));
    ids.advance(found.count);
  }
  Ids store(std::span<const int32_t> ids);

  std::vector<ShortSlot> short_;
  std::vector<LongSlot> long_;
  std::vector<int32_t> arena_;
  std::vector<char> texts_;
};

}  // namespace sftbench
