// Tables of what a results directory holds.
//
// ado's layouts (section "show entities" of its documentation) are reproduced column by column:
//   target    one row per entity and experiment: identifier, generatorid, experiment_id, the
//             entity's properties in the order of its space, the measured properties
//   observed  one row per entity: "<experiment>-<property>" for each experiment, the entity's
//             properties, identifier, generatorid
// As in ado, defaults that the space does not mention are no columns, failed measurements have no
// rows, an invalid one has is_valid 0 and nothing else, and a property that no row has is no
// column. Entities stand in the order in which they were measured, and under each of them the
// experiments likewise: the order in which ado's store keeps them. Columns stand in the order in
// which rows first need them, and a column of integers and floats, or with gaps, is one of floats:
// so pandas writes them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/repeats.h"
#include "sftbench/results/report_table.h"
#include "sftbench/results/scan.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

struct ReportFilter {
  std::vector<std::string> experiments;  // identifiers or full ids; none: all
  std::vector<Status> statuses;          // none: all
  bool simulated = false;                // take simulated results, too
};

// Leaves in the scan what the filter takes; returns how many results were left out only because
// they are simulated. InputError, with the nearest spelling, for an experiment that the scan does
// not know.
size_t select_results(StoreScan& scan, const ReportFilter& filter);

struct AdoLayout {
  bool observed = false;
  // How repeats become one value. None: as typical_value(), under the property's own name; else the
  // column is "<property>-<method>", except for kList, which is ado's list in a cell.
  std::optional<Aggregate> method;
  // Behind ado's columns: outcome, number of repeats and their spread, every figure, every other
  // input, provenance. Failed measurements have rows, then. Not with `observed`.
  bool wide = false;
  DevicePrices prices = {};  // for the costs of a wide table
};
// The tables look at the texts of the scan, which outlives them.
ReportTable ado_table(const StoreScan& scan, const AdoLayout& layout);

// For people: the inputs in which the rows differ, the outcome, rates, memory; repeats as median,
// number and spread; what tokens cost where the devices have a price.
ReportTable short_table(const StoreScan& scan, const DevicePrices& prices = {});

// The measurements themselves, as their files have them: one JSON object per line, or one array.
// One whose devices have a price gets a member `cost` at its end, which is in no file. InputError
// when a file of the scan is no longer there.
void write_measurements(const std::filesystem::path& directory, const StoreScan& scan, bool lines,
                        const std::function<void(std::string_view)>& write,
                        const DevicePrices& prices = {});

}  // namespace sftbench
