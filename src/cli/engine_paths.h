// Paths that workers on other machines are to find: models, data and what is saved.
#pragma once

#include <set>
#include <string>

#include "cli/selection.h"
#include "sftbench/campaign/campaign_plan.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// Adds what lies in a file or a folder here, as the cell's inputs spell it.
void add_data_paths(const MeasurementRequest& request, std::set<std::string>& paths);

// Workers of Ray start in another folder: relative paths among the plan's options become absolute
// where they are on the file system of the results, which the nodes share. Pods of Kubernetes share
// /data alone. `data` as add_data_paths() gives it. InputError naming each path that workers would
// not find.
void place_paths(const std::string& engine, const LoadedSpace& loaded, const Selection& selection,
                 const std::set<std::string>& data, CampaignPlan& plan);

}  // namespace sftbench
