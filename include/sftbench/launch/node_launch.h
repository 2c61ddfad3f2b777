// One job on several nodes, started by one `sftbench run`: srun inside an allocation of Slurm,
// mpirun, or ssh to a list of hosts starts the same command everywhere, once for each rank. Those
// ranks are what an outside launcher would have started (cluster/launcher_environment.h). This
// process only starts, waits and ends.
//
// The job's secret travels in the environment of srun and mpirun, and over ssh on the standard
// input of the far side (`sftbench node`): no command line and no file has it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// `sftbench tether WORD...` becomes that program, which gets SIGTERM when its parent is gone.
inline constexpr const char* kTetherCommand = "tether";
// `sftbench node` starts the ranks of one host as its standard input says, and ends them with it.
inline constexpr const char* kNodeCommand = "node";
// What it says first of all on its standard error.
inline constexpr const char* kNodeIsUp = "sftbench node is up";

struct NodeOptions {
  std::string launcher = "auto";  // srun, mpirun, ssh; auto: srun in an allocation, ssh with hosts
  std::string hosts;              // "a,b"
  std::string hostfile;           // a host in each line, as Open MPI reads it

  bool given() const { return launcher != "auto" || !hosts.empty() || !hostfile.empty(); }
};

struct NodeLaunch {
  std::string launcher;            // srun, mpirun or ssh
  std::vector<std::string> hosts;  // as many as nodes; empty under srun
  int nodes = 0;
  int ranks_per_node = 0;
  bool on_gpus = false;
};

// Nothing when the job is one node's, or nothing says where the others are. InputError when what
// was asked for cannot be had: another spelling, too few hosts or nodes, no such launcher on the
// PATH.
std::optional<NodeLaunch> plan_node_launch(const TrainingJob& job, const NodeOptions& options,
                                           const Environment& environment);

// Nodes that plan_node_launch() could use; 1: this one alone. InputError.
int64_t reachable_nodes(const NodeOptions& options, const Environment& environment);
// Nodes among which it divides ranks on CPUs, whatever the job says; 1: this one alone. InputError.
int64_t nodes_of_cpu_ranks(const NodeOptions& options, const Environment& environment);

// Where what the ranks say goes.
struct NodeOutput {
  int standard_output = 1;  // rank 0's
  // Told each line of standard error, also those about hosts and launcher: "sftbench: ...".
  std::function<void(const std::string&)> on_line = [](const std::string&) {};
  double end_s = 10;  // between asking all to end and killing what is here of them
};

// Starts `words` (behind the program's name) as all ranks and returns the exit status of rank 0.
// Each read from `interrupt_fd` (a signalfd) asks all to end, the second kills them. What went
// wrong with hosts and launcher is said on standard error.
int run_on_nodes(const NodeLaunch& launch, const std::vector<std::string>& words,
                 const Environment& environment, int interrupt_fd, NodeOutput output = {});

// From a process to the children that measure for it, by variables.
void pass_on(const NodeOptions& options);
NodeOptions passed_node_options(const Environment& environment);

// The path of this program, which is to be the same on all hosts.
std::string own_program();

// Set for the ranks: one that finds no place among others must not start them again.
inline constexpr const char* kOnNodesVariable = "SFTBENCH_ON_NODES";

// What `sftbench node` is told, as JSON in one line.
struct NodeTask {
  std::vector<std::string> words;
  std::string directory;
  std::vector<std::pair<std::string, std::string>> environment;  // of all ranks
  int first_rank = 0;
  int ranks = 0;  // on this host
};
std::string to_text(const NodeTask& task);
NodeTask node_task_from_text(const std::string& line);  // InputError

}  // namespace sftbench
