#include <algorithm>

#include "ops/cpu/dispatch.h"
#include "ops/state_space_scan_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

static_assert(ScanProblem::kChunk == kScanChunk);

// The chunks of all sequences, and which ones are a sequence's.
struct ScanPlan {
  std::vector<ScanChunkRange> chunks;
  std::vector<int64_t> first_chunks;  // [sequences + 1]

  explicit ScanPlan(const ScanInputs& in) {
    const int64_t length = in.x.size(1);
    const std::vector<int64_t> ends =
        in.offsets.empty() ? std::vector<int64_t>{0, length} : in.offsets;
    for (int64_t row = 0; row < in.x.size(0); ++row) {
      for (size_t i = 0; i + 1 < ends.size(); ++i) {
        first_chunks.push_back(static_cast<int64_t>(chunks.size()));
        for (int64_t begin = ends[i]; begin < ends[i + 1]; begin += kScanChunk) {
          chunks.push_back({row * length + begin, std::min(kScanChunk, ends[i + 1] - begin),
                            static_cast<int64_t>(chunks.size())});
        }
      }
    }
    first_chunks.push_back(static_cast<int64_t>(chunks.size()));
  }

  int64_t sequences() const { return static_cast<int64_t>(first_chunks.size()) - 1; }

  // Each sequence and group with its heads in `parts`, the longest sequences first.
  std::vector<ScanTask> tasks(const ScanProblem& problem, int64_t parts) const {
    const int64_t group_heads = problem.heads / problem.groups;
    std::vector<ScanTask> all;
    for (int64_t sequence = 0; sequence < sequences(); ++sequence) {
      const int64_t first = first_chunks[static_cast<size_t>(sequence)];
      const int64_t count = first_chunks[static_cast<size_t>(sequence) + 1] - first;
      for (int64_t group = 0; group < problem.groups; ++group) {
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t begin = group_heads * part / parts, end = group_heads * (part + 1) / parts;
          all.push_back({sequence, chunks.data() + first, count, group, group * group_heads + begin,
                         end - begin, part});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const ScanTask& a, const ScanTask& b) {
      return a.chunk_count * a.heads > b.chunk_count * b.heads;
    });
    return all;
  }
};

// Into how many parts the heads of a group are divided, so that there is enough to do for threads.
// A function of the shape only: parts of the backward are summed up.
int64_t scan_parts(const ScanInputs& in, int64_t wanted_tasks) {
  const int64_t group_heads = in.x.size(2) / in.b.size(2), groups = in.x.size(0) * in.b.size(2);
  return std::clamp<int64_t>((wanted_tasks + groups - 1) / groups, 1, group_heads);
}

ScanProblem scan_problem(const ScanInputs& in) {
  return {.heads = in.x.size(2),
          .groups = in.b.size(2),
          .dim = in.x.size(3),
          .state = in.b.size(3),
          .x = in.x.data_ptr(),
          .b = in.b.data_ptr(),
          .c = in.c.data_ptr(),
          .x_stride = in.x.stride(1),
          .b_stride = in.b.stride(1),
          .c_stride = in.c.stride(1),
          .dt = in.dt.data_ptr<float>(),
          .a = in.a.data_ptr<float>(),
          .d = in.d.data_ptr<float>()};
}

// Memory of each thread's own, from libtorch's allocator like everything else that is counted.
class ThreadScratch {
 public:
  ThreadScratch(const ScanProblem& problem, int64_t parts)
      : numel_(problem.scratch_numel((problem.heads / problem.groups + parts - 1) / parts)),
        memory_(torch::empty({at::get_num_threads() * numel_}, torch::kFloat32)) {}

  float* of(int64_t thread) const { return memory_.data_ptr<float>() + thread * numel_; }

 private:
  int64_t numel_;
  Tensor memory_;
};

Tensor find_scores(ScanProblem& problem, const ScanPlan& plan, const CpuKernels& kernels,
                   const ThreadScratch& scratch) {
  const auto count = static_cast<int64_t>(plan.chunks.size());
  const Tensor scores =
      torch::empty({count * problem.groups * kScanChunk * kScanChunk}, torch::kFloat32);
  problem.scores = scores.data_ptr<float>();
  parallel_tasks(count * problem.groups, [&](int64_t i, int64_t thread) {
    kernels.scan_scores(problem, plan.chunks[static_cast<size_t>(i / problem.groups)],
                        i % problem.groups, scratch.of(thread));
  });
  return scores;
}

std::pair<Tensor, Tensor> forward(const ScanInputs& in, bool keeps_states) {
  const CpuKernels& kernels = cpu_kernels(in.x);
  const ScanPlan plan(in);
  ScanProblem problem = scan_problem(in);
  constexpr int64_t kForwardTasks = 16;
  const int64_t parts = scan_parts(in, std::max<int64_t>(kForwardTasks, at::get_num_threads()));
  const ThreadScratch scratch(problem, parts);
  Tensor y = torch::empty(in.x.sizes(), in.x.options()), states;
  problem.y = y.data_ptr();
  if (keeps_states) {
    states = torch::empty({static_cast<int64_t>(plan.chunks.size()), problem.heads,
                           problem.padded_state(), problem.padded_dim()},
                          torch::kFloat32);
    problem.states = states.data_ptr<float>();
  }
  const Tensor scores = find_scores(problem, plan, kernels, scratch);
  const std::vector<ScanTask> tasks = plan.tasks(problem, parts);
  parallel_tasks(static_cast<int64_t>(tasks.size()), [&](int64_t i, int64_t thread) {
    kernels.scan_forward(problem, tasks[static_cast<size_t>(i)], scratch.of(thread));
  });
  return {y, states};
}

ScanGradients backward(const Tensor& y_gradient, const ScanInputs& in, const Tensor& states) {
  const CpuKernels& kernels = cpu_kernels(in.x);
  const ScanPlan plan(in);
  ScanProblem problem = scan_problem(in);
  constexpr int64_t kBackwardTasks = 8;
  const int64_t parts = scan_parts(in, kBackwardTasks);
  const ThreadScratch scratch(problem, parts);
  const Tensor dx = torch::empty(in.x.sizes(), in.x.options()), dt = torch::empty_like(in.dt);
  const Tensor da = torch::zeros({plan.sequences(), problem.heads}, in.a.options());
  const Tensor dd = torch::zeros_like(da);
  const std::vector<int64_t> part_sizes = {parts, in.b.size(0), in.b.size(1), in.b.size(2),
                                           in.b.size(3)};
  const Tensor db = torch::empty(part_sizes, in.a.options()), dc = torch::empty_like(db);
  problem.states = states.data_ptr<float>();
  problem.y_gradient = y_gradient.data_ptr();
  problem.x_gradient = dx.data_ptr();
  problem.dt_gradient = dt.data_ptr<float>();
  problem.a_gradient = da.data_ptr<float>();
  problem.d_gradient = dd.data_ptr<float>();
  problem.b_parts = db.data_ptr<float>();
  problem.c_parts = dc.data_ptr<float>();
  problem.part_numel = in.b.numel();
  const Tensor scores = find_scores(problem, plan, kernels, scratch);
  const std::vector<ScanTask> tasks = plan.tasks(problem, parts);
  parallel_tasks(static_cast<int64_t>(tasks.size()), [&](int64_t i, int64_t thread) {
    kernels.scan_backward(problem, tasks[static_cast<size_t>(i)], scratch.of(thread));
  });
  const auto dtype = in.x.scalar_type();
  return {dx, db.sum(0).to(dtype), dc.sum(0).to(dtype), dt, da.sum(0), dd.sum(0)};
}

}  // namespace

const ScanImpl kScanCpu{forward, backward};

}  // namespace sftbench::ops
