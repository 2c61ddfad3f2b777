// Everything that ships as data: experiments, models, GPUs. Read once per process.
#pragma once

#include <string>
#include <vector>

#include "sftbench/catalog/experiment.h"
#include "sftbench/catalog/gpus.h"
#include "sftbench/catalog/models.h"

namespace sftbench {

struct Catalog {
  ModelCatalog models;
  GpuCatalog gpus;
  std::vector<Experiment> experiments;

  // Reads experiments/*.yaml, config/models.yaml and config/gpus.yaml below `directory`.
  static Catalog read(const std::string& directory);

  // The files that ship with the program (base/file.h: resource_directory()).
  static const Catalog& shipped();

  // By identifier or alias; nullptr when unknown.
  const Experiment* experiment(std::string_view identifier) const;
  std::vector<std::string> experiment_names() const;
};

}  // namespace sftbench
