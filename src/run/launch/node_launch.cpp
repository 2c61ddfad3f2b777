#include "sftbench/launch/node_launch.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& subject, const std::string& problem,
                         const std::string& expected, const std::string& nearest = {}) {
  throw InputError({{{}, 0, subject, problem, expected, nearest}});
}

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// A host goes into the words of ssh and mpirun: it is no option of theirs, and no second word.
void require_host_name(const std::string& host, const std::string& subject) {
  const bool plain = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '@';
  });
  if (plain && !host.empty() && host.front() != '-') return;
  refuse(subject, "'" + host + "' is no host", "names or addresses, as n1,n2");
}

std::vector<std::string> hosts_in_file(const std::string& path) {
  std::vector<std::string> hosts;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string host; words >> host) hosts.push_back(host);
  }
  if (hosts.empty()) refuse("--hostfile", path + " names no host", "one host in each line");
  return hosts;
}

std::vector<std::string> chosen_hosts(const NodeOptions& options) {
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    refuse("--hostfile", "stands beside --hosts", "one of the two");
  }
  std::vector<std::string> hosts;
  if (!options.hostfile.empty()) hosts = hosts_in_file(options.hostfile);
  std::istringstream listed(options.hosts);
  for (std::string host; std::getline(listed, host, ',');) hosts.push_back(host);
  const std::string subject = options.hostfile.empty() ? "--hosts" : options.hostfile;
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    require_host_name(host, subject);
    if (!seen.insert(host).second) refuse(subject, "names " + host + " twice", "each host once");
  }
  return hosts;
}

std::string chosen_launcher(const NodeOptions& options, const Environment& environment,
                            bool has_hosts, bool several_nodes) {
  const std::vector<std::string> known = {"auto", "srun", "mpirun", "ssh"};
  const std::string& wish = options.launcher;
  if (std::find(known.begin(), known.end(), wish) == known.end()) {
    refuse("--launcher", "found '" + wish + "'", "one of " + join(known),
           nearest_spelling(wish, known));
  }
  if (wish != "auto") return wish;
  if (has_hosts) return "ssh";
  return several_nodes && !value_of(environment, "SLURM_JOB_ID").empty() ? "srun" : "";
}

void require_on_path(const std::string& program, const std::string& why) {
  std::istringstream folders(value_of(process_environment(), "PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((fs::path(folder) / program).c_str(), X_OK) == 0) return;
  }
  refuse("--launcher", why + ", and there is no " + program + " on the PATH",
         program + ", or --hosts for ssh");
}

int allocated_nodes(const Environment& environment) {
  const std::string nodes = value_of(environment, "SLURM_JOB_NUM_NODES");
  return nodes.empty() ? 1 : std::atoi(nodes.c_str());
}

void require_allocation(const Environment& environment, int64_t nodes) {
  const std::string job = value_of(environment, "SLURM_JOB_ID");
  if (job.empty()) {
    refuse("--launcher", "srun, and this process is in no allocation (SLURM_JOB_ID is not set)",
           "sbatch or salloc around it");
  }
  require_on_path("srun", "this is an allocation of Slurm (SLURM_JOB_ID=" + job + ")");
  const int there = allocated_nodes(environment);
  if (there < nodes) {
    refuse("number_nodes",
           "asks for " + counted(nodes, "node") + ", and the allocation of Slurm has " +
               std::to_string(there) + " (SLURM_JOB_NUM_NODES)",
           "sbatch --nodes=" + std::to_string(nodes));
  }
}

// That a launcher has; `several`: whether the job itself asks for several.
int64_t nodes_of(const NodeOptions& options, const Environment& environment, bool several) {
  const auto listed = static_cast<int64_t>(chosen_hosts(options).size());
  const std::string launcher = chosen_launcher(options, environment, listed > 0, several);
  return std::max<int64_t>(1, launcher == "srun" ? allocated_nodes(environment) : listed);
}

}  // namespace

std::optional<NodeLaunch> plan_node_launch(const TrainingJob& job, const NodeOptions& options,
                                           const Environment& environment) {
  NodeLaunch launch;
  launch.on_gpus = job.device.kind == "cuda";
  launch.hosts = chosen_hosts(options);
  int64_t nodes = launch.on_gpus ? job.device.nodes : 0;
  launch.launcher = chosen_launcher(options, environment, !launch.hosts.empty(), nodes > 1);
  if (launch.launcher.empty() || nodes == 1) return std::nullopt;
  if (launch.launcher == "srun") {
    // Ranks on CPUs know no nodes: they are wherever there is room.
    if (nodes == 0) nodes = allocated_nodes(environment);
    require_allocation(environment, nodes);
    launch.hosts.clear();
  } else {
    if (launch.launcher != "ssh" || value_of(environment, "SFTBENCH_SSH").empty())
      require_on_path(launch.launcher, launch.launcher + " is to start the ranks");
    if (launch.hosts.empty()) {
      refuse("--launcher", launch.launcher + ", and nothing says on which hosts",
             "--hosts a,b or --hostfile FILE");
    }
    const auto listed = static_cast<int64_t>(launch.hosts.size());
    if (nodes == 0) nodes = listed;
    if (listed < nodes) {
      refuse("number_nodes",
             "asks for " + counted(nodes, "node") + ", and " + counted(listed, "host") +
                 (listed == 1 ? " is named" : " are named"),
             "as many in --hosts or --hostfile");
    }
    launch.hosts.resize(static_cast<size_t>(nodes));
  }
  if (job.device.ranks % nodes != 0) {
    refuse(launch.on_gpus ? "number_gpus" : "--ranks",
           counted(job.device.ranks, "rank") + " cannot be divided among " + counted(nodes, "node"),
           "as many on each");
  }
  launch.nodes = static_cast<int>(nodes);
  launch.ranks_per_node = static_cast<int>(job.device.ranks / nodes);
  return launch;
}

int64_t reachable_nodes(const NodeOptions& options, const Environment& environment) {
  return nodes_of(options, environment, true);
}

int64_t nodes_of_cpu_ranks(const NodeOptions& options, const Environment& environment) {
  return nodes_of(options, environment, false);
}

std::string to_text(const NodeTask& task) {
  Json environment = Json::object();
  for (const auto& [name, value] : task.environment) environment[name] = value;
  return json_text(Json{{"words", task.words},
                        {"directory", task.directory},
                        {"environment", environment},
                        {"first_rank", task.first_rank},
                        {"ranks", task.ranks}});
}

NodeTask node_task_from_text(const std::string& line) {
  const Json json = parse_json(line, "standard input");
  try {
    NodeTask task;
    task.words = json.at("words").get<std::vector<std::string>>();
    task.directory = json.at("directory").get<std::string>();
    for (const auto& [name, value] : json.at("environment").items()) {
      task.environment.emplace_back(name, value.get<std::string>());
    }
    task.first_rank = json.at("first_rank").get<int>();
    task.ranks = json.at("ranks").get<int>();
    return task;
  } catch (const Json::exception& error) {
    throw InputError(std::string("standard input: ") + error.what());
  }
}

}  // namespace sftbench
