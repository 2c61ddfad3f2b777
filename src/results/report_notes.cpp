#include "sftbench/results/report_notes.h"

#include <algorithm>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/measure/measured_properties.h"

namespace sftbench {
namespace {

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

void note_mixed_concurrency(const std::vector<const StoreScan*>& scans,
                            std::vector<std::string>& notes) {
  const std::map<int64_t, size_t> counts = concurrent_cell_counts(scans);
  if (counts.size() < 2) return;
  std::vector<std::string> parts;
  for (const auto& [cells, results] : counts) {
    parts.push_back(counted(results, "result") + " with " +
                    (cells == 0 ? "none" : std::to_string(cells)));
  }
  notes.push_back(
      "measured beside different numbers of concurrent cells (sweep --jobs): " + join(parts) +
      ". Their times and rates do not compare; --wide has the column concurrent_cells");
}

void note_busy_machines(const std::vector<const StoreScan*>& scans,
                        std::vector<std::string>& notes) {
  size_t busy = 0;
  for (const StoreScan* scan : scans) {
    for (const StoredResult& result : scan->results) {
      const std::optional<double> share = result.figures["run_queue_wait_share"].as_number();
      busy += share && !busy_machine_note(*share).empty() ? 1 : 0;
    }
  }
  if (busy == 0) return;
  notes.push_back(counted(busy, "result") +
                  " of a machine that was busy with something else: their speed is too low, as the "
                  "column machine says; measure them again when it is idle");
}

}  // namespace

std::map<int64_t, size_t> concurrent_cell_counts(const std::vector<const StoreScan*>& scans) {
  std::map<int64_t, size_t> counts;
  for (const StoreScan* scan : scans) {
    for (const StoredResult& result : scan->results) {
      const std::optional<double> cells = result.figures["concurrent_cells"].as_number();
      if (result.status != Status::kValid || !cells) continue;
      ++counts[static_cast<int64_t>(*cells)];
    }
  }
  return counts;
}

std::vector<std::string> report_notes(const std::vector<const StoreScan*>& scans) {
  std::vector<std::string> notes;
  note_missing_checksums(scans, notes);
  note_mixed_concurrency(scans, notes);
  note_busy_machines(scans, notes);
  return notes;
}

}  // namespace sftbench
