// Which cells a sweep decided without measuring them, and why: DIR/left_out/<space>.jsonl, a cell a
// line, beside the results that decided it. A later sweep of the same cells writes it anew. What was
// measured meanwhile no longer counts.
//
//   {"schema": "sftbench.left_out/1", "experiment": ..., "key": ..., "entity_id": ..., "cell": ...,
//    "reason": "BEATEN", "at_most": 0.61, "dies": 0.0, "message": ..., "decided_at": ...}
//
// reason BEATEN: it reaches at most `at_most` of what the best cell has. OOM_GPU: it runs out of
// memory with the probability `dies`; `at_most` is null.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sftbench {

struct LeftOutCell {
  std::string experiment;
  std::string key;
  std::string entity_id;
  std::string label;  // what tells it from the others of its space
  std::string reason;
  std::optional<double> at_most;
  double dies = 0;
  std::string message;
  std::string decided_at;
};

// Replaces what was written of the same space; an empty list removes it. `space`: a name of a file,
// the same for the same cells. InputError when it cannot be written.
void write_left_out(const std::string& results, const std::string& space,
                    const std::vector<LeftOutCell>& cells);

// Of all spaces: by experiment and key, each once. What has a result is left out of it. A file that
// cannot be read is named in `problems`.
std::vector<LeftOutCell> read_left_out(const std::string& results,
                                       std::vector<std::string>& problems);

}  // namespace sftbench
