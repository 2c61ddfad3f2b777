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

// A unit of small models, in buffers enough that none stays in a cache.
constexpr int64_t kSmallNumel = 1 << 10, kLargeNumel = 4 << 20;
constexpr size_t kBuffers = 4;
constexpr int kSmallRounds = 50, kLargeRounds = 10;
// A rank computes for this much longer than an exchange takes alone: it is over before it is waited
// for.
constexpr double kBesideShare = 2;

using Exchange = PendingCollective (*)(Communicator& world, const torch::Tensor& whole);

PendingCollective gather(Communicator& world, const torch::Tensor& whole) {
  return world.all_gather(whole, whole[world.rank()]);
}
PendingCollective reduce(Communicator& world, const torch::Tensor& whole) {
  return world.reduce_scatter(whole[world.rank()], whole);
}

// What a rank does beside an exchange: products that take about a millisecond.
class Computation {
 public:
  void run(int times) {
    for (int i = 0; i < times; ++i) at::mm_out(out_, a_, b_);
  }
  double seconds() {  // of one
    constexpr int kTimes = 10;
    run(kTimes);
    const double begin_s = steady_seconds();
    run(kTimes);
    return (steady_seconds() - begin_s) / kTimes;
  }

 private:
  static constexpr int64_t kSize = 256;
  torch::Tensor a_ = torch::ones({kSize, kSize}), b_ = torch::ones({kSize, kSize}),
                out_ = torch::empty({kSize, kSize});
};

class ExchangeClock {
 public:
  ExchangeClock(Communicator& world, Computation& computation)
      : world_(world), computation_(computation) {
    world.barrier();
    computation_s_ = computation.seconds();  // of all ranks at once
  }

  // {idle: {latency_s, bytes_per_s}, busy: ...} of exchanges in the dtype: what they take alone,
  // and what they add to ranks that compute meanwhile.
  Json times(Exchange exchange, torch::Dtype dtype) {
    const Tensors small = buffers(kSmallNumel, dtype), large = buffers(kLargeNumel, dtype);
    const double small_s = round_seconds(exchange, small, kSmallRounds, 0);
    const double large_s = round_seconds(exchange, large, kLargeRounds, 0);
    const auto beside = [&](const Tensors& tensors, int rounds, double alone_s) {
      const int times = std::max(1, static_cast<int>(kBesideShare * alone_s / computation_s_));
      return round_seconds(exchange, tensors, rounds, times) -
             round_seconds(nullptr, tensors, rounds, times);
    };
    return {{"idle", link(small_s, large_s, large)},
            {"busy", link(std::max(small_s, beside(small, kSmallRounds, small_s)),
                          std::max(large_s, beside(large, kLargeRounds, large_s)), large)}};
  }

 private:
  using Tensors = std::vector<torch::Tensor>;

  static Tensors buffers(int64_t numel, torch::Dtype dtype) {
    Tensors all;
    for (size_t i = 0; i < kBuffers; ++i)
      all.push_back(torch::zeros({kRanks, numel / kRanks}, dtype));
    return all;
  }

  // Of a round that starts an exchange, computes, and waits for it: the median.
  double round_seconds(Exchange exchange, const Tensors& tensors, int rounds, int times) {
    std::vector<double> seconds;
    for (int i = 0; i <= rounds; ++i) {
      world_.barrier();
      const double begin_s = steady_seconds();
      PendingCollective pending;
      if (exchange) pending = exchange(world_, tensors[static_cast<size_t>(i) % kBuffers]);
      computation_.run(times);
      pending.wait();
      if (i > 0) seconds.push_back(steady_seconds() - begin_s);  // the first connects
    }
    const auto middle = seconds.begin() + std::ssize(seconds) / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  // Of the ring of two ranks: one hop, and half of the bytes.
  static Json link(double small_s, double large_s, const Tensors& large) {
    const auto sent = static_cast<double>(large[0].nbytes()) * (kRanks - 1) / kRanks;
    return {{"latency_s", small_s}, {"bytes_per_s", sent / std::max(large_s - small_s, 1e-9)}};
  }

  Communicator& world_;
  Computation& computation_;
  double computation_s_ = 0;
};

// Each rank has its part of the cores, as in a run.
Json measure(RankGroup& group) {
  torch::set_num_threads(std::max(1, at::get_num_threads() / kRanks));
  const std::unique_ptr<ProcessMesh> mesh =
      make_process_mesh(MeshKind::kSharded, group, torch::kCPU);
  Computation computation;
  ExchangeClock clock(mesh->world(), computation);
  return {{"ranks", kRanks},
          {"all_gather", clock.times(gather, torch::kBFloat16)},
          {"reduce_scatter",
           {{"bfloat16", clock.times(reduce, torch::kBFloat16)},
            {"float32", clock.times(reduce, torch::kFloat32)}}}};
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
