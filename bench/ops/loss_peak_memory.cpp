// What the loss and its gradient add to the peak memory: vocabulary 49152, batch 4 x 1024, hidden
// 576, bfloat16 and float32, with the weight's gradient already there. Prints the growth of the
// resident peak (VmHWM) over the state just before the call, for the fused operator and for the
// stock one.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "sftbench/base/torch.h"
#include "sftbench/ops/linear_cross_entropy.h"

namespace {

constexpr int64_t kPositions = 4 * 1024, kHidden = 576, kVocabulary = 49152;

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0.0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

torch::Tensor loss_of(const torch::Tensor& hidden, const torch::Tensor& weight,
                      const torch::Tensor& labels, bool ours) {
  if (ours) {
    return sftbench::ops::linear_cross_entropy(hidden, weight, labels, 1.0,
                                               static_cast<double>(labels.numel()));
  }
  return at::cross_entropy_loss(torch::matmul(hidden, weight.t()).to(torch::kFloat32), labels);
}

// In a child process: a peak cannot be lowered again everywhere.
void measure(torch::Dtype dtype, bool ours) {
  malloc_trim(0);
  const torch::Tensor hidden = torch::randn({kPositions, kHidden}).to(dtype).requires_grad_();
  const torch::Tensor weight =
      (torch::randn({kVocabulary, kHidden}) * 0.02).to(dtype).requires_grad_();
  const torch::Tensor labels = torch::randint(kVocabulary, {kPositions}, torch::kInt64);
  weight.mutable_grad() = torch::zeros_like(weight);
  // Libraries set up their own buffers on first use.
  loss_of(hidden.slice(0, 0, 4), weight, labels.slice(0, 0, 4), ours).backward();
  hidden.mutable_grad().reset();
  malloc_trim(0);
  reset_peak();
  const double before_mib = peak_mib();
  loss_of(hidden, weight, labels, ours).backward();
  std::printf("%-8s %-5s %8.1f MiB\n", dtype == torch::kBFloat16 ? "bfloat16" : "float32",
              ours ? "ours" : "stock", peak_mib() - before_mib);
  std::fflush(stdout);
}

}  // namespace

int main() {
  int failures = 0;
  for (const auto dtype : {torch::kBFloat16, torch::kFloat32}) {
    for (const bool ours : {true, false}) {
      const pid_t child = fork();
      if (child == 0) {
        measure(dtype, ours);
        _exit(0);
      }
      int status = 0;
      if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}
