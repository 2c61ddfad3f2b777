// What one optimizer step over the parameters of SmolLM2-135M (bfloat16) costs, as a share of the
// memory bandwidth that a copy reaches. Copy and steps take turns, so that both see the same
// machine; a copy reads and writes as many bytes as the step of adamw_torch_fused moves.
//   optim_bench [ROUNDS [OPTIM...]]
// Bytes per parameter: parameter read and written, gradient read, states read and written.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/optim/optimizer.h"

namespace {

using sftbench::TrainableTensor;
using torch::Tensor;

std::vector<TrainableTensor> smollm2_135m() {
  std::vector<TrainableTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.push_back({name + ".weight", torch::randn(shape).mul_(0.02).to(torch::kBFloat16)});
    tensors.back().tensor.mutable_grad() = torch::randn(shape).mul_(0.001).to(torch::kBFloat16);
  };
  add("model.embed_tokens", {49152, 576});
  for (int layer = 0; layer < 30; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "self_attn.q_proj", {576, 576});
    add(prefix + "self_attn.k_proj", {192, 576});
    add(prefix + "self_attn.v_proj", {192, 576});
    add(prefix + "self_attn.o_proj", {576, 576});
    add(prefix + "mlp.gate_proj", {1536, 576});
    add(prefix + "mlp.up_proj", {1536, 576});
    add(prefix + "mlp.down_proj", {576, 1536});
    add(prefix + "input_layernorm", {576});
    add(prefix + "post_attention_layernorm", {576});
  }
  add("model.norm", {576});
  return tensors;
}

// Of the wall, and of the processor time of all threads (which others on the machine take none of;
// OMP_WAIT_POLICY=passive keeps waiting threads from counting).
struct Seconds {
  double wall, processor;
};

Seconds time_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor_begin = std::clock();
  run();
  const double processor = static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          processor};
}

struct Contestant {
  std::string name;
  double bytes;  // moved by one run
  std::function<void()> run;
  std::vector<double> wall_s, processor_s;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (names.empty()) {
    names = {"adamw_torch_fused", "paged_adamw_32bit", "adamw_8bit",   "adamw_torch_4bit",
             "lion_8bit",         "rmsprop_bnb_8bit",  "ademamix_8bit"};
  }
  std::vector<TrainableTensor> tensors = smollm2_135m();
  double numel = 0;
  for (const TrainableTensor& tensor : tensors) {
    numel += static_cast<double>(tensor.tensor.numel());
  }

  std::vector<Contestant> contestants;
  const auto copied_bytes = static_cast<int64_t>(numel * 14);
  const Tensor from = torch::ones({copied_bytes / 2}, torch::kUInt8);
  const Tensor to = torch::zeros_like(from);
  contestants.push_back(
      {"copy", static_cast<double>(copied_bytes), [&] { to.copy_(from); }, {}, {}});
  for (const std::string& name : names) {
    std::shared_ptr<sftbench::Optimizer> optimizer = sftbench::make_optimizer(
        sftbench::named<sftbench::OptimizerKind>(name), sftbench::group_by_decay(tensors, 0.0), {});
    const double bytes = 6 * numel + 2 * static_cast<double>(optimizer->state_bytes());
    contestants.push_back({name, bytes, [optimizer] { optimizer->step(1e-6, 1.0); }, {}, {}});
  }
  for (int round = -1; round < rounds; ++round) {  // one to warm up
    for (Contestant& contestant : contestants) {
      const Seconds seconds = time_of(contestant.run);
      if (round < 0) continue;
      contestant.wall_s.push_back(seconds.wall);
      contestant.processor_s.push_back(seconds.processor);
    }
  }

  std::printf("%.1fM parameters, %d rounds, %d threads; medians\n", numel / 1e6, rounds,
              at::get_num_threads());
  std::printf("%-20s %8s %9s %9s %8s %8s %13s %13s\n", "", "B/param", "wall ms", "CPU ms", "GB/s",
              "of copy", "of copy, best", "of copy, CPU");
  const auto rate = [](const Contestant& c, double seconds) { return c.bytes / seconds / 1e9; };
  const Contestant& copy = contestants.front();
  for (const Contestant& c : contestants) {
    const auto best = [](const Contestant& x) {
      return *std::min_element(x.wall_s.begin(), x.wall_s.end());
    };
    std::printf("%-20s %8.3f %9.1f %9.1f %8.2f %7.0f%% %12.0f%% %12.0f%%\n", c.name.c_str(),
                c.bytes / numel, 1e3 * median(c.wall_s), 1e3 * median(c.processor_s),
                rate(c, median(c.wall_s)),
                100 * rate(c, median(c.wall_s)) / rate(copy, median(copy.wall_s)),
                100 * rate(c, best(c)) / rate(copy, best(copy)),
                100 * rate(c, median(c.processor_s)) / rate(copy, median(copy.processor_s)));
  }
}
