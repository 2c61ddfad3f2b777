// What config/residuals.json holds, of evidence: residuals of the shipped constants and of those of
// other GPUs, and the spread under which the former are likeliest. residuals.sh writes the file,
// and tests/advise holds it to the cost model.
#pragma once

#include <string>
#include <vector>

#include "sftbench/advise/scorecard.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {

// Residuals of all rows and, of the same rows, those with the shares of each other GPU that was
// compared; and the spread of these.
ResidualTable compare_all(const std::vector<Evidence>& evidence, const ActuatorSettings& settings,
                          const Catalog& catalog);

// The text of config/residuals.json, a row a line.
std::string text_of(const ResidualTable& table);

// The spread under which the rows that were not fitted are likeliest, and the widening with which
// nine of ten are covered once `known` rows of their model were measured.
Spread fit_spread(const std::vector<Residual>& rows, Figure figure, size_t known);

// Each row as if `known` others of its model, machine and stack had been measured, drawn at random;
// rows of which there are fewer are left out. `deviation` is that of the process, not widened.
struct Replayed {
  const Residual* row = nullptr;
  ResidualProcess::Guess guess;
};
std::vector<Replayed> replay(const std::vector<Residual>& rows, const Spread& spread, size_t known);

// The same rows as if `known` others of their model and machine had been measured before: errors
// and coverage of the sharpened predictions. Rows of which there are fewer have none.
void sharpen(std::vector<ScoredRow>& rows, const ResidualTable& table, size_t known);

}  // namespace sftbench
