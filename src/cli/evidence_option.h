// --evidence DIR: the user's own measurements, which sharpen predictions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sftbench/advise/oracle.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {

void add_evidence_option(CLI::App& command, std::string& folder);

// Of the shipped residuals, and of the folder's unless it is empty. Logs what was compared and what
// could not be. InputError when the folder has nothing to compare.
Uncertainty uncertainty_with(const std::string& folder, Oracle& oracle);

// "32 measurements of this method on this GPU with this stack".
std::string basis_text(const Interval& interval);

}  // namespace sftbench
