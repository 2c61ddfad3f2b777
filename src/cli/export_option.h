// --export PROGRAM[=DIR]: the files that train what is predicted with another program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/definition_list.h"
#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

void add_export_option(CLI::App& command, std::vector<std::string>& exports);

struct ExportedJobs {
  Definitions lines;           // the command of each, and what differs
  Json json = Json::object();  // by program
};

// Writes them, each program's into a folder of its own. `own_model`: a folder or hub id that stands
// for the job's model; empty: where the catalog says that it is. InputError for a program that has
// no equal of something, and for files that are there and say something else.
ExportedJobs write_exports(const std::vector<std::string>& exports, const TrainingJob& job,
                           const std::string& own_model, const std::string& stack);

}  // namespace sftbench
