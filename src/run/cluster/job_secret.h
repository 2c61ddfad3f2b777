// What only the processes of one job know, for its ranks to recognize each other by (the handshake
// of ranks). In this order:
//
//   SFTBENCH_JOB_SECRET       itself, at least 16 characters
//   SFTBENCH_JOB_SECRET_FILE  a file with it that its owner alone may read or write
//   Open MPI's mpirun         the random key that it gives to all ranks of a job alone
//
// Slurm, torchrun and Kubernetes give their tasks numbers and names that others can see, too.
#pragma once

#include <string>

#include "sftbench/cluster/launcher_environment.h"

namespace sftbench {

inline constexpr const char* kSecretVariable = "SFTBENCH_JOB_SECRET";
inline constexpr const char* kSecretFileVariable = "SFTBENCH_JOB_SECRET_FILE";

// Empty when there is none. InputError, which does not repeat it, when it cannot be used.
std::string job_secret(const Environment& environment);

}  // namespace sftbench
