// What the generators of synthetic datasets ask of their options, with one message for all that is
// wrong.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/data/word_stream.h"

namespace sftbench {

// Far above any use, and low enough that no product of counts overflows.
inline constexpr int64_t kLargestCount = 100'000'000;

// An entry is held in memory while it is written.
inline constexpr int64_t kLargestEntry_bytes = 1'000'000'000;

// As the documents' generators round.
inline int64_t words_of_tokens(int64_t tokens, double words_per_token) {
  return static_cast<int64_t>(static_cast<double>(tokens) * words_per_token + 0.5);
}

class OptionRanges {
 public:
  void require(double value, double least, double most, const char* key) {
    if (value >= least && value <= most) return;
    std::ostringstream found, expected;
    found << "found " << value;
    expected << "a number from " << least << " to " << static_cast<int64_t>(most);
    errors_.push_back({.file = {},
                       .line = 0,
                       .key = key,
                       .message = found.str(),
                       .expected = expected.str(),
                       .nearest = {}});
  }

  void throw_if_any() {
    if (!errors_.empty()) throw InputError(std::move(errors_));
  }

 private:
  std::vector<Diagnostic> errors_;
};

// REQUIRES: `units` >= 0. (A unit has a byte at least, so that nothing overflows.)
inline void require_entry_fits(const WordStream& stream, int64_t units) {
  if (units <= kLargestEntry_bytes && stream.bytes(units) <= kLargestEntry_bytes) return;
  throw InputError({{.file = {},
                     .line = 0,
                     .key = "--tokens-output",
                     .message = "one entry would have more than " +
                                std::to_string(kLargestEntry_bytes) + " bytes",
                     .expected = "fewer tokens, or fewer words per token",
                     .nearest = {}}});
}

}  // namespace sftbench
