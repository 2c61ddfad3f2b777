// Settings of the SFTTrainer actuator: where data, weights and caches are. Read from an ado
// actuatorconfiguration file (--config), from SFTTRAINER_PARAMETERS_FILE, which overrides
// everything, or from the `actuatorConfiguration` key of a space file. Defaults stand in
// config/actuator.yaml.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/yaml.h"

namespace sftbench {

struct ActuatorSettings {
  bool match_exact_dependencies = true;  // nothing to match here: accepted, without effect
  std::string output_dir;
  std::optional<std::string>
      data_directory;  // not set: datasets are generated in the user's data directory
  std::optional<std::string> aim_db;
  std::optional<std::string> aim_dashboard_url;
  std::optional<std::string> hf_home;  // not set: HF_HOME, else ~/.cache/huggingface
  bool fetch_weights = false;          // as --fetch (this program's own)
  std::optional<std::string>
      num_tokens_cache_directory;     // not set: no cache; relative: below the datasets
  std::vector<std::string> trackers;  // KIND=TARGET, as --track takes it (this program's own)
  std::map<std::string, std::map<std::string, std::string>>
      model_map;  // name -> Vanilla|GPTQ-Quantized -> place

  std::vector<std::string> model_names() const;
};

// The defaults of config/actuator.yaml, overlaid by each of `inline_parameters` (may be nullptr),
// the file `path` (may be empty) and the file that SFTTRAINER_PARAMETERS_FILE names, the last one
// winning. Things that have no effect are appended to `warnings`. InputError with all that is wrong
// with a file.
ActuatorSettings read_actuator_settings(const std::string& path, const YamlNode* inline_parameters,
                                        const std::string& inline_origin,
                                        std::vector<Diagnostic>& warnings);

}  // namespace sftbench
