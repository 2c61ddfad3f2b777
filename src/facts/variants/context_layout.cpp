#include "sftbench/variants/context_layout.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// Pieces of the sequences that lie in [begin, end) of the row.
std::vector<RowSegment> pieces(const std::vector<int64_t>& offsets, int64_t begin, int64_t end) {
  std::vector<RowSegment> found;
  auto next = std::upper_bound(offsets.begin(), offsets.end(), begin);
  for (int64_t at = begin; at < end; ++next) {
    const int64_t sequence_begin = *(next - 1), piece_end = std::min(*next, end);
    found.push_back({at - begin, piece_end - at, at - sequence_begin, sequence_begin});
    at = piece_end;
  }
  return found;
}

// Whether the first of the queries sees the last of the keys: of any two, they are the closest.
bool sees(const RowSegment& queries, const RowSegment& keys, int64_t window) {
  if (queries.sequence_begin != keys.sequence_begin) return false;
  if (queries.position == keys.position) return true;
  const int64_t distance = queries.position - (keys.position + keys.length - 1);
  return distance > 0 && (window == 0 || distance < window);
}

}  // namespace

int64_t ContextLayout::padded_length(int64_t length, int64_t ranks) {
  const int64_t multiple = kHalves * ranks;
  return (length + multiple - 1) / multiple * multiple;
}

ContextLayout::ContextLayout(int64_t ranks, int64_t row_length, std::vector<int64_t> offsets)
    : ranks_(ranks), row_length_(row_length) {
  check(ranks > 0 && row_length > 0 && row_length == padded_length(row_length, ranks),
        "a row that ranks divide has as many positions for each of their chunks");
  if (offsets.empty()) offsets = {0, row_length};
  check(offsets.back() == row_length, "sequences fill their row");
  for (int64_t i = 0; i < kHalves * ranks; ++i) {
    chunks_.push_back(pieces(offsets, i * chunk_length(), (i + 1) * chunk_length()));
  }
}

int64_t ContextLayout::chunk_begin(int64_t rank, int64_t half) const {
  return chunk_index(rank, half) * chunk_length();
}

std::vector<int64_t> ContextLayout::positions(int64_t rank) const {
  std::vector<int64_t> positions;
  for (int64_t half = 0; half < kHalves; ++half) {
    const int64_t begin = chunk_begin(rank, half);
    for (int64_t i = 0; i < chunk_length(); ++i) positions.push_back(begin + i);
  }
  return positions;
}

const std::vector<RowSegment>& ContextLayout::segments(int64_t rank, int64_t half) const {
  return chunk(chunk_index(rank, half));
}

std::vector<AttentionBlock> ContextLayout::blocks(int64_t query_rank, int64_t key_rank,
                                                  int64_t key_half, int64_t window) const {
  std::vector<AttentionBlock> blocks;
  const int64_t key_chunk = chunk_index(key_rank, key_half);
  for (int64_t half = 0; half < kHalves; ++half) {
    const int64_t query_chunk = chunk_index(query_rank, half);
    const auto add = [&](RowSegment queries, const RowSegment& keys) {
      queries.begin += half * chunk_length();
      blocks.push_back({queries, keys});
    };
    if (query_chunk == key_chunk) {
      for (const RowSegment& own : chunk(key_chunk)) add(own, own);
    } else if (query_chunk > key_chunk) {
      // Of what two chunks have in common only one sequence reaches from one to the other.
      const RowSegment &queries = chunk(query_chunk).front(), &keys = chunk(key_chunk).back();
      if (sees(queries, keys, window)) add(queries, keys);
    }
  }
  return blocks;
}

bool ContextLayout::needs(int64_t query_rank, int64_t key_rank, int64_t key_half,
                          int64_t window) const {
  return !blocks(query_rank, key_rank, key_half, window).empty();
}

int64_t ContextLayout::hops(int64_t rank, int64_t half, int64_t window) const {
  for (int64_t hop = ranks_ - 1; hop > 0; --hop) {
    const int64_t reached = half == 0 ? rank + hop : rank - hop + ranks_;
    if (needs(reached % ranks_, rank, half, window)) return hop;
  }
  return 0;
}

}  // namespace sftbench
