// Cells and plans for tests of campaigns.
#pragma once

#include <string>
#include <vector>

#include "sftbench/campaign/campaign_plan.h"

namespace sftbench {

inline CampaignCell gpu_cell(int64_t gpus, int64_t nodes = 1,
                             const std::string& model = "NVIDIA-H100-PCIe", bool roce = false) {
  static int count = 0;
  CampaignCell cell;
  cell.key = "key" + std::to_string(++count);
  cell.entity_id = "number_gpus." + std::to_string(gpus) + "-it's." + std::to_string(count);
  cell.experiment_id = "SFTTrainer.finetune_full_benchmark-v1.0.0";
  cell.need = DeviceNeed{nodes, gpus / nodes, model, roce, 0};
  cell.devices = {{"number_gpus", gpus}, {"number_nodes", nodes}, {"gpu_model", model}};
  return cell;
}

inline CampaignCell cpu_cell() {
  CampaignCell cell = gpu_cell(1);
  cell.need = DeviceNeed{};
  cell.devices["number_gpus"] = 0;
  return cell;
}

// A rule settles it: 3 GPUs do not divide by 2 nodes.
inline CampaignCell invalid_cell() {
  CampaignCell cell = gpu_cell(1);
  cell.need.reset();
  cell.devices = {{"number_gpus", 3}, {"number_nodes", 2}, {"gpu_model", "NVIDIA-H100-PCIe"}};
  return cell;
}

inline CampaignPlan plan_of(std::vector<WorkerGroup> groups) {
  CampaignPlan plan;
  plan.name = "my-space";
  plan.digest = "0123456789abcdef";
  plan.program = "/opt/sft bench/sftbench";
  plan.output = "results";
  plan.groups = std::move(groups);
  plan.options = {{"", "spaces/my space.yaml", true, true},
                  {"--set", "number_gpus=[1,2]", false, true},
                  {"--set", "max_steps=3", false, true},
                  {"--max-retries", "2", false, false}};
  return plan;
}

const Grouping kByGpus = {{"number_gpus", "number_nodes"}, 0};

}  // namespace sftbench
