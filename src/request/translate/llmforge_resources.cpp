#include "translate/llmforge_resources.h"

#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {
namespace {

constexpr const char* kAccelerator = "accelerator_type:";

bool is_accelerator(const std::string& key) {
  return key.starts_with(kAccelerator);
}

// False, and an error, for what is no mapping. One without members asks for nothing.
bool check_resources(const YamlNode& node, const std::string& path, Diagnostics& diagnostics) {
  if (node.is_mapping()) return true;
  diagnostics.error(node, path, "found " + describe(node), "accelerator_type:NAME: 0.001");
  return false;
}

void note_rest(const YamlNode& node, const std::string& path, const std::string& why,
               std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const auto& [key, value] : node.members) {
    if (!is_accelerator(key)) names.push_back(path + "." + key);
  }
  if (!names.empty()) notes.push_back("no effect here, " + why + ": " + join(names));
}

}  // namespace

void read_worker_resources(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take, std::vector<std::string>& notes) {
  if (!check_resources(node, path, diagnostics)) return;
  const GpuCatalog& gpus = Catalog::shipped().gpus;
  for (const auto& [key, value] : node.members) {
    if (!is_accelerator(key)) continue;
    const std::string name = key.substr(std::string_view(kAccelerator).size());
    if (const GpuFacts* gpu = gpus.find(name)) {
      YamlNode found = text_node(gpu->name);
      found.line = value.line;
      take("gpu_model", std::move(found), path + "." + key);
    } else {
      diagnostics.error(value, path + "." + key, "unknown GPU '" + name + "'",
                        "a GPU of `sftbench gpus`", nearest_spelling(name, gpus.names()));
    }
  }
  note_rest(node, path, "where a launcher or a worker chooses the host", notes);
}

void read_trainer_resources(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                            std::vector<std::string>& notes) {
  if (!check_resources(node, path, diagnostics)) return;
  for (const auto& [key, value] : node.members) {
    if (!is_accelerator(key)) continue;
    diagnostics.error(value, path + "." + key,
                      "has no equal here: all ranks train on one GPU model", "worker_resources");
  }
  note_rest(node, path, "where rank 0 gathers no whole model to save it", notes);
}

}  // namespace sftbench
