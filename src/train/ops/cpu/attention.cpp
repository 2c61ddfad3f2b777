#include <algorithm>
#include <functional>

#include "ops/attention_impl.h"
#include "ops/cpu/dispatch.h"
#include "ops/dropout_mask.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// Floats, held by a tensor so that they come from the allocator that the process has chosen.
Tensor buffer(int64_t numel) {
  return torch::empty({numel}, torch::kFloat32);
}

// One call as problems for the kernels: all rows are one problem; of a packed row each sequence is
// one, and so is each block of attention in parts. Their tasks are dealt out together.
class Problems {
 public:
  Problems(const Tensor& q, const Tensor& k, double scale, int64_t window,
           const std::vector<int64_t>& offsets, const Dropout& dropout, const ScoreTerms& terms) {
    const std::vector<int64_t> ends =
        offsets.empty() ? std::vector<int64_t>{0, q.size(1)} : offsets;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      AttentionProblem problem = shared(q, k, scale, window, dropout, terms);
      problem.length = problem.key_length = ends[i + 1] - ends[i];
      // A sequence lies in memory as a row of its own would.
      problem.q_row = problem.k_row = problem.lse_row = problem.length;
      problem.first_position = ends[i];
      problem.row_length = q.size(1);
      add(problem, {ends[i], ends[i], ends[i] * q.size(2)});
    }
  }

  Problems(const Tensor& q, const Tensor& k, const std::vector<AttentionBlock>& blocks,
           const PartAttention& attention) {
    for (const AttentionBlock& block : blocks) {
      AttentionProblem problem = shared(q, k, attention.scale, attention.window, attention.dropout,
                                        {attention.slopes, {}, attention.cap});
      problem.length = block.queries.length;
      problem.key_length = block.keys.length;
      problem.distance = block.queries.position - block.keys.position;
      problem.q_row = problem.lse_row = q.size(1);
      problem.k_row = k.size(1);
      problem.adds = true;
      problem.first_position = block.queries.sequence_begin + block.queries.position;
      problem.first_key = block.keys.position;
      problem.row_length = attention.row_length;
      add(problem, {block.queries.begin, block.keys.begin, block.queries.begin});
    }
  }

  int64_t kv_heads() const { return kv_heads_; }  // of all rows and sequences

  // Tensors [B, positions, heads, D] of queries or of keys, and lse.
  template <class Pointer>
  void place_queries(Pointer AttentionProblem::*member, const Tensor& tensor) {
    place(member, tensor, &Place::query, tensor.size(2) * tensor.size(3));
  }
  template <class Pointer>
  void place_keys(Pointer AttentionProblem::*member, const Tensor& tensor) {
    place(member, tensor, &Place::key, tensor.size(2) * tensor.size(3));
  }
  void place_lse(const Tensor& tensor) { place(&AttentionProblem::lse, tensor, &Place::lse, 1); }

  // Packed copies, or partial sums, of all keys or values; the caller keeps them alive.
  template <class Pointer>
  Tensor allocate(Pointer AttentionProblem::*member, bool by_part = false) {
    int64_t numel = 0;
    for (const AttentionProblem& problem : problems_) numel += packed_numel(problem, by_part);
    const Tensor memory = by_part ? buffer(numel).zero_() : buffer(numel);
    int64_t at = 0;
    for (AttentionProblem& problem : problems_) {
      problem.*member = reinterpret_cast<Pointer>(element(memory, at));
      at += packed_numel(problem, by_part);
    }
    return memory;
  }

  void set_parts(int64_t most) {
    for (AttentionProblem& problem : problems_) problem.parts = std::min(problem.tiles(), most);
  }

  // kernel(problem, kv head, tile) for every tile of keys.
  template <class Kernel>
  void for_each_key_tile(const Kernel& kernel) const {
    const std::vector<int64_t> ends = task_ends(&AttentionProblem::key_tiles);
    at::parallel_for(0, ends.back(), 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [problem, index] = task(ends, i);
        kernel(problem, index % heads_of(problem), index / heads_of(problem));
      }
    });
  }

  // kernel(problem, kv head, index, scratch) for every index that `count` gives a key/value head,
  // the last one first: it sees the most keys.
  template <class Count, class Kernel>
  void for_each_task(Count count, const Kernel& kernel) const {
    const std::vector<int64_t> ends = task_ends(count);
    const int64_t scratch_numel = attention_scratch_numel(problems_.front());
    const Tensor scratch = buffer(scratch_numel * at::get_num_threads());
    parallel_tasks(ends.back(), [&](int64_t i, int64_t thread) {
      const auto [problem, index] = task(ends, i);
      const int64_t heads = heads_of(problem);
      kernel(problem, index % heads, std::invoke(count, problem) - 1 - index / heads,
             scratch.data_ptr<float>() + thread * scratch_numel);
    });
  }

 private:
  // Where the first query, key and number of lse of a problem stand.
  struct Place {
    int64_t query, key, lse;
  };

  static AttentionProblem shared(const Tensor& q, const Tensor& k, double scale, int64_t window,
                                 const Dropout& dropout, const ScoreTerms& terms) {
    AttentionProblem problem{};
    problem.batch = q.size(0);
    problem.heads = q.size(2);
    problem.kv_heads = k.size(2);
    problem.dim = q.size(3);
    problem.window = window;
    problem.scale = static_cast<float>(scale);
    problem.parts = 1;
    problem.cap = static_cast<float>(terms.cap);
    if (terms.slopes.defined()) problem.slopes = terms.slopes.data_ptr<float>();
    if (terms.sinks.defined()) problem.sinks = terms.sinks.data_ptr<float>();
    problem.drop_threshold = drop_threshold(dropout.probability);
    problem.kept_scale = static_cast<float>(kept_scale_of(problem.drop_threshold));
    problem.drop_seed = dropout.seed;
    return problem;
  }

  void add(const AttentionProblem& problem, const Place& where) {
    problems_.push_back(problem);
    places_.push_back(where);
    kv_heads_ += heads_of(problem);
  }

  template <class Pointer>
  void place(Pointer AttentionProblem::*member, const Tensor& tensor, int64_t Place::*position,
             int64_t numel) {
    for (size_t i = 0; i < problems_.size(); ++i) {
      problems_[i].*member =
          reinterpret_cast<Pointer>(element(tensor, places_[i].*position * numel));
    }
  }

  struct Task {
    const AttentionProblem& problem;
    int64_t index;  // among the problem's
  };

  static int64_t heads_of(const AttentionProblem& problem) {
    return problem.batch * problem.kv_heads;
  }

  static int64_t packed_numel(const AttentionProblem& problem, bool by_part) {
    return heads_of(problem) * problem.packed_numel() * (by_part ? problem.parts : 1);
  }

  template <class Count>
  std::vector<int64_t> task_ends(Count count) const {
    std::vector<int64_t> ends;
    for (const AttentionProblem& problem : problems_) {
      ends.push_back((ends.empty() ? 0 : ends.back()) +
                     heads_of(problem) * std::invoke(count, problem));
    }
    return ends;
  }

  Task task(const std::vector<int64_t>& ends, int64_t i) const {
    const auto end = std::upper_bound(ends.begin(), ends.end(), i);
    const int64_t begin = end == ends.begin() ? 0 : *(end - 1);
    return {problems_[static_cast<size_t>(end - ends.begin())], i - begin};
  }

  std::vector<AttentionProblem> problems_;
  std::vector<Place> places_;
  int64_t kv_heads_ = 0;
};

void run_forward(Problems& problems, const CpuKernels& kernels, const Tensor& q, const Tensor& k,
                 const Tensor& v, const AttentionSums& sums) {
  problems.place_queries(&AttentionProblem::q, q);
  problems.place_keys(&AttentionProblem::k, k);
  problems.place_keys(&AttentionProblem::v, v);
  problems.place_queries(&AttentionProblem::output, sums.output);
  problems.place_lse(sums.lse);
  const Tensor k_transposed = problems.allocate(&AttentionProblem::k_transposed);
  const Tensor v_natural = problems.allocate(&AttentionProblem::v_natural);
  problems.for_each_key_tile(kernels.attention.pack);
  problems.for_each_task(&AttentionProblem::tiles, kernels.attention.forward);
}

void run_backward(Problems& problems, const CpuKernels& kernels, const Tensor& output_gradient,
                  const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSums& sums,
                  const AttentionGradients& gradients) {
  problems.place_queries(&AttentionProblem::q, q);
  problems.place_keys(&AttentionProblem::k, k);
  problems.place_keys(&AttentionProblem::v, v);
  problems.place_queries(&AttentionProblem::output, sums.output);
  problems.place_queries(&AttentionProblem::output_gradient, output_gradient);
  problems.place_lse(sums.lse);
  problems.place_queries(&AttentionProblem::dq, gradients.q);
  problems.place_keys(&AttentionProblem::dk, gradients.k);
  problems.place_keys(&AttentionProblem::dv, gradients.v);
  // Enough tasks to keep a machine busy, few enough that their partial sums stay small. A function
  // of the shape only, so that results do not depend on the number of threads.
  constexpr int64_t kTasks = 12;
  problems.set_parts((kTasks + problems.kv_heads() - 1) / problems.kv_heads());
  const Tensor k_transposed = problems.allocate(&AttentionProblem::k_transposed);
  const Tensor v_transposed = problems.allocate(&AttentionProblem::v_transposed);
  const Tensor k_natural = problems.allocate(&AttentionProblem::k_natural);
  const Tensor dk_parts = problems.allocate(&AttentionProblem::dk_parts, /*by_part=*/true);
  const Tensor dv_parts = problems.allocate(&AttentionProblem::dv_parts, /*by_part=*/true);
  problems.for_each_key_tile(kernels.attention.pack);
  problems.for_each_task(&AttentionProblem::parts, kernels.attention.backward);
  problems.for_each_key_tile(kernels.attention.reduce);
}

std::pair<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                  int64_t window, const std::vector<int64_t>& offsets,
                                  const Dropout& dropout, const ScoreTerms& terms) {
  const CpuKernels& kernels = cpu_kernels(q);
  Tensor output = torch::empty_like(q);
  Tensor lse = torch::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(torch::kFloat32));
  if (q.numel() == 0) return {output, lse};
  Problems problems(q, k, scale, window, offsets, dropout, terms);
  run_forward(problems, kernels, q, k, v, {output, lse});
  return {output, lse};
}

// lse holds one sequence after the other.
Tensor gradient_of_sinks(const Tensor& sinks, const Tensor& output_gradient, const Tensor& output,
                         const Tensor& lse, const std::vector<int64_t>& offsets) {
  if (offsets.empty()) return ops::gradient_of_sinks(sinks, output_gradient, output, lse);
  const Tensor delta =
      (output_gradient.to(torch::kFloat32) * output.to(torch::kFloat32)).sum(-1);  // [B, S, H]
  Tensor total = torch::zeros_like(sinks);
  const int64_t heads = sinks.size(0);
  const Tensor flat = lse.view(-1);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const Tensor of_sequence =
        flat.slice(0, offsets[i] * heads, offsets[i + 1] * heads).view({1, heads, -1});
    total += sink_gradient(sinks, delta.slice(1, offsets[i], offsets[i + 1]), of_sequence);
  }
  return total;
}

std::array<Tensor, 4> backward(const Tensor& output_gradient, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& output, const Tensor& lse,
                               double scale, int64_t window, const std::vector<int64_t>& offsets,
                               const Dropout& dropout, const ScoreTerms& terms) {
  const CpuKernels& kernels = cpu_kernels(q);
  const Tensor dq = torch::empty_like(q), dk = torch::empty_like(k), dv = torch::empty_like(v);
  Tensor d_sinks;
  if (terms.sinks.defined())
    d_sinks = gradient_of_sinks(terms.sinks, output_gradient, output, lse, offsets);
  if (q.numel() == 0) return {dq, dk, dv, d_sinks};
  Problems problems(q, k, scale, window, offsets, dropout, terms);
  run_backward(problems, kernels, output_gradient, q, k, v, {output, lse}, {dq, dk, dv});
  return {dq, dk, dv, d_sinks};
}

// --- in parts ------------------------------------------------------------------------------------

void meet_blocks(AttentionSums& sums, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<AttentionBlock>& blocks, const PartAttention& attention) {
  Problems problems(q, k, blocks, attention);
  run_forward(problems, cpu_kernels(q), q, k, v, sums);
}

void add_block_gradients(AttentionGradients& gradients, const Tensor& output_gradient,
                         const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
                         const Tensor& lse, const std::vector<AttentionBlock>& blocks,
                         const PartAttention& attention) {
  Problems problems(q, k, blocks, attention);
  run_backward(problems, cpu_kernels(q), output_gradient, q, k, v, {output, lse}, gradients);
}

}  // namespace

const AttentionImpl kAttentionCpu{forward, backward, meet_blocks, add_block_gradients};

}  // namespace sftbench::ops
