// The state-space scan on GPUs: products of the library over all chunks at once, whose operands are
// of x's dtype and whose sums are float32 (as mamba_ssm's kernels have it), and scan_kernels.h
// between them. The matrices of positions by positions are made for some chunks at a time.
#include <algorithm>

#include "ops/cuda/scan_kernels.h"
#include "ops/gemm.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// Of the matrices of positions by positions that are there at once, in float32.
constexpr int64_t kMostMixBytes = int64_t{64} << 20;

unsigned blocks_for(int64_t tasks, int threads) {
  return static_cast<unsigned>((tasks + threads - 1) / threads);
}

template <class T>
class Scan {
 public:
  explicit Scan(const ScanInputs& in)
      : in_(in),
        rows_(in.x.size(0)),
        shape_{in.x.size(1),
               (in.x.size(1) + kScanPositions - 1) / kScanPositions,
               static_cast<int>(in.x.size(2)),
               static_cast<int>(in.b.size(2)),
               static_cast<int>(in.x.size(3)),
               static_cast<int>(in.b.size(3)),
               sequence_starts(in.cumulative)},
        chunks_(rows_ * shape_.chunks),
        times_(new_tensor({chunks_, kScanPositions, shape_.heads}, torch::kFloat64)),
        fed_(wide({chunks_, kScanPositions, shape_.heads})),
        grown_(wide({chunks_, kScanPositions, shape_.heads})),
        carry_(wide({chunks_, shape_.heads})),
        decays_{times_.template data_ptr<double>(), floats(fed_), floats(grown_), floats(carry_)},
        b_(chunked(in.b)),
        c_(chunked(in.c)) {
    launch_kernel(find_decays, by_chunk_and_head(), shape_, floats(in.dt), floats(in.a), decays_);
    scores_ = wide_batched_matmul(c_, b_.transpose(1, 2));
    slice_ = std::clamp<int64_t>(
        kMostMixBytes / (shape_.heads * kScanPositions * kScanPositions * int64_t{sizeof(float)}),
        1, chunks_);
  }

  std::pair<Tensor, Tensor> forward() {
    const Operand x = spread(in_.x, in_.x.stride(1), fed_);
    const Tensor states = wide_batched_matmul(b_.transpose(1, 2), x.by_group);
    const Tensor narrow = pass(states, /*backward=*/false);
    Tensor y = torch::empty(in_.x.sizes(), in_.x.options());
    const Tensor mix = new_tensor({slice_ * shape_.heads, kScanPositions, kScanPositions});
    for_each_slice([&](int64_t first, int64_t count) {
      launch_kernel(mix_positions<T>, by_head(count, kMixThreads), shape_, first, decays_.times,
                    floats(in_.dt), floats(in_.a), floats(scores_), mix.data_ptr<T>());
      const Tensor within = wide_batched_matmul(mix.narrow(0, 0, count * shape_.heads),
                                                of_heads(x.by_head, first, count));
      const Tensor before =
          wide_batched_matmul(of_groups(c_, first, count), of_groups(narrow, first, count));
      const int64_t tasks = count * kScanPositions * shape_.heads * shape_.dim;
      launch_kernel(sum_outputs<T>, {blocks_for(tasks, kResultThreads), kResultThreads}, shape_,
                    first, count, in_.x.data_ptr<T>(), in_.x.stride(1), floats(in_.d),
                    decays_.grown, floats(within), floats(before), y.data_ptr<T>());
    });
    return {y, states};
  }

  ScanGradients backward(const Tensor& dy_any, const Tensor& states) {
    const Tensor dy = dy_any.contiguous();
    const Operand x = spread(in_.x, in_.x.stride(1), fed_);
    const Operand y = spread(dy, int64_t{shape_.heads} * shape_.dim, grown_);
    const Tensor narrow = states.to(in_.x.scalar_type());
    const Tensor d_states = wide_batched_matmul(c_.transpose(1, 2), y.by_group);
    const Tensor d_narrow = pass(d_states, /*backward=*/true);
    const Tensor state_dots = wide({chunks_, shape_.heads});
    launch_kernel(multiply_states, by_head(chunks_, kStateThreads), shape_, floats(states),
                  floats(d_states), floats(state_dots));

    const Tensor step = wide(fed_.sizes()), log_decay = wide(fed_.sizes());
    const Tensor rate = wide({chunks_, shape_.heads});
    const ScanSums sums{floats(step), floats(log_decay), floats(rate)};
    const Tensor fed_dots = wide(fed_.sizes()), grown_dots = wide(fed_.sizes());
    const Tensor skip_dots = wide(fed_.sizes());
    const ScanDots dots{floats(fed_dots), floats(grown_dots), floats(skip_dots)};
    const int parts = parts_of_groups();
    const Tensor score_parts =
        wide({parts, chunks_ * shape_.groups, kScanPositions, kScanPositions});
    Tensor dx = torch::empty(in_.x.sizes(), in_.x.options());
    const Tensor mix = new_tensor({slice_ * shape_.heads, kScanPositions, kScanPositions});
    for_each_slice([&](int64_t first, int64_t count) {
      const Tensor d_within = of_heads(y.by_head, first, count);
      const Tensor d_mix =
          wide_batched_matmul(d_within, of_heads(x.by_head, first, count).transpose(1, 2));
      launch_kernel(
          differentiate_mix<T>,
          {dim3(static_cast<unsigned>(count), static_cast<unsigned>(shape_.groups * parts)),
           kMixThreads},
          shape_, first, chunks_, parts, decays_.times, floats(in_.dt), floats(in_.a),
          floats(scores_), floats(d_mix), mix.data_ptr<T>(), floats(score_parts), sums);
      const Tensor within =
          wide_batched_matmul(mix.narrow(0, 0, count * shape_.heads).transpose(1, 2), d_within);
      const Tensor behind =
          wide_batched_matmul(of_groups(b_, first, count), of_groups(d_narrow, first, count));
      const Tensor before =
          wide_batched_matmul(of_groups(c_, first, count), of_groups(narrow, first, count));
      const int64_t warps = count * kScanPositions * shape_.heads;
      launch_kernel(sum_gradients<T>,
                    {blocks_for(warps, kResultThreads / kWarpThreads), kResultThreads}, shape_,
                    first, count, in_.x.data_ptr<T>(), in_.x.stride(1), dy.data_ptr<T>(),
                    floats(in_.d), decays_.fed, floats(within), floats(behind), floats(before),
                    dx.data_ptr<T>(), dots);
    });

    const Tensor d_scores = score_parts.sum(0).to(in_.x.scalar_type());
    const Tensor db = wide_batched_matmul(d_scores.transpose(1, 2), c_)
                          .add_(wide_batched_matmul(x.by_group, d_narrow.transpose(1, 2)));
    const Tensor dc = wide_batched_matmul(d_scores, b_)
                          .add_(wide_batched_matmul(y.by_group, narrow.transpose(1, 2)));
    const Tensor d_dt = torch::empty(in_.dt.sizes(), in_.dt.options());
    const Tensor d_rates = wide({chunks_, shape_.heads}), d_skips = wide({chunks_, shape_.heads});
    launch_kernel(sum_steps, by_chunk_and_head(), shape_, floats(in_.a), decays_, sums, dots,
                  floats(state_dots), floats(d_dt), floats(d_rates), floats(d_skips));
    return {dx, in_rows(db), in_rows(dc), d_dt, d_rates.sum(0), d_skips.sum(0)};
  }

 private:
  // Rows as products take them.
  struct Operand {
    Tensor by_head;   // [K * H, Q, P]
    Tensor by_group;  // [K * G, Q, M * P], scaled by position
  };

  static float* floats(const Tensor& tensor) { return tensor.template data_ptr<float>(); }

  Tensor new_tensor(at::IntArrayRef sizes, torch::Dtype dtype) const {
    return torch::empty(sizes, in_.x.options().dtype(dtype));
  }
  Tensor new_tensor(at::IntArrayRef sizes) const { return new_tensor(sizes, in_.x.scalar_type()); }
  Tensor wide(at::IntArrayRef sizes) const { return new_tensor(sizes, torch::kFloat32); }

  LaunchShape by_chunk_and_head() const {
    return {dim3(static_cast<unsigned>(chunks_), blocks_for(shape_.heads, kDecayThreads)),
            kDecayThreads};
  }
  LaunchShape by_head(int64_t chunks, int threads) const {
    return {dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(shape_.heads)),
            static_cast<unsigned>(threads)};
  }

  // [B, S, G, N] as [K * G, Q, N]. A copy only of what no stride can describe.
  Tensor chunked(const Tensor& of_rows) const {
    const int64_t groups = of_rows.size(2), state = of_rows.size(3);
    Tensor whole = of_rows;
    if (shape_.length % kScanPositions != 0) {
      whole = of_rows.new_zeros({rows_, shape_.chunks * kScanPositions, groups, state});
      whole.narrow(1, 0, shape_.length).copy_(of_rows);
    }
    return whole.reshape({chunks_, kScanPositions, groups, state})
        .permute({0, 2, 1, 3})
        .reshape({chunks_ * groups, kScanPositions, state});
  }

  // The inverse of `chunked`, in x's dtype.
  Tensor in_rows(const Tensor& of_chunks) const {
    return of_chunks.reshape({chunks_, shape_.groups, kScanPositions, shape_.state})
        .to(in_.x.scalar_type())
        .permute({0, 2, 1, 3})
        .reshape({rows_, shape_.chunks * kScanPositions, shape_.groups, shape_.state})
        .narrow(1, 0, shape_.length);
  }

  Operand spread(const Tensor& x, int64_t stride, const Tensor& factors) const {
    const int64_t members = shape_.group_heads();
    Operand out{new_tensor({chunks_ * shape_.heads, kScanPositions, shape_.dim}),
                new_tensor({chunks_ * shape_.groups, kScanPositions, members * shape_.dim})};
    const auto launch = [&](auto count) {
      const int64_t tasks = chunks_ * kScanPositions * shape_.heads * (shape_.dim / count.value);
      launch_kernel(spread_rows<T, count.value>,
                    {blocks_for(tasks, kSpreadThreads), kSpreadThreads}, shape_, chunks_,
                    x.data_ptr<T>(), stride, floats(factors), out.by_head.template data_ptr<T>(),
                    out.by_group.template data_ptr<T>());
    };
    takes_packs<T>(shape_.dim, {x.data_ptr()}) && stride % kPackCount<T> == 0
        ? launch(std::integral_constant<int, kPackCount<T>>())
        : launch(std::integral_constant<int, 1>());
    return out;
  }

  // Goes from chunk to chunk in place, and returns the states in x's dtype.
  Tensor pass(const Tensor& states, bool backward) const {
    constexpr bool kNarrows = !std::is_same_v<T, float>;
    const Tensor narrow = kNarrows ? new_tensor(states.sizes()) : states;
    const int64_t numel = int64_t{shape_.heads} * shape_.state * shape_.dim;
    launch_kernel(
        pass_states<T>,
        {dim3(blocks_for(numel, kStateThreads), static_cast<unsigned>(rows_)), kStateThreads},
        shape_, decays_.carry, backward, floats(states), kNarrows ? narrow.data_ptr<T>() : nullptr);
    return narrow;
  }

  // body(first chunk, number of chunks)
  template <class Body>
  void for_each_slice(const Body& body) const {
    for (int64_t first = 0; first < chunks_; first += slice_)
      body(first, std::min(slice_, chunks_ - first));
  }
  Tensor of_heads(const Tensor& tensor, int64_t first, int64_t count) const {
    return tensor.narrow(0, first * shape_.heads, count * shape_.heads);
  }
  Tensor of_groups(const Tensor& tensor, int64_t first, int64_t count) const {
    return tensor.narrow(0, first * shape_.groups, count * shape_.groups);
  }

  // Into how many parts the heads of a group are divided, so that there are blocks for all
  // multiprocessors. Each part's gradients of scores are summed up by itself.
  int parts_of_groups() const {
    const int64_t blocks = slice_ * shape_.groups, wanted = int64_t{2} * multiprocessors();
    return static_cast<int>(
        std::clamp<int64_t>((wanted + blocks - 1) / blocks, 1, shape_.group_heads()));
  }

  const ScanInputs& in_;
  int64_t rows_;
  ScanShape shape_;
  int64_t chunks_;  // K
  Tensor times_, fed_, grown_, carry_;
  ScanDecays decays_;
  Tensor b_, c_;   // [K * G, Q, N]
  Tensor scores_;  // [K * G, Q, Q]
  int64_t slice_ = 1;
};

std::pair<Tensor, Tensor> forward(const ScanInputs& in, bool) {
  const DeviceScope scope(in.x);
  std::pair<Tensor, Tensor> found;
  for_kernel_type(in.x, [&](auto zero) { found = Scan<decltype(zero)>(in).forward(); });
  return found;
}

ScanGradients backward(const Tensor& y_gradient, const ScanInputs& in, const Tensor& states) {
  const DeviceScope scope(in.x);
  ScanGradients found;
  for_kernel_type(
      in.x, [&](auto zero) { found = Scan<decltype(zero)>(in).backward(y_gradient, states); });
  return found;
}

}  // namespace

const ScanImpl kScanCuda{forward, backward};

}  // namespace sftbench::ops
