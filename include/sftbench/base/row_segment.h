// Pieces of rows: what attention in parts and the division of positions among ranks speak of.
#pragma once

#include <cstdint>

namespace sftbench {

// Positions of one sequence that lie one behind the other.
struct RowSegment {
  int64_t begin = 0;  // where they lie in what holds them
  int64_t length = 0;
  int64_t position = 0;        // of the first one, in its sequence
  int64_t sequence_begin = 0;  // of the sequence, in its whole row

  friend bool operator==(const RowSegment&, const RowSegment&) = default;
};

// Queries and keys of one sequence: the same positions, or keys all before the queries.
struct AttentionBlock {
  RowSegment queries, keys;
};

}  // namespace sftbench
