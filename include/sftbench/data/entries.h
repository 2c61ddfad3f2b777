// The entries of one file or, one file behind the other, of several.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/dataset_part.h"
#include "sftbench/data/jsonl.h"

namespace sftbench {

class Entries {
 public:
  Entries(JsonlFile file);  // NOLINT: the entries of a file are entries
  explicit Entries(std::vector<JsonlFile> files);

  int64_t size() const { return range_.end - range_.begin; }
  // Leaves out all that are not in `slice` (base/dataset_part.h).
  void take_slice(const std::string& slice);
  // Where an entry stands, for errors.
  const std::string& path(int64_t entry) const;
  int line_number(int64_t entry) const;

  // As JsonlFile's.
  std::string line(int64_t entry) const;
  bool read_text(int64_t entry, std::string_view field, std::string& text, Diagnostic& error,
                 std::vector<std::string>* keys = nullptr) const;
  bool read_object(int64_t entry, Json& object, Diagnostic& error) const;
  // As JsonlFile's; `error` is about this entry.
  void explain_left_out(int64_t entry, Diagnostic& error) const;
  const std::map<std::string, std::string>& left_out(int64_t entry) const;

 private:
  struct Place {
    const JsonlFile& file;
    int64_t entry;
  };
  Place find(int64_t entry) const;

  std::vector<JsonlFile> files_;
  std::vector<int64_t> ends_;  // of each file, in entries of all
  EntryRange range_;           // which are taken
};

}  // namespace sftbench
