// What a job says that another program's arguments have to say, too, as properties and their
// values.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct ExportFact {
  std::string property;  // as argument_table.h names it, or one of its names that is no property
  Json value;
  Json usual = {};          // what programs do where nothing says it; null: it has to be said
  bool is_measured = true;  // it decides memory or time
};

// All but the model, the data, and how ranks share the work.
std::vector<ExportFact> export_facts(const TrainingJob& job);

}  // namespace sftbench
