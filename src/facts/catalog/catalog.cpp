#include "sftbench/catalog/catalog.h"

#include <algorithm>
#include <filesystem>

#include "sftbench/base/file.h"

namespace sftbench {

Catalog Catalog::read(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path root(directory);
  Catalog catalog;
  catalog.models = ModelCatalog::read((root / "config" / "models.yaml").string());
  catalog.gpus = GpuCatalog::read((root / "config" / "gpus.yaml").string());
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(root / "experiments")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  const std::vector<std::string> models = catalog.models.names();
  const std::vector<std::string> gpus = catalog.gpus.names();
  for (const std::string& file : files) {
    catalog.experiments.push_back(read_experiment(file, models, gpus));
  }
  return catalog;
}

const Catalog& Catalog::shipped() {
  static const Catalog kCatalog = read(resource_directory().string());
  return kCatalog;
}

const Experiment* Catalog::experiment(std::string_view identifier) const {
  for (const Experiment& candidate : experiments) {
    const auto& aliases = candidate.aliases;
    if (candidate.identifier == identifier) return &candidate;
    if (std::find(aliases.begin(), aliases.end(), identifier) != aliases.end()) return &candidate;
  }
  return nullptr;
}

std::vector<std::string> Catalog::experiment_names() const {
  std::vector<std::string> names;
  for (const Experiment& candidate : experiments) names.push_back(candidate.identifier);
  return names;
}

}  // namespace sftbench
