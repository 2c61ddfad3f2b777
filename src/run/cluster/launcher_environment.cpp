#include "sftbench/cluster/launcher_environment.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "cluster/job_secret.h"
#include "cluster/slurm_lists.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// How a launcher calls what it says. Empty: it does not say it.
struct Names {
  const char* launcher;
  const char* sign;  // set by this launcher, and by no other that comes after it
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
  const char* node;
  const char* nodes;
};

constexpr Names kTorchrun = {"torchrun",   "TORCHELASTIC_RUN_ID", "RANK",       "WORLD_SIZE",
                             "LOCAL_RANK", "LOCAL_WORLD_SIZE",    "GROUP_RANK", "GROUP_WORLD_SIZE"};
constexpr Names kOpenMpi = {"mpi",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "",
                            ""};
constexpr Names kMpich = {
    "mpi", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", ""};
constexpr Names kSlurm = {
    "slurm", "SLURM_STEP_ID", "SLURM_PROCID",        "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
    "",      "SLURM_NODEID",  "SLURM_STEP_NUM_NODES"};
constexpr Names kByHand = {"none", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                           "",     ""};
constexpr const Names* kLaunchers[] = {&kTorchrun, &kOpenMpi, &kMpich, &kSlurm, &kByHand};

constexpr int kFirstDerivedPort = 20000;
constexpr int kDerivedPorts = 10000;

bool has(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

std::string text(const Environment& environment, const std::string& name) {
  return has(environment, name) ? environment.at(name) : "";
}

// srun with a PMI plugin leaves MPICH's variables beside its own, and then both say the same;
// mpiexec that starts its proxies through srun leaves Slurm's variables of those.
bool is_sruns_pmi(const Environment& environment) {
  return has(environment, "SLURM_STEP_ID") &&
         text(environment, "PMI_RANK") == text(environment, "SLURM_PROCID") &&
         text(environment, "PMI_SIZE") == text(environment, "SLURM_STEP_NUM_TASKS");
}

const Names* find_launcher(const Environment& environment) {
  for (const Names* names : kLaunchers) {
    if (names == &kMpich && is_sruns_pmi(environment)) continue;
    if (has(environment, names->sign)) return names;
  }
  return has(environment, "WORLD_SIZE") ? &kByHand : nullptr;
}

// Reads numbers and remembers what it found, for the message when something is wrong with them.
class Variables {
 public:
  Variables(const Environment& environment, const Names& names)
      : environment_(environment),
        subject_(&names == &kByHand ? "RANK and WORLD_SIZE" : names.launcher) {}

  // A number that must be there.
  int number(const std::string& name) {
    const std::optional<int> found = number_if_set(name);
    if (!found) fail(name + " is missing");
    return *found;
  }

  std::optional<int> number_if_set(const std::string& name) {
    if (name.empty() || !has(environment_, name)) return {};
    const std::string value = text(name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0) {
      fail(name + " is no count");
    }
    return number;
  }

  std::string text(const std::string& name) {
    const std::string value = sftbench::text(environment_, name);
    if (!value.empty()) found_.push_back(name + "=" + value);
    return value;
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& expected = {}) const {
    throw InputError({{{},
                       0,
                       subject_,
                       problem + (found_.empty() ? "" : "; found " + join(found_, " ")),
                       expected,
                       {}}});
  }

 private:
  const Environment& environment_;
  std::string subject_;
  std::vector<std::string> found_;
};

void read_local(Variables& variables, const Names& names, RankPlace& place) {
  const std::optional<int> rank = variables.number_if_set(names.local_rank);
  std::optional<int> size = variables.number_if_set(names.local_size);
  if (&names == &kSlurm) {
    const std::string counts = variables.text("SLURM_STEP_TASKS_PER_NODE");
    const std::vector<int> sizes = expand_task_counts(counts);
    if (place.node >= static_cast<int>(sizes.size())) {
      variables.fail("SLURM_STEP_TASKS_PER_NODE does not tell about node " +
                     std::to_string(place.node));
    }
    size = sizes[static_cast<size_t>(place.node)];
  }
  if (&names == &kByHand && !rank && !size) return;  // one rank per node
  if (!rank) variables.fail(std::string(names.local_rank) + " is missing");
  if (!size) variables.fail(std::string(names.local_size) + " is missing");
  place.local_rank = *rank;
  place.local_size = *size;
  if (place.local_rank >= place.local_size) {
    variables.fail("local rank " + std::to_string(*rank) + " of " + std::to_string(*size));
  }
}

// From launchers that do not number the nodes: as many ranks on each, one node after the other.
void derive_node(Variables& variables, RankPlace& place) {
  place.node = place.rank / place.local_size;
  place.nodes = place.world_size / place.local_size;
  if (place.world_size % place.local_size != 0 ||
      place.rank % place.local_size != place.local_rank) {
    variables.fail("the ranks are not laid out node by node, as many on each",
                   "mpirun --map-by ppr:N:node with N ranks on each node");
  }
}

void read_place(Variables& variables, const Names& names, RankPlace& place) {
  place.rank = variables.number(names.rank);
  place.world_size = variables.number(names.world_size);
  if (place.rank >= place.world_size) {
    variables.fail("rank " + std::to_string(place.rank) + " of " +
                   std::to_string(place.world_size));
  }
  const bool numbered = *names.nodes != '\0';
  if (numbered) {
    place.node = variables.number(names.node);
    place.nodes = variables.number(names.nodes);
    if (place.node >= place.nodes) {
      variables.fail("node " + std::to_string(place.node) + " of " + std::to_string(place.nodes));
    }
  }
  read_local(variables, names, place);
  if (!numbered) derive_node(variables, place);
}

// "1563426816.0;tcp://10.0.0.1,192.168.1.2:37519": the first address at which mpirun listens.
std::string mpirun_address(const std::string& uri) {
  const size_t scheme = uri.find(";tcp://");
  if (scheme == std::string::npos) return {};
  const size_t begin = scheme + std::strlen(";tcp://");
  return uri.substr(begin, uri.find_first_of(",:", begin) - begin);
}

std::string read_address(Variables& variables, const Names& names, const RankPlace& place) {
  if (place.nodes == 1) return "127.0.0.1";  // where rank 0 listens, whatever the node is called
  if (const std::string given = variables.text("MASTER_ADDR"); !given.empty()) return given;
  if (&names == &kSlurm) {
    return expand_host_list(variables.text("SLURM_STEP_NODELIST")).front();
  }
  if (&names == &kOpenMpi) {
    const std::string address = mpirun_address(variables.text("OMPI_MCA_orte_hnp_uri"));
    if (!address.empty()) return address;
  }
  variables.fail("nothing says where rank 0 is", "MASTER_ADDR, its host name or address");
}

std::string read_session(const Environment& environment, const Names& names) {
  const auto all = [&environment](const std::vector<std::string>& variables) {
    std::vector<std::string> values;
    for (const std::string& name : variables) values.push_back(text(environment, name));
    return join(values, ".");
  };
  const std::string launcher = std::string(names.launcher) + ":";
  if (&names == &kTorchrun) {
    return launcher + all({"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"});
  }
  if (&names == &kSlurm) return launcher + all({"SLURM_JOB_ID", "SLURM_STEP_ID"});
  if (&names == &kOpenMpi) return launcher + all({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  return launcher + all({"MASTER_ADDR", "MASTER_PORT"});
}

int read_port(Variables& variables, const Names& names, const std::string& session) {
  std::optional<int> port = variables.number_if_set("SFTBENCH_PORT");
  if (!port) {
    port = variables.number_if_set("MASTER_PORT");
    // torchrun's agent on the first node listens there itself, unless it leaves that to rank 0.
    if (port && &names == &kTorchrun && variables.text("TORCHELASTIC_USE_AGENT_STORE") != "False") {
      port = *port < 65535 ? *port + 1 : *port - 1;
    }
  }
  if (!port) {
    const unsigned long name = std::stoul(digest(session).substr(0, 8), nullptr, 16);
    return kFirstDerivedPort + static_cast<int>(name % kDerivedPorts);
  }
  if (*port < 1 || *port > 65535) variables.fail("port " + std::to_string(*port), "1 to 65535");
  return *port;
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
  void operator()(ifaddrs* addresses) const { ::freeifaddrs(addresses); }
};

// Every machine has those, whatever its interfaces list.
bool is_loopback(const sockaddr* address) {
  if (address->sa_family != AF_INET) return false;
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
}

bool same_address(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const size_t equals = variable.find('=');
    if (equals != std::string::npos)
      environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return environment;
}

std::string launcher_name(const Environment& environment) {
  const Names* names = find_launcher(environment);
  if (names != nullptr && names != &kByHand) return names->launcher;
  return has(environment, "KUBERNETES_SERVICE_HOST") ? "kubernetes" : "none";
}

std::optional<RankPlace> launcher_place(const Environment& environment) {
  const Names* names = find_launcher(environment);
  if (names == nullptr) return {};
  Variables variables(environment, *names);
  RankPlace place;
  read_place(variables, *names, place);
  if (place.world_size == 1) return {};
  place.launcher = launcher_name(environment);
  place.version = version_and_commit();
  place.session = read_session(environment, *names);
  place.address = read_address(variables, *names, place);
  place.port = read_port(variables, *names, place.session);
  place.secret = job_secret(environment);
  place.interface = text(environment, kInterfaceVariable);
  return place;
}

std::vector<std::pair<std::string, std::vector<std::string>>> launcher_variables(
    const Environment& environment) {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const Names* names : kLaunchers) {
    if (!has(environment, names->sign)) continue;
    std::vector<std::string> found;
    for (const char* name : {names->rank, names->world_size, names->local_rank, names->local_size,
                             names->node, names->nodes}) {
      if (has(environment, name)) found.push_back(std::string(name) + "=" + environment.at(name));
    }
    all.emplace_back(names == &kByHand ? "by hand" : names->launcher, std::move(found));
    if (names == &kTorchrun) break;  // its RANK and WORLD_SIZE are not set by hand
  }
  return all;
}

void check_mpirun_address(const RankPlace& place, const Environment& environment) {
  if (place.rank != 0 || place.launcher != "mpi" || has(environment, "MASTER_ADDR")) return;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* resolved = nullptr;
  if (::getaddrinfo(place.address.c_str(), nullptr, &hints, &resolved) != 0) return;
  const std::unique_ptr<addrinfo, FreeAddresses> wanted(resolved);
  ifaddrs* listed = nullptr;
  if (::getifaddrs(&listed) != 0) return;
  const std::unique_ptr<ifaddrs, FreeAddresses> own(listed);
  for (const addrinfo* address = wanted.get(); address != nullptr; address = address->ai_next) {
    if (is_loopback(address->ai_addr)) return;
    for (const ifaddrs* interface = own.get(); interface != nullptr;
         interface = interface->ifa_next) {
      if (same_address(interface->ifa_addr, address->ai_addr)) return;
    }
  }
  throw InputError({{{},
                     0,
                     place.launcher,
                     "rank 0 is on " + host_name() + " and mpirun on another machine, at " +
                         place.address + ", where the other ranks would look for rank 0",
                     "mpirun -x MASTER_ADDR=" + host_name(),
                     {}}});
}

}  // namespace sftbench
