// collectives_bench [--ranks N] [--device cpu|cuda] [--dtype float32] [--operations ...]
//                   [--min-bytes B] [--max-bytes B] [--rounds R]
//
// A table like that of nccl-tests. S is the whole array's size: a gather's output, a scatter's
// input. algbw = S / t; busbw = algbw x 2 (N-1)/N for an all-reduce, (N-1)/N for an all-gather and
// a reduce-scatter: what one rank's link carries, comparable between operations and numbers of
// ranks. t is the slowest rank's mean over back-to-back operations, the median over rounds.
//
// On GPUs, rank r takes GPU r modulo their number; several ranks on one GPU need NCCL >= 2.30 and
// NCCL_MULTI_RANK_GPU_ENABLE=1. A world of one goes through NCCL, too.
#if SFTBENCH_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#endif

#include <torch/cuda.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "local_ranks.h"
#include "parallel/gloo_communicator.h"
#include "parallel/nccl_communicators.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

struct Options {
  int ranks = 2;
  std::string device = "cpu";
  std::string dtype = "float32";
  std::vector<std::string> operations = {"all_gather", "reduce_scatter", "all_reduce"};
  int64_t min_bytes = 1 << 10;
  int64_t max_bytes = 64 << 20;
  int rounds = 5;
};

torch::Device device_of(const Options& options, int rank) {
  if (options.device == "cpu") return torch::kCPU;
  const int count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) throw RunError(ReasonCode::kUnsupported, "this machine has no GPU");
#if SFTBENCH_CUDA
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(rank % count));
#endif
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(rank % count));
}

void synchronize(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

// One operation on arrays of one size.
struct Case {
  std::string operation;
  torch::Tensor whole;  // [N, n]
  torch::Tensor part;   // [n]

  void run(Communicator& world) const {
    if (operation == "all_gather") {
      world.all_gather(whole, whole[world.rank()]).wait();
    } else if (operation == "reduce_scatter") {
      world.reduce_scatter(part, whole).wait();
    } else {
      world.all_reduce(whole, Reduction::kSum).wait();
    }
  }

  // After one run over arrays that held rank + 1 everywhere.
  bool is_right(const Communicator& world) const {
    const int64_t n = world.world_size();
    const double sum = double(n * (n + 1)) / 2;
    if (operation == "reduce_scatter") return (part == sum).all().item<bool>();
    if (operation == "all_reduce") return (whole == sum).all().item<bool>();
    const torch::Tensor ranks = torch::arange(1, n + 1, whole.options()).unsqueeze(1);
    return (whole == ranks).all().item<bool>();
  }

  double bus_factor(double n) const { return (operation == "all_reduce" ? 2 : 1) * (n - 1) / n; }
};

double seconds_per_operation(const Case& one, Communicator& world, RankGroup& group, int count,
                             const torch::Device& device) {
  synchronize(device);
  world.barrier();
  const double begin_s = steady_seconds();
  for (int i = 0; i < count; ++i) one.run(world);
  synchronize(device);
  double slowest_s = 0;
  for (const std::string& text :
       group.all_gather(std::to_string((steady_seconds() - begin_s) * 1e9))) {
    slowest_s = std::max(slowest_s, std::stod(text) / 1e9);
  }
  return slowest_s / count;
}

void measure(const Options& options, RankGroup& group) {
  torch::set_num_threads(1);
  const torch::Device device = device_of(options, group.rank());
  const auto make = device.is_cpu() ? gloo_communicators(group, "bench")
                                    : nccl_communicators(group, "bench", device);
  std::vector<int> members(static_cast<size_t>(group.world_size()));
  std::iota(members.begin(), members.end(), 0);
  const std::unique_ptr<Communicator> world = make("world", members);
  const torch::ScalarType dtype = options.dtype == "bfloat16" ? torch::kBFloat16 : torch::kFloat32;
  const auto n = static_cast<double>(world->world_size());
  if (group.rank() == 0) {
    std::printf("# %d ranks, %s over %s, %s, median of %d rounds\n", group.world_size(),
                options.device.c_str(), device.is_cpu() ? "Gloo" : "NCCL", options.dtype.c_str(),
                options.rounds);
    std::printf("| operation | bytes | time us | algbw GB/s | busbw GB/s | right |\n");
    std::printf("| --- | ---: | ---: | ---: | ---: | --- |\n");
  }
  for (const std::string& operation : options.operations) {
    for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 4) {
      const int64_t elements = bytes / static_cast<int64_t>(c10::elementSize(dtype));
      const int64_t part = std::max<int64_t>(1, elements / world->world_size());
      Case one{operation,
               torch::full({world->world_size(), part}, double(group.rank() + 1),
                           torch::dtype(dtype).device(device)),
               torch::zeros({part}, torch::dtype(dtype).device(device))};
      one.run(*world);  // connects, and touches all memory
      synchronize(device);
      bool right = one.is_right(*world);
      for (const std::string& text : group.all_gather(right ? "1" : "0")) right &= text == "1";

      const int64_t total = 128 << 20;  // bytes per round, within limits
      const auto count = static_cast<int>(std::clamp<int64_t>(total / bytes, 3, 200));
      std::vector<double> rounds;
      for (int i = 0; i < options.rounds; ++i) {
        rounds.push_back(seconds_per_operation(one, *world, group, count, device));
      }
      std::sort(rounds.begin(), rounds.end());
      const double time_s = rounds[rounds.size() / 2];
      const double size = static_cast<double>(one.whole.nbytes());
      if (group.rank() == 0) {
        std::printf("| %s | %.0f | %.1f | %.3f | %.3f | %s |\n", operation.c_str(), size,
                    time_s * 1e6, size / time_s / 1e9, size / time_s / 1e9 * one.bus_factor(n),
                    right ? "yes" : "NO");
        std::fflush(stdout);
      }
      if (!right) throw RunError(ReasonCode::kInternal, operation + " gave a wrong result");
    }
  }
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  sftbench::Options options;
  CLI::App app("Collective operations by size: time, algorithm and bus bandwidth.");
  app.add_option("--ranks", options.ranks, "processes")->check(CLI::PositiveNumber);
  app.add_option("--device", options.device, "cpu (Gloo) or cuda (NCCL)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--operations", options.operations)
      ->check(CLI::IsMember({"all_gather", "reduce_scatter", "all_reduce"}));
  app.add_option("--min-bytes", options.min_bytes)->check(CLI::PositiveNumber);
  app.add_option("--max-bytes", options.max_bytes)->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return sftbench::run_local_ranks(
      options.ranks, [&](sftbench::RankGroup& group) { sftbench::measure(options, group); });
}
