// A campaign: the cells of a space, in groups that need the same devices, and for each group the
// workers (`sftbench sweep --worker`) that an engine is to start. Cells are claimed in the folder
// of results, so it does not matter how many workers there are, nor that one of them is lost.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// What a worker needs for the cells of its group.
struct DeviceNeed {
  int64_t nodes = 1;
  int64_t gpus_per_node = 0;
  std::string gpu_model;  // as ado names it; empty: no GPU
  bool roce = false;      // between its nodes
  int64_t cores = 0;      // without a GPU, where --ranks and --threads say; 0: all of the node
  int64_t cpu_ranks = 1;  // on each of several nodes without GPUs

  int64_t ranks_on_node() const { return gpus_per_node > 0 ? gpus_per_node : cpu_ranks; }
  auto operator<=>(const DeviceNeed&) const = default;
};

// "2 nodes with 8 NVIDIA-H100-PCIe each, RoCE", "1 node with 1 L40S", "1 node without GPUs".
std::string to_string(const DeviceNeed& need);

// "1 cell", "12 cells".
std::string cell_count(size_t cells);

struct CampaignCell {
  std::string key;
  std::string entity_id;
  std::string experiment_id;
  std::optional<DeviceNeed> need;       // nothing: a static rule settles it anywhere
  std::map<std::string, Json> devices;  // of the properties that devices follow from, by name
  bool open = true;                     // the folder of results has no outcome that stands
};

struct WorkerGroup {
  std::string name;  // "gpu8-nvidia-h100-pcie": a label of DNS, different for each group
  DeviceNeed need;
  std::vector<CampaignCell> cells;  // the open ones
  // --set PROPERTY=VALUE: leaves of the space what needs these devices.
  std::vector<std::pair<std::string, std::string>> narrowing;
  int64_t workers = 1;
};

struct Grouping {
  std::vector<std::string> narrowed_by;  // properties that may be narrowed: dimensions of the space
  int64_t workers = 0;                   // of each group; 0: one for each cell, at most 8
};

// Cells of equal need together, the largest need first, so that what waits longest for its devices
// is asked for first. Cells that a rule settles are left to whichever worker comes across them, and
// are a group without devices when none would. Groups without an open cell are left out.
std::vector<WorkerGroup> group_cells(const std::vector<CampaignCell>& cells,
                                     const Grouping& grouping);

// One option of the command line that workers are given, too.
struct WorkerOption {
  std::string name;                  // "--config"; empty: the space's file
  std::optional<std::string> value;  // nothing: a flag
  bool is_file = false;              // the value is a file that workers read
  bool of_run = false;               // `sftbench run` takes it as well
};

struct CampaignPlan {
  std::string name;     // "sweep-cpu": a label of DNS, of the space's file
  std::string digest;   // of all cells, open or not: the same campaign has the same
  std::string program;  // what starts sftbench on the nodes
  std::vector<WorkerOption> options;
  std::map<std::string, std::string> environment;  // of the workers
  // Variables that workers get in a way of the engine's own, because others can read the plan.
  std::vector<std::string> secrets;
  std::string parameters_file;  // SFTTRAINER_PARAMETERS_FILE here; empty: not set
  std::string output = "results";
  bool simulated = false;
  std::vector<WorkerGroup> groups;
};

// Lower-case letters, digits and single dashes, at most so many characters.
std::string dns_label(std::string_view text, size_t most = 40);

// A file of the command line that workers read where `folder` is; empty: where it is here.
std::string place_of_file(const std::string& path, const std::string& folder);

// All files that is_file names, with the names that place_of_file gives them. InputError when one
// cannot be read or two of different folders have the same name.
std::map<std::string, std::string> files_of(const CampaignPlan& plan);

// The words of a worker: program, sweep, ... --worker. Files lie in `folder` (see place_of_file).
std::vector<std::string> worker_words(const CampaignPlan& plan, const WorkerGroup& group,
                                      const std::string& folder = {});

// The words of `sftbench run`, as one rank of the cell, and the part that differs between cells.
std::vector<std::string> rank_words(const CampaignPlan& plan, const std::string& folder = {});
std::vector<std::string> choice_of(const CampaignCell& cell);

// Asks whether the cell is still to be measured; its output has a line that begins "measure,".
std::vector<std::string> asking_words(const CampaignPlan& plan, const std::string& folder = {});

// The words as a shell reads them: the first is a command, whatever it contains.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace sftbench
