#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/probe.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/process_mesh.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

constexpr int kRanks = 2;
constexpr double kPatienceSeconds = 20;
constexpr int64_t kSmallBytes = 1 << 10, kLargeBytes = 16 << 20;
constexpr std::array kRoundsOf = {50, 5};

// Seconds of an all-gather of so many bytes in all, the median of rounds.
double gather_seconds(Communicator& world, int64_t bytes, int rounds) {
  const torch::Tensor whole = torch::zeros({kRanks, bytes / 4 / kRanks}, torch::kFloat32);
  std::vector<double> times;
  for (int i = 0; i <= rounds; ++i) {
    world.barrier();
    const double begin_s = steady_seconds();
    world.all_gather(whole, whole[world.rank()]).wait();
    if (i > 0) times.push_back(steady_seconds() - begin_s);  // the first connects
  }
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Of the ring of two ranks: one hop, and half of the bytes.
Json measure(RankGroup& group) {
  torch::set_num_threads(1);
  const std::unique_ptr<ProcessMesh> mesh =
      make_process_mesh(MeshKind::kSharded, group, torch::kCPU);
  Communicator& world = mesh->world();
  const double latency_s = gather_seconds(world, kSmallBytes, kRoundsOf[0]);
  const double large_s = gather_seconds(world, kLargeBytes, kRoundsOf[1]);
  const double sent = double(kLargeBytes) * (kRanks - 1) / kRanks;
  return {{"ranks", kRanks},
          {"latency_s", latency_s},
          {"bytes_per_s", sent / std::max(large_s - latency_s, 1e-9)}};
}

[[noreturn]] void be_rank(const RankPlace& place, int pipe_end) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Json reply;
  try {
    const std::unique_ptr<RankGroup> group = join_ranks(place);
    reply = measure(*group);
    group->leave();
  } catch (const std::exception& error) {
    reply = {{"problem", error.what()}};
  }
  const std::string text = json_text(reply);
  if (place.rank == 0) {
    [[maybe_unused]] const ssize_t written = ::write(pipe_end, text.data(), text.size());
  }
  ::_exit(0);
}

std::string read_to_end(int pipe_end) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got; (got = ::read(pipe_end, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(got));
  return text;
}

}  // namespace

Json probe_collectives() {
  const LocalMeetingPoint meeting = open_local_meeting_point();
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {{"problem", "no pipe to the ranks"}};
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    RankPlace place;
    place.rank = place.local_rank = rank;
    place.world_size = place.local_size = kRanks;
    place.port = meeting.port;
    place.listening_fd = rank == 0 ? meeting.socket.get() : -1;
    place.session = "probe." + std::to_string(::getpid());
    place.rendezvous_timeout_s = place.communication_timeout_s = kPatienceSeconds;
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      be_rank(place, ends[1]);
    }
    if (child > 0) children.push_back(child);
  }
  ::close(ends[1]);
  const std::string text = read_to_end(ends[0]);
  ::close(ends[0]);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  const Json reply = Json::parse(text, nullptr, false);
  return reply.is_object() ? reply : Json({{"problem", "the ranks did not answer"}});
}

}  // namespace sftbench
