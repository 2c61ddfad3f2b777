#include "sftbench/results/report_notes.h"

#include <algorithm>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

std::string counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void note_missing_checksums(const std::vector<const StoreScan*>& scans,
                            std::vector<std::string>& notes) {
  size_t without = 0;
  for (const StoreScan* scan : scans) {
    without += static_cast<size_t>(
        std::count_if(scan->results.begin(), scan->results.end(),
                      [](const StoredResult& result) { return !result.has_checksum; }));
  }
  if (without == 0) return;
  notes.push_back(counted(without, "result") +
                  " without a checksum, of an older sftbench: damage to them cannot be seen");
}

void note_mixed_neighbours(const std::vector<const StoreScan*>& scans,
                           std::vector<std::string>& notes) {
  const std::map<int64_t, size_t> counts = neighbour_counts(scans);
  if (counts.size() < 2) return;
  std::vector<std::string> parts;
  for (const auto& [neighbours, results] : counts) {
    parts.push_back(counted(results, "result") + " with " +
                    (neighbours == 0 ? "none" : std::to_string(neighbours)));
  }
  notes.push_back("measured beside different numbers of neighbours (sweep --jobs): " + join(parts) +
                  ". Their times and rates do not compare; --wide has the column neighbours");
}

}  // namespace

std::map<int64_t, size_t> neighbour_counts(const std::vector<const StoreScan*>& scans) {
  std::map<int64_t, size_t> counts;
  for (const StoreScan* scan : scans) {
    for (const StoredResult& result : scan->results) {
      const std::optional<double> neighbours = result.figures["neighbours"].as_number();
      if (result.status != Status::kValid || !neighbours) continue;
      ++counts[static_cast<int64_t>(*neighbours)];
    }
  }
  return counts;
}

std::vector<std::string> report_notes(const std::vector<const StoreScan*>& scans) {
  std::vector<std::string> notes;
  note_missing_checksums(scans, notes);
  note_mixed_neighbours(scans, notes);
  return notes;
}

}  // namespace sftbench
