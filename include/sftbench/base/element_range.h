// A part of a parameter: elements [begin, end), row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sftbench {

struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return begin >= end; }
  // Of a parameter of `count` elements.
  ElementRange within(int64_t count) const { return {begin, std::min(end, count)}; }
};

inline constexpr ElementRange kEveryElement{0, std::numeric_limits<int64_t>::max()};

}  // namespace sftbench
