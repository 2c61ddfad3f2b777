// Notes on all results of a report together: how far they can be trusted and compared. Each note is
// one sentence, for stderr and for the page.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sftbench/results/scan.h"

namespace sftbench {

// Of the results of all `scans`: several where they are compared.
std::vector<std::string> report_notes(const std::vector<const StoreScan*>& scans);

// How many valid results ran beside so many other cells of their sweep; those that do not say are
// left out.
std::map<int64_t, size_t> concurrent_cell_counts(const std::vector<const StoreScan*>& scans);

}  // namespace sftbench
