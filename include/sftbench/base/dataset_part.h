// Which part of a dataset is meant: a config, a split, and a slice of its entries, by the names of
// the package datasets. Source: the package datasets, ReadInstruction in arrow_reader.py.
#pragma once

#include <cstdint>
#include <string>

namespace sftbench {

struct DatasetPart {
  std::string
      config;  // of the card; of a dataset whose card has none, a folder; empty: the default one
  std::string split = "train";  // as the card or the names of the files call it
  std::string slice = {};       // "[:1%]", "[100:200]"; empty: all entries
};

// Reads the end of a dataset's name: "", ":CONFIG", ":CONFIG:SPLIT" or "::SPLIT", the latter two
// with or without a slice. `problem` says what is wrong with `text`, and stays empty when nothing
// is.
DatasetPart dataset_part(const std::string& text, std::string& problem);
// Reads "SPLIT" or "SPLIT[FROM:TO]", as other programs write it. It checks nothing: dataset_part()
// names the problem when the whole name is read.
void set_split(DatasetPart& part, const std::string& text);
// The same text again, the shortest that says it.
std::string text_of(const DatasetPart& part);

// Whether a folder is named that lies inside the one that it is relative to.
bool is_inside(const std::string& folder);

// Entries [begin, end).
struct EntryRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// The entries of a slice. Shares are rounded to the nearest entry, a half to an even one. Numbers
// below 0 count from the end. REQUIRES: dataset_part() found no problem in it.
EntryRange entry_range(const std::string& slice, int64_t entries);
// How many of the first entries have to be read to find the slice: the largest number where that
// is all of them.
int64_t entries_that_decide(const std::string& slice);

}  // namespace sftbench
