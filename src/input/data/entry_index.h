// Where entries stand in JSON that arrives in pieces: on lines of their own, in one array, or one
// behind the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/data/jsonl.h"

namespace sftbench {

class EntryIndex {
 public:
  static constexpr uint64_t kMostBytesOfEntry = uint64_t{256} << 20;

  virtual ~EntryIndex() = default;

  // InputError with the line, where entries do not stand so.
  virtual void add(std::string_view piece) = 0;
  virtual void finish() = 0;
  virtual bool in_array() const = 0;
  // Where the entry begins whose end has not come. All before it have their sizes.
  virtual uint64_t unfinished() const = 0;
};

// `begin`: the first piece, which tells how entries stand. InputError for UTF-16 and UTF-32.
// REQUIRES: `places` and `path` outlive it.
std::unique_ptr<EntryIndex> make_entry_index(std::string_view begin,
                                             std::vector<EntryPlace>& places,
                                             const std::string& path);

}  // namespace sftbench
