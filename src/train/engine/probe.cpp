#include "engine/probe.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "engine/training_device.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/attention.h"
#include "sftbench/ops/linear.h"
#include "sftbench/ops/linear_cross_entropy.h"
#include "sftbench/ops/rms_norm.h"
#include "sftbench/ops/swiglu.h"

namespace sftbench {
namespace {

constexpr double kLeastSeconds = 0.06;  // of a figure: a shorter run tells of the clock
constexpr int kLeastRuns = 3;
constexpr int64_t kSmallestFigure = 1'000'000;
constexpr double kMoreThanCaches = 64 << 20;
constexpr size_t kMostTurns = 128;
constexpr std::array<int64_t, 3> kRowCounts = {32, 128, 512};

// The median of runs, behind one that asks for memory.
double seconds_of(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  double sum = 0;
  while (sum < kLeastSeconds || times.size() < kLeastRuns) {
    const double begin_s = steady_seconds();
    run();
    times.push_back(steady_seconds() - begin_s);
    sum += times.back();
  }
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

torch::Tensor leaf(std::vector<int64_t> shape, torch::ScalarType dtype, bool trained = true,
                   double deviation = 1) {
  torch::Tensor tensor = torch::randn(shape, torch::kFloat32).mul_(deviation).to(dtype);
  tensor.requires_grad_(trained);
  return tensor;
}

// A linear forward and the two products of its backward pass: [rows, out, in, FLOP/s of one
// product]. Weights take turns: in a training step each comes from memory, since the others were
// there between.
Json product(int64_t rows, int64_t in, int64_t out, torch::ScalarType dtype) {
  const torch::Tensor x = leaf({rows, in}, dtype), upstream = leaf({rows, out}, dtype, false);
  std::vector<torch::Tensor> weights = {leaf({out, in}, dtype)};
  const auto bytes = static_cast<double>(weights.front().nbytes());
  const auto turns = std::min(kMostTurns, static_cast<size_t>(std::ceil(kMoreThanCaches / bytes)));
  while (weights.size() < turns) weights.push_back(leaf({out, in}, dtype));
  size_t turn = 0;
  const double step_s = seconds_of([&] {
    const torch::Tensor& weight = weights[turn++ % turns];
    for (const torch::Tensor& tensor : {x, weight}) tensor.mutable_grad() = torch::Tensor();
    ops::linear(x, weight).backward(upstream);
  });
  return {rows, out, in, 3 * 2.0 * double(rows) * double(in) * double(out) / step_s};
}

Json products(torch::ScalarType dtype) {
  constexpr std::array<std::array<int64_t, 2>, 6> kShapes = {
      {{192, 576}, {576, 576}, {576, 1536}, {1536, 576}, {2048, 2048}, {1024, 4096}}};
  Json list = Json::array();
  for (const int64_t rows : kRowCounts) {
    for (const auto& [in, out] : kShapes) list.push_back(product(rows, in, out, dtype));
  }
  return list;
}

// [rows, FLOP/s] of the output projection with the loss, forward and backward. Weights are as small
// as a model's: larger ones give probabilities below float32's normal range, which some processors
// multiply thirty times slower.
Json head(torch::ScalarType dtype) {
  constexpr int64_t kHidden = 576, kVocabulary = 49152;
  constexpr double kDeviation = 0.02;  // transformers' initializer_range
  const torch::Tensor weight = leaf({kVocabulary, kHidden}, dtype, true, kDeviation);
  Json list = Json::array();
  for (const int64_t rows : kRowCounts) {
    const torch::Tensor hidden = leaf({rows, kHidden}, dtype);
    const torch::Tensor labels = torch::randint(kVocabulary, {rows}, torch::kLong);
    const double step_s = seconds_of([&] {
      for (const torch::Tensor& tensor : {hidden, weight}) tensor.mutable_grad() = torch::Tensor();
      ops::linear_cross_entropy(hidden, weight, labels, 1, rows).backward();
    });
    list.push_back({rows, 3 * 2.0 * double(rows) * kHidden * kVocabulary / step_s});
  }
  return list;
}

// [length, FLOP/s] of causal attention forward and backward: 2 and 5 products over half of the
// pairs.
Json attention(torch::ScalarType dtype) {
  constexpr int64_t kHeads = 9, kKeyHeads = 3, kHead = 64;
  Json list = Json::array();
  for (const int64_t length : {32, 128, 512, 2048}) {
    const torch::Tensor q = leaf({1, length, kHeads, kHead}, dtype);
    const torch::Tensor k = leaf({1, length, kKeyHeads, kHead}, dtype);
    const torch::Tensor v = leaf({1, length, kKeyHeads, kHead}, dtype);
    const torch::Tensor upstream = leaf({1, length, kHeads, kHead}, dtype, false);
    const double step_s = seconds_of([&] {
      for (const torch::Tensor& tensor : {q, k, v}) tensor.mutable_grad() = torch::Tensor();
      ops::causal_attention(q, k, v, 0.125).backward(upstream);
    });
    const double pairs = double(length) * double(length) / 2;
    list.push_back({length, 7 * 2.0 * pairs * kHeads * kHead / step_s});
  }
  return list;
}

// Of a norm and of an activation, counted as config/stacks.yaml counts this program's: 8 passes
// over a value each, forward and backward together.
double element_bytes_per_s(torch::ScalarType dtype) {
  constexpr int64_t kRows = 512, kWidth = 1024;
  constexpr double kPasses = 8;
  const torch::Tensor x = leaf({kRows, kWidth}, dtype), y = leaf({kRows, kWidth}, dtype);
  const torch::Tensor weight = leaf({kWidth}, dtype);
  const torch::Tensor upstream = leaf({kRows, kWidth}, dtype, false);
  const double step_s = seconds_of([&] {
    for (const torch::Tensor& tensor : {x, y, weight}) tensor.mutable_grad() = torch::Tensor();
    ops::rms_norm(x, weight, 1e-5).backward(upstream);
    ops::swiglu(x, y).backward(upstream);
  });
  return 2 * kPasses * double(x.nbytes()) / step_s;
}

// Read and written.
double memory_bytes_per_s() {
  const torch::Tensor from = torch::ones({64 * kSmallestFigure / 4}, torch::kFloat32);
  torch::Tensor to = torch::empty_like(from);
  return 2 * double(from.nbytes()) / seconds_of([&] { to.copy_(from); });
}

struct Dtype {
  const char* name;
  torch::ScalarType of_operators;
  ParameterDtype of_jobs;
};
constexpr std::array kDtypes = {Dtype{"bfloat16", torch::kBFloat16, ParameterDtype::kBfloat16},
                                Dtype{"float32", torch::kFloat32, ParameterDtype::kFloat32}};

Json probe_operators(torch::ScalarType dtype) {
  return {{"products", products(dtype)},
          {"head", head(dtype)},
          {"attention", attention(dtype)},
          {"element_bytes_per_s", element_bytes_per_s(dtype)}};
}

}  // namespace

// Runs go before, between and behind operators: on a host that others use, no minute is like the
// next.
Json probe_processors() {
  const auto device = make_training_device({}, {});  // threads and memory as in a run
  torch::manual_seed(42);
  std::array<Json, kDtypes.size()> rates, runs;
  const auto pass = [&runs] {
    for (size_t i = 0; i < kDtypes.size(); ++i)
      runs[i].push_back(probe_training(kDtypes[i].of_jobs));
  };
  pass();
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    rates[i] = probe_operators(kDtypes[i].of_operators);
    pass();
  }
  Json dtypes;
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    rates[i]["runs"] = std::move(runs[i]);
    dtypes[kDtypes[i].name] = std::move(rates[i]);
  }
  return {{"threads", at::get_num_threads()},
          {"dtypes", std::move(dtypes)},
          {"memory_bytes_per_s", memory_bytes_per_s()}};
}

}  // namespace sftbench
