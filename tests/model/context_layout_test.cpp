// Who has which positions of a row, and who needs whose keys.
#include "sftbench/variants/context_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;

TEST(ContextLayout, GivesEachRankAnEarlyAndALateChunk) {
  const ContextLayout layout(3, 12);
  EXPECT_EQ(layout.chunk_length(), 2);
  EXPECT_THAT(layout.positions(0), ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(layout.positions(1), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(layout.positions(2), ElementsAre(4, 5, 6, 7));
}

TEST(ContextLayout, PadsToWhatRanksDivide) {
  EXPECT_EQ(ContextLayout::padded_length(1, 4), 8);
  EXPECT_EQ(ContextLayout::padded_length(8, 4), 8);
  EXPECT_EQ(ContextLayout::padded_length(9, 4), 16);
  EXPECT_THROW(ContextLayout(4, 12), std::logic_error);
}

// Sequences of 5, 1 and 6 positions in chunks of 3.
TEST(ContextLayout, CutsSequencesAtTheBordersOfChunks) {
  const ContextLayout layout(2, 12, {0, 5, 6, 12});
  EXPECT_THAT(layout.segments(0, 0), ElementsAre(RowSegment{0, 3, 0, 0}));
  EXPECT_THAT(layout.segments(1, 0), ElementsAre(RowSegment{0, 2, 3, 0}, RowSegment{2, 1, 0, 5}));
  EXPECT_THAT(layout.segments(1, 1), ElementsAre(RowSegment{0, 3, 0, 6}));
  EXPECT_THAT(layout.segments(0, 1), ElementsAre(RowSegment{0, 3, 3, 6}));
  // Of its two sequences the second ends in the chunk.
  EXPECT_FALSE(layout.needs(0, 1, 0, /*window=*/0));
  EXPECT_TRUE(layout.needs(1, 0, 0, 0));
  EXPECT_TRUE(layout.needs(0, 1, 1, 0));
}

// Every query meets every key before it in its sequence and its window exactly once, wherever both
// are; and only those that blocks name are needed.
TEST(ContextLayout, BlocksAreAllPairsOfQueriesAndKeysOnce) {
  const std::vector<std::vector<int64_t>> rows = {{}, {0, 24}, {0, 1, 2, 9, 20, 24}, {0, 12, 24}};
  for (const int64_t ranks : {1, 2, 3, 4}) {
    for (const std::vector<int64_t>& offsets : rows) {
      for (const int64_t window : {0, 1, 2, 5, 24}) {
        const ContextLayout layout(ranks, 24, offsets);
        std::set<std::pair<int64_t, int64_t>> met;
        for (int64_t query_rank = 0; query_rank < ranks; ++query_rank) {
          const std::vector<int64_t> positions = layout.positions(query_rank);
          for (int64_t key_rank = 0; key_rank < ranks; ++key_rank) {
            for (int64_t half = 0; half < 2; ++half) {
              for (const auto& [queries, keys] :
                   layout.blocks(query_rank, key_rank, half, window)) {
                for (int64_t i = 0; i < queries.length; ++i) {
                  for (int64_t j = 0; j < keys.length; ++j) {
                    const int64_t query = positions[static_cast<size_t>(queries.begin + i)];
                    const int64_t key = layout.chunk_begin(key_rank, half) + keys.begin + j;
                    ASSERT_EQ(query, queries.sequence_begin + queries.position + i);
                    ASSERT_EQ(key, keys.sequence_begin + keys.position + j);
                    if (key > query || (window > 0 && query - key >= window)) continue;
                    ASSERT_TRUE(met.insert({query, key}).second);
                  }
                }
              }
            }
          }
        }
        const std::vector<int64_t> ends = offsets.empty() ? std::vector<int64_t>{0, 24} : offsets;
        size_t expected = 0;
        for (size_t s = 0; s + 1 < ends.size(); ++s) {
          for (int64_t length = 1; length <= ends[s + 1] - ends[s]; ++length)
            expected += static_cast<size_t>(window > 0 ? std::min(window, length) : length);
        }
        EXPECT_EQ(met.size(), expected) << ranks << " ranks, window " << window;
      }
    }
  }
}

TEST(ContextLayout, ChunksAreHandedOnUntilNobodyNeedsThem) {
  const ContextLayout layout(3, 12);
  // All ranks see early chunks. Late chunks are seen by the ranks
  // before, whose late chunks are later.
  for (const int64_t rank : {0, 1, 2}) {
    EXPECT_EQ(layout.hops(rank, 0, 0), 2);
    EXPECT_EQ(layout.hops(rank, 1, 0), rank);
  }
  // A window of two positions reaches one position into the chunk before. The third and the fourth
  // chunk of the row are those of one rank.
  EXPECT_EQ(layout.hops(0, 0, 2), 1);
  EXPECT_EQ(layout.hops(1, 0, 2), 1);
  EXPECT_EQ(layout.hops(2, 0, 2), 0);
  EXPECT_EQ(layout.hops(2, 1, 2), 1);
  EXPECT_EQ(layout.hops(1, 1, 2), 1);
  EXPECT_EQ(layout.hops(0, 1, 2), 0);
  EXPECT_EQ(layout.hops(1, 1, 1), 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
