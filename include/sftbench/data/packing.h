// Sample packing: which entries share a row of the model's length, so that little of it is padding.
// Entries stay whole. Best-fit decreasing over 1000 entries at a time, in the order of the file, as
// trl packs (packing_strategy "bfd" under Dataset.map); Ding et al. 2024, "Fewer Truncations
// Improve Language Modeling". Packs, not entries, are then what an epoch shuffles and a batch is
// made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sftbench {

inline constexpr int64_t kPackedAtATime = 1000;

// Entry numbers by pack, in trl's order. `lengths` are those of all entries; those of 0 tokens are
// in no pack. REQUIRES: no length is above `capacity`.
std::vector<std::vector<int64_t>> pack_entries(const std::vector<int64_t>& lengths,
                                               int64_t capacity,
                                               int64_t at_a_time = kPackedAtATime);

// Entries of packs, one pack behind the other: 8 bytes for each entry, and as many for each pack.
class Packs {
 public:
  Packs() = default;
  explicit Packs(const std::vector<std::vector<int64_t>>& packs);
  // Packs of one entry each, in the order of `entries`.
  static Packs of_one(std::vector<int64_t> entries);

  bool empty() const { return entries_.empty(); }
  std::span<const int64_t> pack(int64_t number) const;

 private:
  std::vector<int64_t> entries_;
  std::vector<int64_t> ends_;  // of each pack, in entries; empty: each is a pack
};

// The entries of these packs, in order; without any packs, `numbers` themselves.
std::vector<int64_t> unpacked(const std::vector<int64_t>& numbers, const Packs& packs);

}  // namespace sftbench
