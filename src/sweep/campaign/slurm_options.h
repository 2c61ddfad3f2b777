// --slurm [GPU_MODEL:]KEY=VALUE: lines of #SBATCH, for all groups or for those of one GPU model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sftbench/campaign/campaign_plan.h"

namespace sftbench {

class SlurmOptions {
 public:
  // InputError with all that is wrong. `gpu_models`: those of the campaign.
  SlurmOptions(const std::vector<std::string>& given, const std::vector<std::string>& gpu_models);

  // The group's own lines (option -> value; an empty value: the option alone), under those given.
  std::map<std::string, std::string> over(std::map<std::string, std::string> own,
                                          const WorkerGroup& group) const;

  bool knows_model(const std::string& gpu_model) const { return by_model_.count(gpu_model) != 0; }

 private:
  std::map<std::string, std::string> for_all_;
  std::map<std::string, std::map<std::string, std::string>> by_model_;
};

}  // namespace sftbench
