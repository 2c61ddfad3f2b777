#include "sftbench/campaign/campaign_plan.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr int64_t kMostWorkersUnasked = 8;

std::string as_assigned(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string group_name(const DeviceNeed& need) {
  std::string name = need.gpus_per_node == 0
                         ? "cpu"
                         : "gpu" + std::to_string(need.gpus_per_node) + "-" + need.gpu_model;
  if (need.nodes > 1) name = std::to_string(need.nodes) + "x-" + name;
  if (need.roce) name += "-roce";
  return dns_label(name);
}

// What all cells of the group agree in.
std::vector<std::pair<std::string, std::string>> narrowing(
    const std::vector<const CampaignCell*>& cells, const std::vector<std::string>& properties) {
  std::vector<std::pair<std::string, std::string>> narrowed;
  for (const std::string& property : properties) {
    const auto first = cells.front()->devices.find(property);
    if (first == cells.front()->devices.end()) continue;
    const bool same = std::all_of(cells.begin(), cells.end(), [&](const CampaignCell* cell) {
      return cell->devices.at(property) == first->second;
    });
    if (same) narrowed.emplace_back(property, as_assigned(first->second));
  }
  return narrowed;
}

bool comes_across(const WorkerGroup& group, const CampaignCell& cell) {
  return std::all_of(group.narrowing.begin(), group.narrowing.end(), [&](const auto& assignment) {
    return as_assigned(cell.devices.at(assignment.first)) == assignment.second;
  });
}

WorkerGroup make_group(const DeviceNeed& need, const std::vector<const CampaignCell*>& cells,
                       const Grouping& grouping) {
  WorkerGroup group;
  group.need = need;
  group.name = group_name(need);
  group.narrowing = narrowing(cells, grouping.narrowed_by);
  for (const CampaignCell* cell : cells) {
    if (cell->open) group.cells.push_back(*cell);
  }
  const auto open = static_cast<int64_t>(group.cells.size());
  group.workers = std::min(open, grouping.workers > 0 ? grouping.workers : kMostWorkersUnasked);
  return group;
}

void tell_apart(std::vector<WorkerGroup>& groups) {
  std::map<std::string, int> seen;
  for (WorkerGroup& group : groups) {
    const int times = ++seen[group.name];
    if (times > 1) group.name += "-" + std::to_string(times);
  }
}

std::vector<std::string> words_of(const CampaignPlan& plan, const std::string& folder,
                                  const std::function<bool(const WorkerOption&)>& wanted) {
  std::vector<std::string> words;
  for (const WorkerOption& option : plan.options) {
    if (!wanted(option)) continue;
    if (!option.name.empty()) words.push_back(option.name);
    if (!option.value) continue;
    words.push_back(option.is_file ? place_of_file(*option.value, folder) : *option.value);
  }
  return words;
}

// What stands in the place of a choice of one cell.
bool chooses_cells(const WorkerOption& option) {
  return option.name == "--experiment" || option.name == "--method" || option.name == "--entity" ||
         option.name == "--operation";
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

std::string to_string(const DeviceNeed& need) {
  std::string text = counted(need.nodes, "node");
  if (need.gpus_per_node == 0) {
    text += " without GPUs";
  } else {
    text += " with " + std::to_string(need.gpus_per_node) + " " + need.gpu_model +
            (need.nodes > 1 ? " each" : "");
  }
  return text + (need.roce ? ", RoCE" : "");
}

std::string cell_count(size_t cells) {
  return counted(static_cast<int64_t>(cells), "cell");
}

std::vector<WorkerGroup> group_cells(const std::vector<CampaignCell>& cells,
                                     const Grouping& grouping) {
  std::map<DeviceNeed, std::vector<const CampaignCell*>, std::greater<>> by_need;
  for (const CampaignCell& cell : cells) {
    if (cell.need) by_need[*cell.need].push_back(&cell);
  }
  std::vector<WorkerGroup> groups;
  for (const auto& [need, members] : by_need) {
    WorkerGroup group = make_group(need, members, grouping);
    if (!group.cells.empty()) groups.push_back(std::move(group));
  }
  WorkerGroup rules;
  rules.name = "rules";
  for (const CampaignCell& cell : cells) {
    if (cell.need || !cell.open) continue;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const WorkerGroup& group) {
      return group.need.nodes == 1 && comes_across(group, cell);
    });
    (found == groups.end() ? rules : *found).cells.push_back(cell);
  }
  if (!rules.cells.empty()) groups.push_back(std::move(rules));
  tell_apart(groups);
  return groups;
}

std::string dns_label(std::string_view text, size_t most) {
  std::string label;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 && byte < 0x80) {
      label += static_cast<char>(std::tolower(byte));
    } else if (!label.empty() && label.back() != '-') {
      label += '-';
    }
  }
  label.resize(std::min(label.size(), most));
  while (!label.empty() && label.back() == '-') label.pop_back();
  return label.empty() ? "space" : label;
}

std::string place_of_file(const std::string& path, const std::string& folder) {
  if (folder.empty()) return path;
  return (std::filesystem::path(folder) / std::filesystem::path(path).filename()).string();
}

std::map<std::string, std::string> files_of(const CampaignPlan& plan) {
  std::map<std::string, std::string> paths;
  std::map<std::string, std::string> contents;
  const auto add = [&](const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    const auto [known, is_new] = paths.emplace(name, path);
    if (!is_new && known->second != path) {
      throw InputError(
          {finding(path, {}, "has the same name as " + known->second, "files of different names")});
    }
    if (is_new) contents[name] = read_file(path);
  };
  for (const WorkerOption& option : plan.options) {
    if (option.is_file && option.value) add(*option.value);
  }
  if (!plan.parameters_file.empty()) add(plan.parameters_file);
  return contents;
}

std::vector<std::string> worker_words(const CampaignPlan& plan, const WorkerGroup& group,
                                      const std::string& folder) {
  const auto narrowed_anyway = [&group](const WorkerOption& option) {
    if (option.name != "--set" || !option.value) return false;
    const std::string property = option.value->substr(0, option.value->find('='));
    return std::any_of(group.narrowing.begin(), group.narrowing.end(),
                       [&](const auto& assignment) { return assignment.first == property; });
  };
  std::vector<std::string> words = {plan.program, "sweep"};
  append(words, words_of(plan, folder,
                         [&](const WorkerOption& option) { return !narrowed_anyway(option); }));
  for (const auto& [property, value] : group.narrowing) {
    append(words, {"--set", property + "=" + value});
  }
  append(words, {"--worker", "-o", plan.output});
  return words;
}

std::vector<std::string> rank_words(const CampaignPlan& plan, const std::string& folder) {
  std::vector<std::string> words = {plan.program, "run"};
  append(words, words_of(plan, folder, [](const WorkerOption& option) {
           return option.of_run && !chooses_cells(option);
         }));
  append(words, {"-o", plan.output, "--no-progress"});
  return words;
}

std::vector<std::string> choice_of(const CampaignCell& cell) {
  return {"--entity", cell.entity_id, "--experiment", cell.experiment_id};
}

std::vector<std::string> asking_words(const CampaignPlan& plan, const std::string& folder) {
  std::vector<std::string> words = {plan.program, "sweep"};
  append(words,
         words_of(plan, folder, [](const WorkerOption& option) { return !chooses_cells(option); }));
  append(words, {"-o", plan.output, "--dry-run", "--format", "csv"});
  return words;
}

std::string shell_line(const std::vector<std::string>& words) {
  // A first word like NAME=VALUE would be an assignment, and a pair of quotes before it ends that.
  std::string line = words.front().find('=') == std::string::npos ? "" : "''";
  for (const std::string& word : words) {
    line += (&word == &words.front() ? "" : " ") + shell_quoted(word);
  }
  return line;
}

}  // namespace sftbench
