// A recommendation as a page of its own: no script, nothing from the network.
#pragma once

#include <string>

#include "cli/recommendation_view.h"

namespace sftbench {

std::string page_of(const RecommendationView& view);

}  // namespace sftbench
