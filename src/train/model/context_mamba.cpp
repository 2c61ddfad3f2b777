// Shapes: B batch, S this rank's positions, L those of a chunk, C channels, R ranks; of the scan, H
// heads in G groups, P head, N state.
#include "model/context_mamba.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/ops/state_space_scan.h"

namespace sftbench {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// own -> [R, ...]: the same of every rank. Its backward sums what ranks made of a rank's own.
class Gathered : public torch::autograd::Function<Gathered> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& own, int64_t group_address) {
    ctx->saved_data["group"] = group_address;
    auto& group = *reinterpret_cast<ContextGroup*>(group_address);
    std::vector<int64_t> sizes = own.sizes().vec();
    sizes.insert(sizes.begin(), group.size());
    const Tensor all = torch::empty(sizes, own.options().requires_grad(false));
    group.all_gather(all, own.contiguous())();
    return all;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    auto& group = *reinterpret_cast<ContextGroup*>(ctx->saved_data["group"].toInt());
    const Tensor all = gradients[0].clone(at::MemoryFormat::Contiguous);
    const Tensor own = torch::empty(all.sizes().slice(1), all.options());
    group.reduce_scatter(own, all)();
    return {own, Tensor()};
  }
};

Tensor gathered(const ContextPart& part, const Tensor& own) {
  return Gathered::apply(own, reinterpret_cast<int64_t>(part.group));
}

// x as it is, but backward passes come to `gathered` on every rank, also on those that use none of
// it: its gradient is a collective operation.
Tensor reaching(const Tensor& x, const Tensor& gathered) {
  return x + (gathered.flatten()[0] * 0).to(x.scalar_type());
}

// A chunk's place among all, and back.
struct Chunks {
  const ContextLayout& layout;
  int64_t rank;

  int64_t index(int64_t half) const {
    return layout.chunk_begin(rank, half) / layout.chunk_length();
  }
  std::pair<int64_t, int64_t> holder(int64_t chunk) const {  // {rank, half}
    const int64_t ranks = layout.ranks();
    return chunk < ranks ? std::pair{chunk, int64_t{0}}
                         : std::pair{ContextLayout::kHalves * ranks - 1 - chunk, int64_t{1}};
  }
  const std::vector<RowSegment>& segments(int64_t chunk) const {
    const auto [of, half] = holder(chunk);
    return layout.segments(of, half);
  }
};

Chunks chunks_of(const ContextPart& part) {
  return {part.layout, part.group->rank()};
}

// Of sequences that each begin anew in [half 0, half 1] or have `before` further positions in front
// of each half.
ops::PackedSequences own_sequences(const Chunks& chunks, int64_t before, torch::Device device) {
  std::vector<int64_t> lengths;
  for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
    bool first = true;
    for (const RowSegment& segment : chunks.layout.segments(chunks.rank, half)) {
      lengths.push_back(segment.length + (first ? before : 0));
      first = false;
    }
  }
  return ops::packed_sequences(lengths, device);
}

// [B, positions of half 0 then half 1, ...]: the two halves as rows of their own where there are
// several rows, which hold a sequence each; else as one row of several sequences.
struct OwnRows {
  Tensor rows;
  ops::PackedSequences packed;
};

OwnRows rows_of(const Tensor& x, const Chunks& chunks, int64_t before) {
  if (x.size(0) == 1) return {x, own_sequences(chunks, before, x.device())};
  return {x.unflatten(1, std::vector<int64_t>{ContextLayout::kHalves, -1}).flatten(0, 1), {}};
}

Tensor back(const Tensor& rows, int64_t batch) {
  return rows.size(0) == batch
             ? rows
             : rows.unflatten(0, std::vector<int64_t>{batch, ContextLayout::kHalves}).flatten(1, 2);
}

// --- convolution ---------------------------------------------------------------------------------

// The `count` positions before chunk `chunk`, zeros where its sequence has none: [B, count, C].
// ends [R, B, halves, n, C]: the last positions of all chunks.
Tensor positions_before(const Chunks& chunks, int64_t chunk, int64_t count, const Tensor& ends) {
  const int64_t wanted = std::min(count, chunks.segments(chunk).front().position);
  std::vector<Tensor> pieces;
  int64_t found = 0;
  for (int64_t earlier = chunk - 1; found < wanted; --earlier) {
    const auto [rank, half] = chunks.holder(earlier);
    const Tensor end = ends[rank].select(1, half);
    const int64_t taken = std::min(wanted - found, end.size(1));
    pieces.push_back(end.slice(1, end.size(1) - taken));
    found += taken;
  }
  const auto sizes = std::vector<int64_t>{ends.size(1), count - wanted, ends.size(4)};
  pieces.push_back(torch::zeros(sizes, ends.options()));
  std::reverse(pieces.begin(), pieces.end());
  return torch::cat(pieces, 1);
}

// --- scan ----------------------------------------------------------------------------------------

struct ScanParts {
  Tensor x, dt, a, b, c;  // x [B, S, H, P], dt [B, S, H], a [H], b and c [B, S, G, N]

  int64_t groups() const { return b.size(2); }
  Tensor wide(const Tensor& tensor) const {
    return tensor.to(torch::promote_types(x.scalar_type(), torch::kFloat32));
  }
  // [B, n, H, P] as [B, G, n, heads of a group x P].
  Tensor by_group(const Tensor& of_heads) const {
    return of_heads.unflatten(2, std::vector<int64_t>{groups(), -1})
        .permute({0, 2, 1, 3, 4})
        .flatten(3);
  }
};

// The logarithm of how much of the state before chunk `half` is left behind each of its positions:
// [B, L, H]. In float64: differences of sums lose what the sums have in common.
Tensor decay_sums(const ScanParts& in, const ContextLayout& layout, int64_t half) {
  const Tensor dt = in.dt.narrow(1, half * layout.chunk_length(), layout.chunk_length());
  return (dt.to(torch::kFloat64) * in.a.to(torch::kFloat64)).cumsum(1);
}

// What the chunk's last sequence adds to the state behind it, [B, G, N, heads of a group x P].
Tensor added_state(const ScanParts& in, const ContextLayout& layout, int64_t rank, int64_t half,
                   const Tensor& sums) {
  const RowSegment& last = layout.segments(rank, half).back();
  const int64_t first = half * layout.chunk_length() + last.begin;
  const auto own = [&](const Tensor& of_row) { return of_row.narrow(1, first, last.length); };
  const Tensor left = (sums.slice(1, -1) - sums.narrow(1, last.begin, last.length)).exp();
  const Tensor weights = in.wide(left * own(in.dt).to(torch::kFloat64)).unsqueeze(-1);
  const Tensor fed = in.by_group(in.wide(own(in.x)) * weights);
  return at::matmul(in.wide(own(in.b)).permute({0, 2, 3, 1}), fed);
}

// What the state before the chunk adds to its first sequence: [B, L, H, P].
Tensor added_output(const ScanParts& in, const ContextLayout& layout, int64_t rank, int64_t half,
                    const Tensor& sums, const Tensor& state) {
  const int64_t begin = half * layout.chunk_length();
  const int64_t length = layout.segments(rank, half).front().length;
  const Tensor c = in.wide(in.c.narrow(1, begin, length)).permute({0, 2, 1, 3});  // [B, G, n, N]
  const Tensor seen = at::matmul(c, state)
                          .unflatten(3, std::vector<int64_t>{-1, in.x.size(3)})
                          .permute({0, 2, 1, 3, 4})
                          .flatten(2, 3);  // [B, n, H, P]
  const Tensor added = seen * in.wide(sums.narrow(1, 0, length).exp()).unsqueeze(-1);
  std::vector<int64_t> rest = added.sizes().vec();
  rest[1] = layout.chunk_length() - length;
  return torch::cat({added, torch::zeros(rest, added.options())}, 1);
}

// States of chunks, as they are gathered.
struct ChunkStates {
  Tensor added;  // [R, halves, B, G, N, heads of a group x P]
  Tensor decay;  // [R, halves, B, H]: what is left of a state behind the whole chunk

  // decay by element of `added`: [B, G, 1, heads of a group x P]
  Tensor decay_of(int64_t rank, int64_t half) const {
    const Tensor one = decay[rank][half];
    const int64_t groups = added.size(3), heads = one.size(1) / groups;
    return one.view({one.size(0), groups, 1, heads, 1})
        .expand({-1, -1, -1, -1, added.size(5) / heads})
        .flatten(3);
  }

  // Before chunk `chunk`, whose first sequence has begun before it.
  Tensor before(const Chunks& chunks, int64_t chunk) const {
    Tensor state;
    for (int64_t earlier = 0; earlier < chunk; ++earlier) {
      const auto [rank, half] = chunks.holder(earlier);
      const std::vector<RowSegment>& segments = chunks.segments(earlier);
      const bool goes_on = segments.size() == 1 && segments.front().position > 0;
      state = goes_on ? state * decay_of(rank, half) + added[rank][half] : added[rank][half];
    }
    return state;
  }
};

}  // namespace

Tensor context_convolution(const ContextPart& part, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, ops::ConvolutionActivation activation) {
  const Chunks chunks = chunks_of(part);
  const int64_t before = weight.size(-1) - 1, length = part.layout.chunk_length();
  const Tensor halves =
      x.unflatten(1, std::vector<int64_t>{ContextLayout::kHalves, -1});  // [B, 2, L, C]
  const Tensor ends =
      gathered(part, halves.slice(2, length - std::min(before, length)).contiguous());
  std::vector<Tensor> pieces;
  for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
    pieces.push_back(positions_before(chunks, chunks.index(half), before, ends));
    pieces.push_back(halves.select(1, half));
  }
  const OwnRows own = rows_of(torch::cat(pieces, 1), chunks, before);
  const Tensor y =
      back(ops::causal_convolution(own.rows.contiguous(), weight, bias, activation, own.packed),
           x.size(0));
  const Tensor kept =
      y.unflatten(1, std::vector<int64_t>{ContextLayout::kHalves, -1}).slice(2, before);
  return reaching(kept.flatten(1, 2), ends);
}

Tensor context_scan(const ContextPart& part, const Tensor& x, const Tensor& dt, const Tensor& a,
                    const Tensor& b, const Tensor& c, const Tensor& d) {
  const Chunks chunks = chunks_of(part);
  const ContextLayout& layout = part.layout;
  const ScanParts in{x, dt, a, b, c};
  std::vector<Tensor> sums, added, decays;
  for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
    sums.push_back(decay_sums(in, layout, half));
    added.push_back(added_state(in, layout, chunks.rank, half, sums.back()));
    decays.push_back(in.wide(sums.back().select(1, -1).exp()));
  }
  // One exchange for both.
  const Tensor own_added = torch::stack(added), own_decays = torch::stack(decays);
  const Tensor all = gathered(part, torch::cat({own_added.flatten(2), own_decays}, 2));
  const int64_t numel = own_added[0][0].numel();
  const std::vector<int64_t> sizes = own_added.sizes().slice(2).vec();
  const ChunkStates states{all.slice(3, 0, numel).unflatten(3, sizes), all.slice(3, numel)};

  const auto rows = [&](const Tensor& tensor) { return rows_of(tensor, chunks, 0); };
  const OwnRows own = rows(x);
  const Tensor y = back(
      ops::state_space_scan(own.rows, rows(dt).rows, a, rows(b).rows, rows(c).rows, d, own.packed),
      x.size(0));
  std::vector<Tensor> more;
  for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
    const int64_t chunk = chunks.index(half);
    if (chunks.segments(chunk).front().position == 0) {
      std::vector<int64_t> half_sizes = x.sizes().vec();
      half_sizes[1] = layout.chunk_length();
      more.push_back(torch::zeros(half_sizes, own_added.options().requires_grad(false)));
    } else {
      more.push_back(added_output(in, layout, chunks.rank, half, sums[static_cast<size_t>(half)],
                                  states.before(chunks, chunk)));
    }
  }
  return reaching((in.wide(y) + torch::cat(more, 1)).to(x.scalar_type()), all);
}

}  // namespace sftbench
