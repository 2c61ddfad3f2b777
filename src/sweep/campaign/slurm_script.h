// The batch script of a group of workers, one task of a job array each.
#pragma once

#include <cstdint>
#include <string>

#include "campaign/slurm_options.h"

namespace sftbench {

// `count` of the group's workers, for sbatch. InputError where a folder's name cannot stand on a
// line #SBATCH.
std::string slurm_script(const CampaignPlan& plan, const WorkerGroup& group,
                         const SlurmOptions& options, int64_t count);

// The folder, relative or absolute as the plan's output, where tasks write their logs.
std::string slurm_log_folder(const CampaignPlan& plan);

}  // namespace sftbench
