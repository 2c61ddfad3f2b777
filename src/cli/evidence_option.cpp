#include "cli/evidence_option.h"

#include <spdlog/spdlog.h>

#include "sftbench/base/quantity_text.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {

void add_evidence_option(CLI::App& command, std::string& folder) {
  command
      .add_option("--evidence", folder,
                  "results folder of this machine, or evidence that import made: sharpens what is "
                  "predicted of the same device")
      ->type_name("DIR");
}

OwnEvidence own_evidence_of(const std::string& folder, Oracle& oracle) {
  if (folder.empty()) return {};
  OwnEvidence own = read_own_evidence(folder, oracle, Catalog::shipped());
  for (const std::string& warning : own.warnings) spdlog::warn("{}", warning);
  spdlog::info("{}: {} and {} were compared", folder, counted(own.results, "result"),
               counted(own.imported, "imported row"));
  return own;
}

Uncertainty uncertainty_with(const std::string& folder, Oracle& oracle) {
  return Uncertainty(ResidualTable::shipped(), own_evidence_of(folder, oracle).residuals);
}

std::string basis_text(const Interval& interval) {
  if (interval.own) return interval.basis;
  return counted(interval.residuals, "measurement") + " " + interval.basis;
}

}  // namespace sftbench
