#include <unistd.h>

#include <array>

#include "ranks/tcp_group.h"

namespace sftbench {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

LocalMeetingPoint open_local_meeting_point() {
  OwnedFd socket = listen_on_loopback();
  const int port = port_of(socket.get());
  return {std::move(socket), port};
}

std::unique_ptr<RankGroup> join_ranks(const RankPlace& place) {
  check(place.rank >= 0 && place.rank < place.world_size, "a rank is one of its world");
  const RankInfo self = {.rank = place.rank,
                         .local_rank = place.local_rank,
                         .node = place.node,
                         .host = host_name(),
                         .pid = ::getpid()};
  Meeting meeting = place.rank == 0 ? host_meeting(place, self) : come_to_meeting(place, self);
  return std::make_unique<TcpGroup>(place, std::move(meeting));
}

}  // namespace sftbench
