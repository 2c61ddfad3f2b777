// DeepSpeed's configuration (ds_config.json) as properties of this program: the stages of ZeRO are
// sharding strategies, its offload is this program's, and what remains are training arguments.
// "auto" leaves a value to the arguments, as transformers does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/yaml.h"
#include "translate/data_configuration.h"

namespace sftbench {

// What is no property. The three sizes are those that DeepSpeed relates: train_batch_size =
// micro-batch x accumulation x ranks.
struct DeepspeedFile {
  std::optional<int64_t> train_batch_size;
  std::optional<int64_t> batch_of_device;
  std::vector<std::string> notes;  // what it says that means nothing here
};

// Errors, all of them in `diagnostics`: what has no equal here, by its name.
DeepspeedFile read_deepspeed(const YamlNode& root, Diagnostics& diagnostics, const TakeValue& take);

}  // namespace sftbench
