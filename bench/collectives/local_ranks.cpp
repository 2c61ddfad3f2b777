#include "local_ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace sftbench {
namespace {

[[noreturn]] void be_rank(const RankPlace& place, const std::function<void(RankGroup&)>& function) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    const std::unique_ptr<RankGroup> group = join_ranks(place);
    function(*group);
    group->leave();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", place.rank, error.what());
    status = 1;
  }
  std::fflush(stdout);
  ::_exit(status);
}

}  // namespace

int run_local_ranks(int ranks, const std::function<void(RankGroup&)>& function) {
  const LocalMeetingPoint meeting = open_local_meeting_point();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    RankPlace place;
    place.rank = place.local_rank = rank;
    place.world_size = place.local_size = ranks;
    place.port = meeting.port;
    place.listening_fd = rank == 0 ? meeting.socket.get() : -1;
    place.session = "collectives_bench." + std::to_string(::getpid());
    place.version = "bench";
    const pid_t child = ::fork();
    if (child == 0) be_rank(place, function);
    if (child > 0) children.push_back(child);
  }
  int worst = children.size() == static_cast<size_t>(ranks) ? 0 : 1;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) worst = 1;
  }
  return worst;
}

}  // namespace sftbench
