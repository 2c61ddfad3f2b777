#include "sftbench/results/report_notes.h"

#include <algorithm>
#include <set>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/results/repeats.h"

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

// "2 threads of Intel Xeon", or the GPUs, beside which the host matters less.
std::string machine_of(const StoredResult& result) {
  const Scalar& gpus = result.figures["gpus"];
  if (gpus.is_text() && !gpus.as_text().empty()) return std::string(gpus.as_text());
  const std::optional<double> threads = result.figures["threads"].as_number();
  const Scalar& cpu = result.figures["cpu"];
  return (threads ? counted(static_cast<int64_t>(*threads), "thread") + " of " : "") +
         (cpu.is_text() ? std::string(cpu.as_text()) : "an unknown processor");
}

// Repeats are taken together by what was asked, wherever it was measured.
void note_mixed_machines(const std::vector<const StoreScan*>& scans,
                         std::vector<std::string>& notes) {
  size_t rows = 0;
  std::set<std::string> of_one;
  for (const StoreScan* scan : scans) {
    for (const Repeats& group : group_repeats(scan->results)) {
      std::set<std::string> machines;
      for (const StoredResult* sample : group.samples) machines.insert(machine_of(*sample));
      if (group.first().status != Status::kValid || machines.size() < 2) continue;
      ++rows;
      if (of_one.empty()) of_one = std::move(machines);
    }
  }
  if (rows == 0) return;
  notes.push_back(counted(rows, "configuration") + " with repeats of unlike machines (" +
                  join(std::vector<std::string>(of_one.begin(), of_one.end()), "; ") +
                  "): a median of these is of none of them; a folder for each keeps them apart");
}

void note_resumed(const std::vector<const StoreScan*>& scans, std::vector<std::string>& notes) {
  size_t resumed = 0;
  for (const StoreScan* scan : scans) {
    resumed += static_cast<size_t>(
        std::count_if(scan->results.begin(), scan->results.end(), [](const StoredResult& result) {
          return result.figures["resumed_at_step"].as_number().has_value();
        }));
  }
  if (resumed == 0) return;
  notes.push_back(counted(resumed, "result") +
                  " of resumed training: times, steps and first losses are of what was left of it; "
                  "--wide has the column resumed_at_step");
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
  note_mixed_machines(scans, notes);
  note_resumed(scans, notes);
  note_busy_machines(scans, notes);
  return notes;
}

}  // namespace sftbench
