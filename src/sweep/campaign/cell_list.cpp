#include "campaign/cell_list.h"

#include "sftbench/base/text.h"

namespace sftbench {

std::string cell_list(const CampaignPlan& plan, const WorkerGroup& group,
                      const std::string& folder) {
  std::string text = "cells=(\n";
  for (const CampaignCell& cell : group.cells) {
    text += "  " + shell_quoted(shell_line(choice_of(cell))) + "\n";
  }
  text += ")\n";
  text += "still_open() {\n  " + shell_line(asking_words(plan, folder)) +
          " \"$@\" | grep -q '^measure,'\n}\n";
  return text;
}

}  // namespace sftbench
