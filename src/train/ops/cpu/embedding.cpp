#include <numeric>
#include <vector>

#include "ops/cpu/dispatch.h"
#include "ops/embedding_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

void add_rows_by_token_cpu(Tensor target, const Tensor& ids, const Tensor& rows) {
  const CpuKernels& kernels = cpu_kernels(target);
  const int64_t count = ids.numel(), width = target.size(1);
  const int64_t* token = ids.data_ptr<int64_t>();
  // Positions by token, each token's in their order: threads share no row and sums do not depend on
  // them.
  std::vector<int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(),
                   [&](int64_t a, int64_t b) { return token[a] < token[b]; });
  std::vector<int64_t> runs;
  for (int64_t i = 0; i < count; ++i) {
    if (i == 0 || token[positions[i]] != token[positions[i - 1]]) runs.push_back(i);
  }
  const int64_t run_count = static_cast<int64_t>(runs.size());
  runs.push_back(count);
  at::parallel_for(0, run_count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t first = runs[run];
      kernels.add_rows(element(target, token[positions[first]] * width), rows.data_ptr(),
                       &positions[first], runs[run + 1] - first, width);
    }
  });
}

}  // namespace sftbench::ops
