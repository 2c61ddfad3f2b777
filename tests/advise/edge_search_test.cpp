// The edge of memory: right for every edge and every guess, with few trials, and near where it is
// flaky.
#include "sftbench/advise/edge_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(EdgeSearchTest, EveryEdgeIsFoundFromEveryGuessWithinTheTrials) {
  for (int64_t most = 1; most <= 40; ++most) {
    for (int64_t edge = 0; edge <= most; ++edge) {
      for (int64_t guess = 0; guess <= most; ++guess) {
        EdgeSearch search;
        search.most = most;
        if (guess > 0) search.guess = guess;
        const Edge found = find_edge(search, [edge](int64_t size) { return size <= edge; });
        ASSERT_EQ(found.size, edge) << most << " sizes, guess " << guess;
        ASSERT_FALSE(found.flaky);
        ASSERT_LE(static_cast<double>(found.trials.size()),
                  std::log2(static_cast<double>(most)) + 2);
      }
    }
  }
}

TEST(EdgeSearchTest, ARightGuessTakesTwoTrialsAndTheirRepeats) {
  EdgeSearch search;
  search.most = 1 << 20;
  search.guess = 4711;
  const Edge found = find_edge(search, [](int64_t size) { return size <= 4711; });
  EXPECT_EQ(found.size, 4711);
  EXPECT_EQ(found.trials.size(), 6u);
  search.repeats = 0;
  EXPECT_EQ(find_edge(search, [](int64_t size) { return size <= 4711; }).trials.size(), 2u);
}

// Memory of a run: 20 GiB and 1 GiB for each entry, give or take 0.4 %, of 84.5 GiB.
TEST(EdgeSearchTest, ANoisyEdgeIsFoundWithinOneInNinetyNineOfAHundredSeeds) {
  int flaky = 0;
  for (const std::optional<int64_t> guess :
       {std::optional<int64_t>(), std::optional<int64_t>(64), std::optional<int64_t>(40)}) {
    int near = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      std::mt19937_64 generator(seed);
      std::normal_distribution<double> noise(1, 0.004);
      EdgeSearch search;
      search.most = 1024;
      search.guess = guess;
      const Edge found = find_edge(search, [&](int64_t size) {
        return (20 + static_cast<double>(size)) * noise(generator) <= 84.5;
      });
      near += std::abs(found.size - 64) <= 1 ? 1 : 0;
      flaky += found.flaky ? 1 : 0;
      EXPECT_LE(found.trials.size(), 12u);
    }
    EXPECT_GE(near, 99);
  }
  EXPECT_GT(flaky, 0) << "the noise reaches the edge";
}

TEST(EdgeSearchTest, WhatRanOnceAndDiesAgainIsNotTheEdge) {
  EdgeSearch search;
  search.most = 16;
  search.guess = 9;
  int asked = 0;
  const Edge found =
      find_edge(search, [&asked](int64_t size) { return size < 9 || (size == 9 && asked++ == 0); });
  EXPECT_EQ(found.size, 8);
  EXPECT_TRUE(found.flaky);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
