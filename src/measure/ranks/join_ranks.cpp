#include <unistd.h>

#include "ranks/keyed_hash.h"
#include "ranks/tcp_group.h"
#include "ranks/tcp_socket.h"
#include "sftbench/base/environment.h"

namespace sftbench {
namespace {

RankInfo info_of(const RankPlace& place) {
  check(place.rank >= 0 && place.rank < place.world_size, "a rank is one of its world");
  return {.rank = place.rank,
          .local_rank = place.local_rank,
          .node = place.node,
          .host = host_name(),
          .pid = ::getpid()};
}

// A greeting has to stay short, and whoever reads it knows what is wrong after a few lines.
constexpr size_t kMostProblemBytes = 4096;
constexpr size_t kRandomTextBytes = 32;
static_assert(kMostProblemBytes * 2 < kMostHelloBytes);

}  // namespace

LocalMeetingPoint open_local_meeting_point() {
  OwnedFd socket = listen_on_loopback();
  const int port = port_of(socket.get());
  return {std::move(socket), port};
}

std::string random_text() {
  return to_hexadecimal(random_bytes(kRandomTextBytes));
}

std::unique_ptr<RankGroup> join_ranks(const RankPlace& place) {
  const RankInfo self = info_of(place);
  Meeting meeting = place.rank == 0 ? host_meeting(place, self) : come_to_meeting(place, self);
  return std::make_unique<TcpGroup>(place, std::move(meeting));
}

bool decline_to_join(RankPlace place, const std::string& problem, double patience_s) {
  place.rendezvous_timeout_s = patience_s;
  const std::string short_problem = problem.substr(0, kMostProblemBytes);
  try {
    if (place.rank == 0) return decline_as_host(place, info_of(place), short_problem).empty();
    decline_as_guest(place, info_of(place), short_problem);
    return true;
  } catch (const RunError&) {  // nobody is there, or no job's rank: nobody waits either
    return false;
  }
}

}  // namespace sftbench
