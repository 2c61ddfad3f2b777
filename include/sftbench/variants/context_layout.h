// Context parallelism: how the positions of a row are divided among N ranks, and who needs whose
// keys. A row is cut into 2 N chunks of one length. Rank r has the chunks r and 2 N - 1 - r: under
// causality all ranks then have equally many pairs of query and key. A packed row is one row, whose
// sequences cross the borders of ranks. Source: The Llama 3 Herd of Models (2024), section 3.3.2.
// PyTorch calls it a head-tail load balancer.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/base/row_segment.h"

namespace sftbench {

class ContextLayout {
 public:
  static constexpr int64_t kHalves = 2;  // chunks of a rank, the earlier one first

  // The shortest length of a row that `ranks` can divide and that holds `length` positions.
  static int64_t padded_length(int64_t length, int64_t ranks);

  // offsets: of a packed row's sequences, as ops::PackedSequences has them; none: a row is one.
  // REQUIRES: row_length is a padded_length.
  ContextLayout(int64_t ranks, int64_t row_length, std::vector<int64_t> offsets = {});

  int64_t ranks() const { return ranks_; }
  int64_t row_length() const { return row_length_; }
  int64_t chunk_length() const { return row_length_ / (kHalves * ranks_); }
  int64_t own_length() const { return row_length_ / ranks_; }

  // Where chunk `half` of a rank begins in the row.
  int64_t chunk_begin(int64_t rank, int64_t half) const;
  // The rank's positions in the row, [own_length()].
  std::vector<int64_t> positions(int64_t rank) const;
  // What a chunk holds; `begin` counts from the chunk's first position.
  const std::vector<RowSegment>& segments(int64_t rank, int64_t half) const;

  // Of the queries of a rank, whose two chunks lie one behind the other, and the keys of a chunk.
  // window: as ops::causal_attention's.
  std::vector<AttentionBlock> blocks(int64_t query_rank, int64_t key_rank, int64_t key_half,
                                     int64_t window) const;
  bool needs(int64_t query_rank, int64_t key_rank, int64_t key_half, int64_t window) const;

  // How often a chunk of `rank` is handed on in the ring until the last rank that needs it has it,
  // 0 to ranks() - 1: an early one from a rank to the next, a late one to the rank before.
  int64_t hops(int64_t rank, int64_t half, int64_t window) const;

 private:
  const std::vector<RowSegment>& chunk(int64_t index) const {
    return chunks_[static_cast<size_t>(index)];
  }
  int64_t chunk_index(int64_t rank, int64_t half) const {
    return half == 0 ? rank : kHalves * ranks_ - 1 - rank;
  }

  int64_t ranks_, row_length_;
  std::vector<std::vector<RowSegment>> chunks_;
};

}  // namespace sftbench
