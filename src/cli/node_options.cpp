#include "cli/node_options.h"

namespace sftbench {

void add_node_options(CLI::App& command, NodeOptions& nodes) {
  command
      .add_option("--launcher", nodes.launcher,
                  "what starts the ranks of several nodes; auto: srun inside an allocation of "
                  "Slurm, ssh with --hosts")
      ->type_name("auto|srun|mpirun|ssh")
      ->capture_default_str();
  command
      .add_option("--hosts", nodes.hosts,
                  "the nodes, the first with rank 0; they see the same folders and program")
      ->type_name("A,B,...");
  command.add_option("--hostfile", nodes.hostfile, "the same, a host in each line")
      ->type_name("FILE");
}

}  // namespace sftbench
