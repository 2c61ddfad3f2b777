// A campaign's status as people and programs read it.
#pragma once

#include <cstddef>
#include <string>

#include "cli/campaign_status.h"
#include "sftbench/base/json.h"
#include "sftbench/results/table.h"

namespace sftbench {

// "12 of 40 cells have ended (9 valid, 2 invalid, 1 failed) · 3 measured now · 42 an hour · 0:40
// left"
std::string status_line(const CampaignStatus& status);

Json status_json(const CampaignStatus& status);

// The line, the cells by state and reason, and who measures what. csv and jsonl: one table of both.
// `columns`: of the terminal, 0: none.
std::string status_text(const CampaignStatus& status, OutputFormat format, size_t columns);

}  // namespace sftbench
