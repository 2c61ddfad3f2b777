// What of the data a run does not use, and what it cuts: nothing is dropped in silence.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

struct DataAccount {
  int64_t entries = 0, tokens = 0;          // that were encoded, before they were cut
  int64_t cut_entries = 0, cut_tokens = 0;  // at model_max_length
  // Entries of which no position bears loss, and those of them in which what bears it was cut.
  int64_t without_loss = 0, without_loss_by_cut = 0;
  // Conversations whose masks may be wrong, and their tokens that bear loss.
  int64_t doubtful_entries = 0, doubtful_tokens = 0;
  std::map<std::string, int64_t> unused;   // entries by what of them is not used: "column weight"
  std::map<std::string, int64_t> remarks;  // and by what else is to be said of them

  void add(const DataAccount& other);
};

// One sentence each. `seeks_response`: a response template decides what bears loss.
std::vector<std::string> warnings_about(const DataAccount& account, bool seeks_response);

Json to_json(const DataAccount& account);

}  // namespace sftbench
