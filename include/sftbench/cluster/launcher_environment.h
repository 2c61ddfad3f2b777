// The place of this process among those that an outside launcher started, from the variables that
// the launcher left. Which they are, the first that applies:
//
//   torchrun    TORCHELASTIC_RUN_ID; RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK
//   Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   MPICH       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Intel MPI, too)
//   Slurm       SLURM_STEP_ID (of srun; not of a batch script), SLURM_PROCID, SLURM_LOCALID,
//               SLURM_NODEID, SLURM_STEP_NUM_TASKS, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST
//   by hand     RANK and WORLD_SIZE; LOCAL_RANK and LOCAL_WORLD_SIZE where a node has several
//
// The address of rank 0 is loopback when all ranks are on one node, else MASTER_ADDR, else what the
// launcher says. The port is SFTBENCH_PORT, else MASTER_PORT, else one between 20000 and 29999 that
// follows from the session. Where torchrun's agent itself listens at MASTER_PORT, it is the port
// after that. On several nodes SFTBENCH_SOCKET_IFNAME names the network interface that rank 0
// listens on. The secret is SFTBENCH_JOB_SECRET, or stands in the file that
// SFTBENCH_JOB_SECRET_FILE names, or is mpirun's. Nothing but the variables and that file decides
// any of this.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/ranks/rank_place.h"

namespace sftbench {

using Environment = std::map<std::string, std::string>;

// That of this process.
Environment process_environment();

// Who started this process: "torchrun", "mpi", "slurm", "kubernetes", or "none" of them.
std::string launcher_name(const Environment& environment);

// Nothing when no launcher did, or started it alone: then it starts its ranks itself. InputError,
// listing what was found, when variables are missing or contradict one another.
std::optional<RankPlace> launcher_place(const Environment& environment);

// What of a launcher is set, as "NAME=VALUE", by launcher: for `doctor`.
std::vector<std::pair<std::string, std::vector<std::string>>> launcher_variables(
    const Environment& environment);

// Where the job's secret stands: the name of a variable, "mpirun's key", or empty where there is
// none. InputError, which does not repeat it, when it cannot be used.
std::string job_secret_source(const Environment& environment);

// Open MPI's variables do not say where rank 0 is, only where mpirun is: with no MASTER_ADDR, rank
// 0 is looked for there. InputError when this is rank 0, and on another machine.
void check_mpirun_address(const RankPlace& place, const Environment& environment);

}  // namespace sftbench
