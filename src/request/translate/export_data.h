// The data of a job as another program's arguments name them.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/translate/export.h"

namespace sftbench {

struct ExportedData {
  Json arguments = Json::object();
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
  std::string refusal,
      expected;  // the form of the entries that the program has not, and what it has
};

ExportedData exported_data(const std::string& program, const TrainingJob& job);

}  // namespace sftbench
