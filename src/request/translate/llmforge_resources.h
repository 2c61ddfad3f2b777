// LLMForge's worker_resources and trainer_resources: what a cluster is asked for. The accelerator
// is gpu_model.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/yaml.h"
#include "translate/data_configuration.h"

namespace sftbench {

// `node` is the value of the key `path`. `notes` gets what is without effect here. Errors: an
// accelerator that no GPU of config/gpus.yaml is called, or that rank 0 alone has.
void read_worker_resources(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take, std::vector<std::string>& notes);
void read_trainer_resources(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                            std::vector<std::string>& notes);

}  // namespace sftbench
