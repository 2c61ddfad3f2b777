// What `recommend` tries: every way to train a question's entries, before anything is predicted.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sftbench/advise/recommend.h"

namespace sftbench {

inline constexpr int64_t kGpusOfANode = 8;
inline constexpr int64_t kFewTiles = 4;  // of an MLP: more of them save nothing more

// 1, 2, 4 and more, and the most that there may be.
std::vector<int64_t> gpu_counts(const Question& question);

// Of all GPUs, numbers of them, batches, strategies, with and without checkpointing, padded and
// packed. `switches` are set in each of them, which leaves out those that cannot have them.
std::vector<Option> options_to_try(const Question& question, const Json& switches);

// What needs less memory and trains alike, the mildest first: tried where nothing fits without.
std::vector<Json> memory_ladder(const Question& question);

// Options that were far from fitting. One that needs more than any of them, by a larger batch,
// without checkpointing or with fewer shards, cannot fit either.
class DeadOptions {
 public:
  void add(const Option& option);
  bool needs_more(const Option& option) const;

 private:
  // A step of one micro-batch may hold less than one of several, whose gradients stay whole until
  // the last: the last of these is whether it is one.
  using Key = std::tuple<std::string, int64_t, int64_t, std::string, std::string, bool, int64_t,
                         Padding, bool>;

  static Key key(const Option& option);
  bool has(const Option& option) const;

  std::map<Key, int64_t> least_batch_;
};

// Of an option, with rows of `length` tokens.
Json inputs_of(const Question& question, const Option& option, int64_t length);

}  // namespace sftbench
