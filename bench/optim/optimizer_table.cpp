// Every optimizer of the registry on the tensors of one SmolLM2-135M layer and a slice of its
// embedding: the bytes that its state really holds, and how long a step takes (the median of
// seven), per parameter.
//   optimizer_table
// prints a Markdown table. The step of a kind that updates in the backward is not timed: it is part
// of the backward.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sftbench/base/torch.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {
namespace {

struct Figures {
  double state_bytes = 0;        // per parameter
  double step_nanoseconds = -1;  // per parameter
};

std::vector<TrainableTensor> layer(torch::Dtype dtype) {
  const std::pair<const char*, std::vector<int64_t>> shapes[] = {
      {"model.embed_tokens.weight", {6144, 576}},
      {"model.layers.0.self_attn.q_proj.weight", {576, 576}},
      {"model.layers.0.self_attn.k_proj.weight", {192, 576}},
      {"model.layers.0.self_attn.v_proj.weight", {192, 576}},
      {"model.layers.0.self_attn.o_proj.weight", {576, 576}},
      {"model.layers.0.mlp.gate_proj.weight", {1536, 576}},
      {"model.layers.0.mlp.up_proj.weight", {1536, 576}},
      {"model.layers.0.mlp.down_proj.weight", {576, 1536}},
      {"model.layers.0.input_layernorm.weight", {576}},
      {"model.layers.0.post_attention_layernorm.weight", {576}}};
  torch::manual_seed(1);
  std::vector<TrainableTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    tensors.push_back({name, (torch::randn(shape) * 0.02).to(dtype).set_requires_grad(true)});
  }
  return tensors;
}

Figures measure(const std::string& name, torch::Dtype dtype) {
  constexpr int kSteps = 8;  // the first one meets fresh memory
  const std::vector<TrainableTensor> tensors = layer(dtype);
  int64_t parameters = 0;
  std::vector<torch::Tensor> gradients;
  for (const TrainableTensor& trainable : tensors) {
    parameters += trainable.tensor.numel();
    gradients.push_back(torch::randn_like(trainable.tensor.detach()) * 1e-3);
  }
  const auto optimizer =
      make_optimizer(named<OptimizerKind>(name), group_by_decay(tensors, 0.0), {});
  std::vector<double> seconds;
  for (int step = 0; step < kSteps; ++step) {
    optimizer->begin_backward(1e-5, 1.0);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].tensor.mutable_grad() = gradients[i];
    optimizer->end_backward();
    const auto begin = std::chrono::steady_clock::now();
    optimizer->step(1e-5, 1.0);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (step > 0) seconds.push_back(elapsed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const auto count = static_cast<double>(parameters);
  Figures figures;
  figures.state_bytes = static_cast<double>(optimizer->state_bytes()) / count;
  if (!optimizer->updates_in_backward()) {
    figures.step_nanoseconds = seconds[seconds.size() / 2] / count * 1e9;
  }
  return figures;
}

void print_row(const std::string& name) {
  std::printf("| `%s`", name.c_str());
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    const Figures figures = measure(name, dtype);
    std::printf(" | %.3g", figures.state_bytes);
    figures.step_nanoseconds < 0 ? std::printf(" | in the backward")
                                 : std::printf(" | %.2f", figures.step_nanoseconds);
  }
  std::printf(" |\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace sftbench

int main() {
  std::printf("Threads: %d\n\n", at::get_num_threads());
  std::printf(
      "| optim | state B/parameter, float32 weights | step, ns/parameter | state B/parameter, "
      "bfloat16 weights | step, ns/parameter |\n|---|---|---|---|---|\n");
  for (const std::string& name : sftbench::optimizer_names()) sftbench::print_row(name);
}
