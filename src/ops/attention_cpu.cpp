#include <torch/torch.h>

#include "ops/attention_impl.h"
#include "ops/cpu_dispatch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

AttentionProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                            int64_t window) {
  AttentionProblem problem{};
  problem.batch = q.size(0);
  problem.length = q.size(1);
  problem.heads = q.size(2);
  problem.kv_heads = k.size(2);
  problem.dim = q.size(3);
  problem.window = window;
  problem.scale = static_cast<float>(scale);
  problem.parts = 1;
  problem.q = q.data_ptr();
  problem.k = k.data_ptr();
  problem.v = v.data_ptr();
  return problem;
}

int64_t kv_heads_in_all(const AttentionProblem& problem) {
  return problem.batch * problem.kv_heads;
}

// Floats, held by a tensor so that they come from the allocator that the process has chosen.
Tensor buffer(int64_t numel) {
  return torch::empty({numel}, torch::kFloat32);
}

uint32_t* units(const Tensor& tensor) {
  return reinterpret_cast<uint32_t*>(tensor.data_ptr<float>());
}

// task(kv head, index, scratch) for every key/value head and index in [0, per_head), the last index
// first: it sees the most keys.
template <class Task>
void for_each_task(const AttentionProblem& problem, int64_t per_head, const Task& task) {
  const int64_t scratch_numel = attention_scratch_numel(problem);
  const Tensor scratch = buffer(scratch_numel * at::get_num_threads());
  const int64_t heads = kv_heads_in_all(problem);
  parallel_tasks(heads * per_head, [&](int64_t index, int64_t thread) {
    task(index % heads, per_head - 1 - index / heads,
         scratch.data_ptr<float>() + thread * scratch_numel);
  });
}

void pack(const CpuKernels& kernels, const AttentionProblem& problem) {
  const int64_t heads = kv_heads_in_all(problem);
  at::parallel_for(0, heads * problem.tiles(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) kernels.attention_pack(problem, i % heads, i / heads);
  });
}

std::pair<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                  int64_t window) {
  const CpuKernels& kernels = cpu_kernels(q);
  Tensor output = torch::empty_like(q);
  Tensor lse = torch::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(torch::kFloat32));
  AttentionProblem problem = problem_of(q, k, v, scale, window);
  if (q.numel() == 0) return {output, lse};
  problem.output = output.data_ptr();
  problem.lse = lse.data_ptr<float>();
  const int64_t packed_numel = kv_heads_in_all(problem) * problem.packed_numel();
  const Tensor k_transposed = buffer(packed_numel), v_natural = buffer(packed_numel);
  problem.k_transposed = units(k_transposed);
  problem.v_natural = units(v_natural);
  pack(kernels, problem);
  for_each_task(problem, problem.tiles(), [&](int64_t kv_head, int64_t tile, float* scratch) {
    kernels.attention_forward(problem, kv_head, tile, scratch);
  });
  return {output, lse};
}

std::array<Tensor, 3> backward(const Tensor& output_gradient, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& output, const Tensor& lse,
                               double scale, int64_t window) {
  const CpuKernels& kernels = cpu_kernels(q);
  const Tensor dq = torch::empty_like(q), dk = torch::empty_like(k), dv = torch::empty_like(v);
  AttentionProblem problem = problem_of(q, k, v, scale, window);
  if (q.numel() == 0) return {dq, dk, dv};
  problem.output = output.data_ptr();
  problem.output_gradient = output_gradient.data_ptr();
  problem.lse = lse.data_ptr<float>();
  problem.dq = dq.data_ptr();
  problem.dk = dk.data_ptr();
  problem.dv = dv.data_ptr();
  // Enough tasks to keep a machine busy, few enough that their partial sums stay small. A function
  // of the shape only, so that results do not depend on the number of threads.
  constexpr int64_t kTasks = 12;
  const int64_t heads = kv_heads_in_all(problem);
  problem.parts = std::min(problem.tiles(), (kTasks + heads - 1) / heads);
  const int64_t packed_numel = heads * problem.packed_numel();
  const Tensor k_transposed = buffer(packed_numel), v_transposed = buffer(packed_numel),
               k_natural = buffer(packed_numel);
  const Tensor dk_parts = buffer(packed_numel * problem.parts).zero_();
  const Tensor dv_parts = buffer(packed_numel * problem.parts).zero_();
  problem.k_transposed = units(k_transposed);
  problem.v_transposed = units(v_transposed);
  problem.k_natural = units(k_natural);
  problem.dk_parts = dk_parts.data_ptr<float>();
  problem.dv_parts = dv_parts.data_ptr<float>();
  pack(kernels, problem);
  for_each_task(problem, problem.parts, [&](int64_t kv_head, int64_t part, float* scratch) {
    kernels.attention_backward(problem, kv_head, part, scratch);
  });
  at::parallel_for(0, heads * problem.tiles(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) kernels.attention_reduce(problem, i % heads, i / heads);
  });
  return {dq, dk, dv};
}

}  // namespace

const AttentionImpl kAttentionCpu{forward, backward};

}  // namespace sftbench::ops
