// Evidence: measurements that others made, or this program made elsewhere, in the words of this
// program's experiments. Kept apart from results (DIR/evidence/*.jsonl, one object a line), so that
// no table mixes them with own measurements. What `import` writes and `predict --score` reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// How a measurement ended. kUnplaced failures say nothing about memory.
enum class EvidenceOutcome { kValid, kOutOfMemory, kFailed };

struct Evidence {
  std::string source;            // file and line: "a100_80gb.csv:12"
  std::string stack;             // of config/stacks.yaml: what was measured
  std::string experiment;        // identifier
  Json inputs = Json::object();  // the properties that are known, canonical
  EvidenceOutcome outcome = EvidenceOutcome::kFailed;
  std::optional<double> tokens_per_second;  // of all devices, padding included
  std::optional<double> allocated_bytes;    // at most, of one device
};

Json to_json(const Evidence& evidence);

// InputError naming `origin` when a member is missing or of the wrong type.
Evidence evidence_from_json(const Json& json, const std::string& origin);

// One object a line. InputError with file and line of what cannot be read.
std::vector<Evidence> read_evidence(const std::string& path);
std::string evidence_text(const std::vector<Evidence>& rows);

}  // namespace sftbench
