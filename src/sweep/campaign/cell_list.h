// The part of a pod's script that measures cells of several nodes, one after the other: `run` has
// no worker, so each script brings its cells with it and asks before each whether it is still open.
#pragma once

#include <string>

#include "sftbench/campaign/campaign_plan.h"

namespace sftbench {

// A bash array `cells` with the words that choose each cell, and a function `still_open` that is
// called with such words. `folder`: where files of the command line are.
std::string cell_list(const CampaignPlan& plan, const WorkerGroup& group,
                      const std::string& folder = {});

}  // namespace sftbench
