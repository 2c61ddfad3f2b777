// The scan from stock operators, one chunk after the other. The backward goes through the chunks in
// reverse and differentiates each one's own forward, so it holds the graph of one chunk only.
#include "ops/state_space_scan_impl.h"

#include <algorithm>

#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

struct ScanChunk {
  int64_t begin, end;  // positions
  bool starts, ends;   // a sequence
};

std::vector<ScanChunk> scan_chunks(const ScanInputs& in) {
  const std::vector<int64_t> ends =
      in.offsets.empty() ? std::vector<int64_t>{0, in.x.size(1)} : in.offsets;
  std::vector<ScanChunk> chunks;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    for (int64_t begin = ends[i]; begin < ends[i + 1]; begin += kScanChunk) {
      const int64_t end = std::min(begin + kScanChunk, ends[i + 1]);
      chunks.push_back({begin, end, begin == ends[i], end == ends[i + 1]});
    }
  }
  return chunks;
}

// x, dt, a, b, c, d and the state before it, all in the wide dtype: [B, L, H, P], [B, L, H], [H],
// [B, L, G, N] twice, [H], [B, H, N, P].
variable_list inputs_of(const ScanInputs& in, const ScanChunk& chunk, const Tensor& state) {
  const auto part = [&](const Tensor& tensor) {
    return tensor.slice(1, chunk.begin, chunk.end).to(wide_dtype(in.x));
  };
  return {part(in.x), part(in.dt), in.a, part(in.b), part(in.c), in.d, state};
}

// [B, L, G, N] as [B, H, L, N]
Tensor by_head(const Tensor& of_groups, int64_t heads) {
  return of_groups.permute({0, 2, 1, 3}).repeat_interleave(heads / of_groups.size(2), 1);
}

// {y [B, L, H, P], the state behind it}
std::pair<Tensor, Tensor> scan_chunk(const variable_list& in) {
  const Tensor x = in[0].permute({0, 2, 1, 3});  // [B, H, L, P]
  const Tensor dt = in[1].permute({0, 2, 1});    // [B, H, L]
  const int64_t heads = x.size(1), length = x.size(2);
  const Tensor b = by_head(in[3], heads), c = by_head(in[4], heads);
  // In float64: differences of sums lose what the sums have in common.
  const Tensor sums = (dt * in[2].view({-1, 1})).to(torch::kFloat64).cumsum(-1);
  const Tensor later = torch::ones({length, length}, in[2].options().dtype(torch::kBool)).triu(1);
  const Tensor decay = (sums.unsqueeze(-1) - sums.unsqueeze(-2))
                           .masked_fill(later, -std::numeric_limits<double>::infinity())
                           .exp()
                           .to(x.scalar_type());
  const Tensor fed = x * dt.unsqueeze(-1);
  const Tensor within = at::matmul(at::matmul(c, b.transpose(-1, -2)) * decay, fed);
  const Tensor before = at::matmul(c * sums.exp().to(x.scalar_type()).unsqueeze(-1), in[6]);
  const Tensor y = within + before + x * in[5].view({-1, 1, 1});
  const Tensor last = sums.slice(-1, length - 1);  // [B, H, 1]
  const Tensor left = b * (last - sums).exp().to(x.scalar_type()).unsqueeze(-1);
  const Tensor kept = in[6] * last.exp().to(x.scalar_type()).unsqueeze(-1);
  const Tensor state = kept + at::matmul(left.transpose(-1, -2), fed);
  return {y.permute({0, 2, 1, 3}), state};
}

std::pair<Tensor, Tensor> forward(const ScanInputs& in, bool keeps_states) {
  const Tensor zero = torch::zeros({in.x.size(0), in.x.size(2), in.b.size(3), in.x.size(3)},
                                   in.x.options().dtype(wide_dtype(in.x)));
  Tensor y = torch::empty(in.x.sizes(), in.x.options());
  variable_list states;
  Tensor state = zero;
  for (const ScanChunk& chunk : scan_chunks(in)) {
    if (chunk.starts) state = zero;
    if (keeps_states) states.push_back(state);
    const auto [chunk_y, next] = scan_chunk(inputs_of(in, chunk, state));
    y.slice(1, chunk.begin, chunk.end).copy_(chunk_y);
    state = next;
  }
  return {y, states.empty() ? Tensor() : torch::stack(states)};
}

ScanGradients backward(const Tensor& y_gradient, const ScanInputs& in, const Tensor& states) {
  const auto wide = wide_dtype(in.x);
  ScanGradients found{torch::zeros(in.x.sizes(), in.x.options()),
                      torch::zeros(in.b.sizes(), in.b.options()),
                      torch::zeros(in.c.sizes(), in.c.options()),
                      torch::zeros(in.dt.sizes(), in.dt.options()),
                      torch::zeros_like(in.a),
                      torch::zeros_like(in.d)};
  const std::vector<ScanChunk> chunks = scan_chunks(in);
  Tensor state_gradient;
  for (size_t i = chunks.size(); i-- > 0;) {
    const ScanChunk& chunk = chunks[i];
    if (chunk.ends) state_gradient = torch::zeros_like(states[0]);
    const torch::AutoGradMode records(true);
    variable_list leaves;
    for (const Tensor& input : inputs_of(in, chunk, states[static_cast<int64_t>(i)])) {
      leaves.push_back(input.detach().requires_grad_());
    }
    const auto [y, next] = scan_chunk(leaves);
    const variable_list gradients = torch::autograd::grad(
        {y, next}, leaves, {y_gradient.slice(1, chunk.begin, chunk.end).to(wide), state_gradient});
    const torch::NoGradGuard no_grad;
    const auto place = [&](const Tensor& whole, const Tensor& part) {
      whole.slice(1, chunk.begin, chunk.end).copy_(part);
    };
    place(found.x, gradients[0]);
    place(found.dt, gradients[1]);
    found.a += gradients[2];
    place(found.b, gradients[3]);
    place(found.c, gradients[4]);
    found.d += gradients[5];
    state_gradient = gradients[6];
  }
  return found;
}

}  // namespace

const ScanImpl kScanAten{forward, backward};

}  // namespace sftbench::ops
