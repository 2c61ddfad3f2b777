// Where a process stands among those that train one job: what its launcher told it.
#pragma once

#include <string>

namespace sftbench {

inline constexpr const char* kInterfaceVariable = "SFTBENCH_SOCKET_IFNAME";

struct RankPlace {
  int rank = 0;  // over all nodes
  int world_size = 1;
  int local_rank = 0;  // on its node
  int local_size = 1;
  int node = 0;  // number of its node
  int nodes = 1;

  std::string address = "127.0.0.1";  // where rank 0 listens
  int port = 0;
  int listening_fd = -1;  // rank 0's socket, where who started it has opened it; -1: it opens it
  std::string session;    // ranks of another job are turned away
  // What only ranks of this job know, for them to recognize each other by. Never in a log or a
  // result. Empty: there is none, and the session is all that tells them from strangers.
  std::string secret = {};
  std::string interface = {};  // where rank 0 listens on several nodes; empty: on all interfaces
  std::string version;         // of the program, and those of another; empty: that of this library

  double rendezvous_timeout_s = 600;     // until every rank must have come
  double communication_timeout_s = 600;  // until a collective operation must be done
  std::string launcher = "none";         // "sftbench", "slurm", "mpi", "torchrun", "kubernetes"
};

}  // namespace sftbench
