// Each operator at the shapes of SmolLM2-135M (batch 1 x 512), forward and backward, beside the
// sequence of stock operators that it replaces: names end in /ours or /stock. Run with
//   ops_bench --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//             --benchmark_report_aggregates_only=true
// so that both see the same machine; compare medians.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cmath>
#include <functional>

#include "sftbench/base/torch.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/plain.h"

namespace {

using torch::Tensor;

constexpr int64_t kTokens = 512, kHidden = 576, kHeads = 9, kKvHeads = 3, kHeadDim = 64,
                  kIntermediate = 1536, kVocabulary = 49152;

Tensor random_leaf(at::IntArrayRef sizes, torch::Dtype dtype) {
  return torch::randn(sizes).to(dtype).requires_grad_();
}

using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

// Forward and backward; gradients of the inputs are dropped after each iteration, as a training
// step drops them.
void run(benchmark::State& state, const std::vector<Tensor>& inputs, const Forward& forward,
         double flops) {
  const Tensor upstream = torch::ones_like(forward(inputs).detach());
  for (auto _ : state) {
    forward(inputs).backward(upstream);
    for (const Tensor& input : inputs) input.mutable_grad().reset();
  }
  if (flops > 0) {
    state.counters["FLOP/s"] =
        benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  }
}

void add(const std::string& name, torch::Dtype dtype,
         const std::function<std::vector<Tensor>(torch::Dtype)>& inputs, const Forward& ours,
         const Forward& stock, double flops = 0) {
  const std::string prefix = name + (dtype == torch::kBFloat16 ? "/bf16" : "/fp32");
  for (const auto& [suffix, forward] : {std::pair("/ours", ours), std::pair("/stock", stock)}) {
    benchmark::RegisterBenchmark(
        (prefix + suffix).c_str(),
        [=, op = forward](benchmark::State& state) { run(state, inputs(dtype), op, flops); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

// --- the operator sequences of Hugging Face ------------------------------------------------------

Tensor stock_rms_norm(const Tensor& x, const Tensor& weight) {
  const Tensor wide = x.to(torch::kFloat32);
  return weight * (wide * torch::rsqrt(wide.pow(2).mean(-1, true) + 1e-5)).to(x.scalar_type());
}

Tensor stock_rope(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  const Tensor c = torch::cat({cos, cos}, -1).unsqueeze(-2),
               s = torch::cat({sin, sin}, -1).unsqueeze(-2);
  return x * c + torch::cat({-halves[1], halves[0]}, -1) * s;
}

Tensor stock_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t length = q.size(1), groups = q.size(2) / k.size(2);
  const Tensor keys = k.transpose(1, 2).repeat_interleave(groups, 1);
  const Tensor values = v.transpose(1, 2).repeat_interleave(groups, 1);
  const Tensor mask = torch::full({length, length}, -INFINITY).triu(1).to(q.scalar_type());
  const Tensor scores = torch::matmul(q.transpose(1, 2), keys.transpose(2, 3)) * 0.125 + mask;
  const Tensor p = torch::softmax(scores, -1, torch::kFloat32).to(q.scalar_type());
  return torch::matmul(p, values).transpose(1, 2).contiguous();
}

Tensor stock_loss(const Tensor& hidden, const Tensor& weight, const Tensor& labels) {
  return at::cross_entropy_loss(torch::matmul(hidden, weight.t()).to(torch::kFloat32), labels, {},
                                at::Reduction::Sum) /
         static_cast<double>(labels.numel());
}

// As transformers' loop over experts computes it.
Tensor stock_grouped_linear(const Tensor& x, const Tensor& weights,
                            const std::vector<int64_t>& offsets) {
  std::vector<Tensor> parts;
  for (int64_t e = 0; e < weights.size(0); ++e) {
    parts.push_back(torch::matmul(x.slice(0, offsets[e], offsets[e + 1]), weights[e].t()));
  }
  return torch::cat(parts, 0);
}

// The experts of a granite-3.0-1b-a400m layer, whose rows differ as those of a router do, beside
// the dense product of the same FLOPs.
void register_experts(torch::Dtype dtype) {
  namespace ops = sftbench::ops;
  constexpr int64_t kExperts = 32, kIn = 1024, kOut = 1024;
  for (const int64_t rows : {1024, 4096, 16384}) {
    std::vector<int64_t> offsets = {0};
    for (int64_t e = 0; e < kExperts; ++e) {  // from a half to one and a half of the mean
      offsets.push_back(offsets.back() + rows / kExperts / 2 +
                        rows / kExperts * (e * 7 % kExperts) / kExperts);
    }
    const int64_t last = offsets[kExperts - 1];
    offsets.back() = std::max(rows, last);
    const double flops = 6.0 * static_cast<double>(offsets.back()) * kIn * kOut;
    add(
        "grouped_linear_" + std::to_string(rows), dtype,
        [=, total = offsets.back()](auto type) {
          return std::vector{random_leaf({total, kIn}, type),
                             random_leaf({kExperts, kOut, kIn}, type)};
        },
        [=](const auto& in) { return ops::grouped_linear(in[0], in[1], offsets); },
        [=](const auto& in) { return stock_grouped_linear(in[0], in[1], offsets); }, flops);
    add(
        "grouped_linear_" + std::to_string(rows) + "_as_dense", dtype,
        [=, total = offsets.back()](auto type) {
          return std::vector{random_leaf({total, kIn}, type), random_leaf({kOut, kIn}, type)};
        },
        [](const auto& in) { return ops::linear(in[0], in[1]); },
        [](const auto& in) { return torch::matmul(in[0], in[1].t()); }, flops);
  }
}

// The router's work around the experts: top-8 of 32, as granite-3.0-1b-a400m has it.
void register_routing(torch::Dtype dtype) {
  namespace ops = sftbench::ops;
  static constexpr int64_t kRouted = 2048, kChoices = 8, kExperts = 32, kWidth = 1024;
  const Tensor experts = std::get<1>(torch::randn({kRouted, kExperts}).topk(kChoices, -1));
  add(
      "gather_and_combine", dtype,
      [](auto type) {
        return std::vector{random_leaf({kRouted, kWidth}, type),
                           random_leaf({kRouted, kChoices}, type)};
      },
      [=](const auto& in) {
        const ops::Routes routes = ops::sort_by_expert(experts, kExperts);
        return ops::combine_rows(ops::gather_rows(in[0], routes), in[1], routes);
      },
      [=](const auto& in) {  // GraniteMoeMoE.forward of transformers
        const Tensor order = std::get<1>(experts.flatten().sort(0));
        const Tensor tokens = order.div(kChoices, "trunc");
        const Tensor rows = in[0].index({tokens}) * in[1].flatten().index({order}).unsqueeze(-1);
        return torch::zeros({kRouted, kWidth}, in[0].options()).index_add(0, tokens, rows);
      });
}

// The convolution of a Granite-4.0-h-tiny layer: 48 heads of 64 and two groups' states of 128.
void register_convolution(torch::Dtype dtype) {
  namespace ops = sftbench::ops;
  static constexpr int64_t kLength = 2048, kChannels = 48 * 64 + 2 * 128, kTaps = 4;
  add(
      "causal_convolution", dtype,
      [](auto type) {
        return std::vector{random_leaf({1, kLength, kChannels}, type),
                           random_leaf({kChannels, 1, kTaps}, type),
                           random_leaf({kChannels}, type)};
      },
      [](const auto& in) {
        return ops::causal_convolution(in[0], in[1], in[2], ops::ConvolutionActivation::kSilu);
      },
      [](const auto& in) {
        const Tensor y =
            at::conv1d(in[0].transpose(1, 2), in[1], in[2], 1, kTaps - 1, 1, kChannels);
        return torch::silu(y.slice(2, 0, kLength).transpose(1, 2));
      });
}

// GraniteMoeHybridMambaLayer.torch_forward of transformers: the scan in chunks of 256 for all heads
// at once. Its products are matrix products here; transformers writes them as sums of element-wise
// ones, which take gigabytes at this size.
Tensor stock_scan(const std::vector<Tensor>& in) {
  constexpr int64_t kChunk = 256;
  const int64_t heads = in[0].size(2), chunks = in[0].size(1) / kChunk;
  const auto chunked = [&](const Tensor& tensor) {  // [B, chunks, H, L, ..]
    return tensor.to(torch::kFloat32)
        .unflatten(1, std::vector<int64_t>{chunks, kChunk})
        .transpose(2, 3);
  };
  const Tensor x = chunked(in[0] * in[1].unsqueeze(-1));
  const Tensor b = chunked(in[3].repeat_interleave(heads / in[3].size(2), 2));
  const Tensor c = chunked(in[4].repeat_interleave(heads / in[4].size(2), 2));
  const Tensor sums = chunked(in[1] * in[2]).cumsum(-1);
  const Tensor later = torch::ones({kChunk, kChunk}, torch::kBool).triu(1);
  const Tensor decay =
      (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(later, -INFINITY).exp();
  const Tensor within = torch::matmul(torch::matmul(c, b.transpose(-1, -2)) * decay, x);
  const Tensor last = sums.slice(-1, kChunk - 1);
  const Tensor fed = torch::matmul((b * (last - sums).exp().unsqueeze(-1)).transpose(-1, -2), x);
  std::vector<Tensor> states = {torch::zeros_like(fed.select(1, 0))};
  for (int64_t i = 0; i + 1 < chunks; ++i) {
    states.push_back(states.back() * last.select(1, i).exp().unsqueeze(-1) + fed.select(1, i));
  }
  const Tensor before = torch::matmul(c * sums.exp().unsqueeze(-1), torch::stack(states, 1));
  const Tensor y = (within + before).transpose(2, 3).flatten(1, 2);
  return y.to(in[0].scalar_type()) + in[5].unsqueeze(-1) * in[0];
}

// The scan of a Granite-4.0-h layer, and its products at the rate of linear layers. FLOPs: 4 N P
// for states forward and 8 N P backward, and 3 triangular products of a chunk.
void register_scan(torch::Dtype dtype) {
  namespace ops = sftbench::ops;
  static constexpr int64_t kLength = 2048, kMambaHeads = 48, kDim = 64, kState = 128, kChunk = 128;
  add(
      "state_space_scan", dtype,
      [](auto type) {
        const Tensor dt = (torch::rand({1, kLength, kMambaHeads}) * 0.1 + 0.001).to(type);
        return std::vector{random_leaf({1, kLength, kMambaHeads, kDim}, type),
                           dt.requires_grad_(),
                           (-torch::arange(1, kMambaHeads + 1).to(type)).requires_grad_(),
                           random_leaf({1, kLength, 1, kState}, type),
                           random_leaf({1, kLength, 1, kState}, type),
                           random_leaf({kMambaHeads}, type)};
      },
      [](const auto& in) {
        return ops::state_space_scan(in[0], in[1], in[2], in[3], in[4], in[5]);
      },
      [](const auto& in) { return stock_scan(in); },
      static_cast<double>(kLength * kMambaHeads) * (12 * kState * kDim + 3 * kChunk * kDim));
  // What follows it.
  constexpr double kEpsilon = 1e-5;
  add(
      "gated_rms_norm", dtype,
      [](auto type) {
        return std::vector{random_leaf({1, kLength, kMambaHeads * kDim}, type),
                           random_leaf({1, kLength, kMambaHeads * kDim}, type),
                           random_leaf({kMambaHeads * kDim}, type)};
      },
      [](const auto& in) { return ops::gated_rms_norm(in[0], in[1], in[2], 1, kEpsilon); },
      [](const auto& in) { return ops::plain::gated_rms_norm(in[0], in[1], in[2], 1, kEpsilon); });
}

void register_operators(torch::Dtype dtype) {
  namespace ops = sftbench::ops;
  add(
      "rms_norm", dtype,
      [](auto type) {
        return std::vector{random_leaf({1, kTokens, kHidden}, type), random_leaf({kHidden}, type)};
      },
      [](const auto& in) { return ops::rms_norm(in[0], in[1], 1e-5); },
      [](const auto& in) { return stock_rms_norm(in[0], in[1]); });
  const Tensor angle = torch::randn({kTokens, kHeadDim / 2});
  const Tensor cos = angle.cos().to(dtype), sin = angle.sin().to(dtype);
  add(
      "rope", dtype,
      [](auto type) {
        return std::vector{random_leaf({1, kTokens, kHeads, kHeadDim}, type)};
      },
      [=](const auto& in) {
        return std::get<0>(ops::apply_rope(in[0], in[0].detach().narrow(2, 0, kKvHeads), cos, sin));
      },
      [=](const auto& in) { return stock_rope(in[0], cos, sin); });
  add(
      "swiglu", dtype,
      [](auto type) {
        return std::vector{random_leaf({kTokens, kIntermediate}, type),
                           random_leaf({kTokens, kIntermediate}, type)};
      },
      [](const auto& in) { return ops::swiglu(in[0], in[1]); },
      [](const auto& in) { return torch::silu(in[0]) * in[1]; });
  // 7 causal products of S^2/2 D per head: 2 forward, 5 backward.
  add(
      "attention", dtype,
      [](auto type) {
        return std::vector{random_leaf({1, kTokens, kHeads, kHeadDim}, type),
                           random_leaf({1, kTokens, kKvHeads, kHeadDim}, type),
                           random_leaf({1, kTokens, kKvHeads, kHeadDim}, type)};
      },
      [](const auto& in) { return ops::causal_attention(in[0], in[1], in[2], 0.125); },
      [](const auto& in) { return stock_attention(in[0], in[1], in[2]); },
      7.0 * kTokens * kTokens * kHeadDim * kHeads);
  for (const auto& [in_width, out_width] : {std::pair(kHidden, kHidden),
                                            {kHidden, kKvHeads * kHeadDim},
                                            {kHidden, kIntermediate},
                                            {kIntermediate, kHidden}}) {
    add(
        "linear_" + std::to_string(in_width) + "x" + std::to_string(out_width), dtype,
        [=, i = in_width, o = out_width](auto type) {
          return std::vector{random_leaf({kTokens, i}, type), random_leaf({o, i}, type)};
        },
        [](const auto& in) { return ops::linear(in[0], in[1]); },
        [](const auto& in) { return torch::matmul(in[0], in[1].t()); },
        6.0 * kTokens * in_width * out_width);
  }
  const Tensor ids = torch::randint(kVocabulary, {1, kTokens}, torch::kInt64);
  add(
      "embedding", dtype,
      [](auto type) {
        return std::vector{random_leaf({kVocabulary, kHidden}, type)};
      },
      [=](const auto& in) { return ops::embedding(ids, in[0]); },
      [=](const auto& in) { return torch::embedding(in[0], ids); });
  add(
      "linear_cross_entropy", dtype,
      [](auto type) {
        return std::vector{
            random_leaf({kTokens, kHidden}, type),
            (random_leaf({kVocabulary, kHidden}, type) * 0.02).detach().requires_grad_()};
      },
      [=](const auto& in) {
        return ops::linear_cross_entropy(in[0], in[1], ids.view({-1}), 1.0, kTokens);
      },
      [=](const auto& in) { return stock_loss(in[0], in[1], ids.view({-1})); },
      6.0 * kTokens * kHidden * kVocabulary);
}

// --- optimizer: bytes are those that a step must move --------------------------------------------

constexpr int64_t kGradientTensors = 30, kGradientNumel = 1 << 20;

struct Gradients {
  std::vector<Tensor> tensors;
  explicit Gradients(torch::Dtype dtype) {
    for (int64_t i = 0; i < kGradientTensors; ++i)
      tensors.push_back(torch::randn({kGradientNumel}).to(dtype));
  }
  int64_t bytes() const { return kGradientTensors * kGradientNumel * tensors[0].element_size(); }
};

void count_bytes(benchmark::State& state, int64_t bytes) {
  state.counters["B/s"] =
      benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate);
}

void norm_ours(benchmark::State& state, torch::Dtype dtype) {
  const Gradients gradients(dtype);
  for (auto _ : state) benchmark::DoNotOptimize(sftbench::ops::global_norm(gradients.tensors));
  count_bytes(state, gradients.bytes());
}

void norm_stock(benchmark::State& state, torch::Dtype dtype) {
  const Gradients gradients(dtype);
  for (auto _ : state) {
    std::vector<Tensor> norms;
    for (const Tensor& gradient : gradients.tensors) norms.push_back(gradient.norm(2));
    benchmark::DoNotOptimize(torch::stack(norms).norm(2).item<double>());
  }
  count_bytes(state, gradients.bytes());
}

// The yardstick of both: reading and writing the same memory.
void copy(benchmark::State& state, torch::Dtype dtype) {
  const Gradients from(dtype), to(dtype);
  for (auto _ : state) {
    for (size_t i = 0; i < from.tensors.size(); ++i) to.tensors[i].copy_(from.tensors[i]);
  }
  count_bytes(state, 2 * from.bytes());
}

void register_norm(torch::Dtype dtype) {
  const std::string suffix = dtype == torch::kBFloat16 ? "/bf16" : "/fp32";
  const auto add_one = [&](const std::string& name,
                           void (*function)(benchmark::State&, torch::Dtype)) {
    benchmark::RegisterBenchmark(name.c_str(), function, dtype)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add_one("global_norm" + suffix + "/ours", norm_ours);
  add_one("global_norm" + suffix + "/stock", norm_stock);
  add_one("copy" + suffix, copy);
}

}  // namespace

int main(int argc, char** argv) {
  // As the engine does: large tensors stay in the process instead of being faulted in again each
  // iteration. Both sides profit.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  at::set_num_threads(sftbench::read_host_info().cores);
  torch::manual_seed(0);
  for (const auto dtype : {torch::kBFloat16, torch::kFloat32}) {
    register_operators(dtype);
    register_experts(dtype);
    register_routing(dtype);
    register_convolution(dtype);
    register_scan(dtype);
    register_norm(dtype);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
