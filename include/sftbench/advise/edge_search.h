// The edge of memory: the largest size of a configuration that runs. Bisection with few runs, since
// each is a training run in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sftbench {

struct EdgeSearch {
  int64_t least = 1, most = 1;   // sizes that are tried
  std::optional<int64_t> guess;  // the edge as it was predicted
  int repeats = 2;               // of the sizes beside the edge, as far as the runs allow
};

struct Trial {
  int64_t size = 0;
  bool fits = false;
};

struct Edge {
  int64_t size = 0;    // the largest that always ran; least - 1: none did
  bool flaky = false;  // a size beside it ran once and died once
  std::vector<Trial> trials;
};

// floor(log2(sizes)) + 2: a bisection, and one more.
int64_t most_trials(const EdgeSearch& search);

// Asks `fits` at most most_trials() times. From the guess outward in steps that double, then by
// bisection; never so that the rest could not be bisected with the trials that are left. Trials
// that are left repeat the two sizes beside the edge. A size that ran and died counts as one that
// dies. REQUIRES: least <= most.
Edge find_edge(const EdgeSearch& search, const std::function<bool(int64_t)>& fits);

}  // namespace sftbench
