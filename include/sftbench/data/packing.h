// Sample packing: which entries share a row of the model's length, so that little of it is padding.
// Entries stay whole. Best-fit decreasing over 1000 entries at a time, in the order of the file, as
// trl packs (packing_strategy "bfd" under Dataset.map); Ding et al. 2024, "Fewer Truncations Improve
// Language Modeling". Packs, not entries, are then what an epoch shuffles and a batch is made of.
#pragma once

#include <cstdint>
#include <vector>

namespace sftbench {

inline constexpr int64_t kPackedAtATime = 1000;

// Entry numbers by pack, in trl's order. `lengths` are those of all entries; those of 0 tokens are
// in no pack. REQUIRES: no length is above `capacity`.
std::vector<std::vector<int64_t>> pack_entries(const std::vector<int64_t>& lengths,
                                               int64_t capacity,
                                               int64_t at_a_time = kPackedAtATime);

// The entries of these packs, in order; without any packs, `numbers` themselves.
std::vector<int64_t> unpacked(const std::vector<int64_t>& numbers,
                              const std::vector<std::vector<int64_t>>& packs);

}  // namespace sftbench
