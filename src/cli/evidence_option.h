// --evidence DIR: the user's own measurements, which sharpen predictions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sftbench/advise/oracle.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {

void add_evidence_option(CLI::App& command, std::string& folder);

// Of the folder; nothing of an empty name. Logs what was compared and what could not be. InputError
// when the folder has nothing to compare.
OwnEvidence own_evidence_of(const std::string& folder, Oracle& oracle);

// Of the shipped residuals, and of the folder's. Errors as above.
Uncertainty uncertainty_with(const std::string& folder, Oracle& oracle);

// "32 measurements of this method on this GPU with this stack".
std::string basis_text(const Interval& interval);

}  // namespace sftbench
