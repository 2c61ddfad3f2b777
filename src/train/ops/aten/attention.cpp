// Attention from stock operators: a tile of queries of all query heads of one key/value head
// against all keys that the tile sees. Memory: tile x keys scores, never S x S.
#include <algorithm>

#include "ops/attention_impl.h"
#include "ops/dropout_mask.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kQueryTile = 128;

struct Tile {
  int64_t q_begin, q_end, k_begin, k_end;
};

Tile tile_at(int64_t begin, int64_t length, int64_t window) {
  const int64_t end = std::min(begin + kQueryTile, length);
  return {begin, end, window > 0 ? std::max<int64_t>(0, begin - window + 1) : 0, end};
}

// [tile queries, keys]: true where the query must not see the key.
Tensor hidden_keys(const Tile& tile, int64_t window, torch::Device device) {
  const Tensor i = torch::arange(tile.q_begin, tile.q_end, device).unsqueeze(1);
  const Tensor j = torch::arange(tile.k_begin, tile.k_end, device).unsqueeze(0);
  const Tensor future = j > i;
  return window > 0 ? future | (i - j >= window) : future;
}

// x [B, S, heads, D] as [B, K, heads / K, S, D] in the dtype of the arithmetic.
Tensor grouped(const Tensor& x, int64_t kv_heads) {
  return x.to(wide_dtype(x))
      .unflatten(2, std::vector<int64_t>{kv_heads, x.size(2) / kv_heads})
      .permute({0, 2, 3, 1, 4});
}

Tensor ungrouped(const Tensor& x, torch::Dtype dtype) {
  return x.permute({0, 3, 1, 2, 4}).flatten(2, 3).to(dtype).contiguous();
}

// [K, heads / K, 1]
Tensor by_group(const Tensor& of_heads, const Tensor& q_tile) {
  return of_heads.view({q_tile.size(1), q_tile.size(2), 1});
}

Tensor scores_of(const Tensor& q_tile, const Tensor& k_tile, const Tile& tile, double scale,
                 int64_t window, const ScoreTerms& terms) {
  Tensor scores = at::matmul(q_tile, k_tile.transpose(-1, -2)) * scale;
  if (terms.cap > 0) scores.div_(terms.cap).tanh_().mul_(terms.cap);
  if (terms.slopes.defined()) {
    const Tensor i = torch::arange(tile.q_begin, tile.q_end, scores.options()).unsqueeze(1);
    const Tensor j = torch::arange(tile.k_begin, tile.k_end, scores.options()).unsqueeze(0);
    scores += (j - i) * by_group(terms.slopes, q_tile).unsqueeze(-1);
  }
  return scores.masked_fill_(hidden_keys(tile, window, q_tile.device()),
                             -std::numeric_limits<double>::infinity());
}

// Gradients of scores before the cap, of those behind it. Of hidden ones, whose score is infinite,
// they are 0. Slopes, which would stand in the way, come with no cap.
Tensor before_cap(const Tensor& gradient, const Tensor& scores, double cap) {
  return cap > 0 ? gradient * (1 - (scores / cap).square()).clamp_min_(0) : gradient;
}

// Which probabilities of a tile are kept, as [B, K, heads / K, queries, keys]; undefined: all are.
class Kept {
 public:
  // Rows of q that begin at `first_position` of theirs, which have `row_length` positions.
  Kept(const Dropout& dropout, const Tensor& q, int64_t kv_heads, int64_t first_position,
       int64_t row_length)
      : dropout_(dropout),
        place_{q.size(0), q.size(2), row_length, first_position, 0, 0, 0, 0},
        groups_{kv_heads, q.size(2) / kv_heads},
        options_(q.options().dtype(wide_dtype(q))) {}

  Tensor of(const Tile& tile) const {
    if (dropout_.probability == 0) return {};
    DropoutTile place = place_;
    place.q_begin = tile.q_begin;
    place.q_end = tile.q_end;
    place.k_begin = tile.k_begin;
    place.k_end = tile.k_end;
    return kept_keys(dropout_, place, options_).unflatten(1, groups_);
  }

 private:
  Dropout dropout_;
  DropoutTile place_;
  std::vector<int64_t> groups_;
  torch::TensorOptions options_;
};

Tensor times(const Tensor& x, const Tensor& kept) {
  return kept.defined() ? x * kept : x;
}

std::pair<Tensor, Tensor> forward_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                                       double scale, int64_t window, const Kept& kept,
                                       const ScoreTerms& terms) {
  const int64_t length = q.size(1);
  const Tensor qs = grouped(q, k.size(2)), ks = grouped(k, k.size(2)), vs = grouped(v, k.size(2));
  Tensor output = torch::empty(qs.sizes(), qs.options());
  Tensor lse = torch::empty(qs.sizes().slice(0, 4), qs.options());
  for (int64_t begin = 0; begin < length; begin += kQueryTile) {
    const Tile tile = tile_at(begin, length, window);
    const Tensor scores =
        scores_of(qs.slice(3, tile.q_begin, tile.q_end), ks.slice(3, tile.k_begin, tile.k_end),
                  tile, scale, window, terms);
    Tensor tile_lse = scores.logsumexp(-1);
    if (terms.sinks.defined()) tile_lse = at::logaddexp(tile_lse, by_group(terms.sinks, qs));
    lse.slice(3, tile.q_begin, tile.q_end).copy_(tile_lse);
    output.slice(3, tile.q_begin, tile.q_end)
        .copy_(at::matmul(times((scores - tile_lse.unsqueeze(-1)).exp_(), kept.of(tile)),
                          vs.slice(3, tile.k_begin, tile.k_end)));
  }
  return {ungrouped(output, q.scalar_type()), lse.flatten(1, 2)};
}

std::array<Tensor, 4> backward_rows(const Tensor& output_gradient, const Tensor& q, const Tensor& k,
                                    const Tensor& v, const Tensor& output, const Tensor& lse,
                                    double scale, int64_t window, const Kept& kept,
                                    const ScoreTerms& terms) {
  const int64_t length = q.size(1), kv_heads = k.size(2);
  const Tensor qs = grouped(q, kv_heads), ks = grouped(k, kv_heads), vs = grouped(v, kv_heads);
  const Tensor d_out = grouped(output_gradient, kv_heads);
  const Tensor delta = (d_out * grouped(output, kv_heads)).sum(-1, /*keepdim=*/true);
  const Tensor lse_grouped =
      lse.unflatten(1, std::vector<int64_t>{kv_heads, q.size(2) / kv_heads}).unsqueeze(-1);
  Tensor dq = torch::empty(qs.sizes(), qs.options());
  Tensor dk = torch::zeros(ks.sizes(), ks.options());
  Tensor dv = torch::zeros(vs.sizes(), vs.options());
  for (int64_t begin = 0; begin < length; begin += kQueryTile) {
    const Tile tile = tile_at(begin, length, window);
    const auto queries = [&](const Tensor& x) { return x.slice(3, tile.q_begin, tile.q_end); };
    const auto keys = [&](const Tensor& x) { return x.slice(3, tile.k_begin, tile.k_end); };
    const Tensor scores = scores_of(queries(qs), keys(ks), tile, scale, window, terms);
    const Tensor p = (scores - queries(lse_grouped)).exp_();
    const Tensor tile_kept = kept.of(tile);
    const Tensor dp = times(at::matmul(queries(d_out), keys(vs).transpose(-1, -2)), tile_kept);
    const Tensor ds = before_cap(p * (dp - queries(delta)) * scale, scores, terms.cap);
    queries(dq).copy_(at::matmul(ds, keys(ks)));
    keys(dk).add_(at::matmul(ds.transpose(-1, -2), queries(qs)).sum(2, /*keepdim=*/true));
    keys(dv).add_(
        at::matmul(times(p, tile_kept).transpose(-1, -2), queries(d_out)).sum(2, /*keepdim=*/true));
  }
  const auto dtype = q.scalar_type();
  Tensor d_sinks;
  if (terms.sinks.defined()) {
    const Tensor by_query = delta.squeeze(-1).flatten(1, 2).transpose(1, 2);  // [B, S, H]
    d_sinks = sink_gradient(terms.sinks, by_query, lse);
  }
  return {ungrouped(dq, dtype), ungrouped(dk, dtype), ungrouped(dv, dtype), d_sinks};
}

// --- packed sequences: each is a row of its own ---
std::pair<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                  int64_t window, const std::vector<int64_t>& offsets,
                                  const Dropout& dropout, const ScoreTerms& terms) {
  const auto kept_from = [&](int64_t position) {
    return Kept(dropout, q, k.size(2), position, q.size(1));
  };
  if (offsets.empty()) return forward_rows(q, k, v, scale, window, kept_from(0), terms);
  std::vector<Tensor> outputs, lses;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto sequence = [&](const Tensor& x) { return x.slice(1, offsets[i], offsets[i + 1]); };
    const auto [output, lse] = forward_rows(sequence(q), sequence(k), sequence(v), scale, window,
                                            kept_from(offsets[i]), terms);
    outputs.push_back(output);
    lses.push_back(lse);
  }
  return {torch::cat(outputs, 1), torch::cat(lses, 2)};
}

std::array<Tensor, 4> backward(const Tensor& output_gradient, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& output, const Tensor& lse,
                               double scale, int64_t window, const std::vector<int64_t>& offsets,
                               const Dropout& dropout, const ScoreTerms& terms) {
  const auto kept_from = [&](int64_t position) {
    return Kept(dropout, q, k.size(2), position, q.size(1));
  };
  if (offsets.empty()) {
    return backward_rows(output_gradient, q, k, v, output, lse, scale, window, kept_from(0), terms);
  }
  std::array<std::vector<Tensor>, 3> gradients;
  Tensor d_sinks = terms.sinks.defined() ? torch::zeros_like(terms.sinks) : Tensor();
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto sequence = [&](const Tensor& x, int64_t dim = 1) {
      return x.slice(dim, offsets[i], offsets[i + 1]);
    };
    const auto of_sequence = backward_rows(sequence(output_gradient), sequence(q), sequence(k),
                                           sequence(v), sequence(output), sequence(lse, 2), scale,
                                           window, kept_from(offsets[i]), terms);
    if (d_sinks.defined()) d_sinks += of_sequence[3];
    for (size_t j = 0; j < gradients.size(); ++j) gradients[j].push_back(of_sequence[j]);
  }
  return {torch::cat(gradients[0], 1), torch::cat(gradients[1], 1), torch::cat(gradients[2], 1),
          d_sinks};
}

// --- in parts ------------------------------------------------------------------------------------

// Queries of one block, a tile at a time: positions count in the sequence.
class BlockTiles {
 public:
  BlockTiles(const Tensor& q, const Tensor& k, const AttentionBlock& block,
             const PartAttention& attention)
      : block_(block),
        kv_heads_(k.size(2)),
        heads_(q.size(2)),
        batch_(q.size(0)),
        on_device_(!q.is_cpu()),
        dtype_(wide_dtype(q)),
        attention_(attention),
        kept_(attention.dropout, q, k.size(2), block.queries.sequence_begin, attention.row_length) {
  }

  // visit(tile, rows of the tile in the queries' tensor), for each that sees a key.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const RowSegment &queries = block_.queries, &keys = block_.keys;
    const int64_t step = tile_length();
    for (int64_t at = 0; at < queries.length; at += step) {
      Tile tile;
      tile.q_begin = queries.position + at;
      tile.q_end = std::min(tile.q_begin + step, queries.position + queries.length);
      tile.k_begin = keys.position;
      tile.k_end = std::min(keys.position + keys.length, tile.q_end);
      if (attention_.window > 0)
        tile.k_begin = std::max(tile.k_begin, tile.q_begin - attention_.window + 1);
      if (tile.k_begin < tile.k_end) visit(tile);
    }
  }

  // Of a tensor [B, positions, heads, D]: the tile's as [B, K, heads / K, n, D], wide.
  Tensor queries(const Tensor& x, const Tile& tile) const {
    return grouped(x.narrow(1, query_row(tile), tile.q_end - tile.q_begin), kv_heads_).to(dtype_);
  }
  Tensor keys(const Tensor& x, const Tile& tile) const {
    return grouped(x.narrow(1, key_row(tile), tile.k_end - tile.k_begin), kv_heads_).to(dtype_);
  }
  // Of lse [B, H, S], as a view [B, K, heads / K, n].
  Tensor lse(const Tensor& x, const Tile& tile) const {
    return x.narrow(2, query_row(tile), tile.q_end - tile.q_begin)
        .unflatten(1, std::vector<int64_t>{kv_heads_, heads_ / kv_heads_});
  }
  Tensor scores(const Tensor& q_tile, const Tensor& k_tile, const Tile& tile) const {
    return scores_of(q_tile, k_tile, tile, attention_.scale, attention_.window,
                     {attention_.slopes, {}, attention_.cap});
  }
  Tensor kept(const Tile& tile) const { return kept_.of(tile); }

  // x [B, positions, heads, D] (+)= values [B, K, heads / K, n, D]
  void put_queries(const Tensor& x, const Tile& tile, const Tensor& values, bool adds) const {
    put(x.narrow(1, query_row(tile), tile.q_end - tile.q_begin), values, adds);
  }
  void add_keys(const Tensor& x, const Tile& tile, const Tensor& values) const {
    put(x.narrow(1, key_row(tile), tile.k_end - tile.k_begin), values, true);
  }

 private:
  int64_t query_row(const Tile& tile) const {
    return block_.queries.begin + tile.q_begin - block_.queries.position;
  }
  int64_t key_row(const Tile& tile) const {
    return block_.keys.begin + tile.k_begin - block_.keys.position;
  }
  static void put(const Tensor& rows, const Tensor& values, bool adds) {
    const Tensor in_order = values.permute({0, 3, 1, 2, 4}).flatten(2, 3);
    adds ? rows.add_(in_order) : rows.copy_(in_order);
  }

  // On devices, whose launches cost time, as many queries as their scores have memory for.
  int64_t tile_length() const {
    constexpr int64_t kScoreBytes = 256 << 20, kFloatBytes = 4;
    if (!on_device_) return kQueryTile;
    const int64_t row_bytes = batch_ * heads_ * block_.keys.length * kFloatBytes;
    return std::max(kQueryTile, kScoreBytes / row_bytes / kQueryTile * kQueryTile);
  }

  AttentionBlock block_;
  int64_t kv_heads_, heads_, batch_;
  bool on_device_;
  torch::Dtype dtype_;
  const PartAttention& attention_;
  Kept kept_;
};

void meet_blocks(AttentionSums& sums, const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::vector<AttentionBlock>& blocks, const PartAttention& attention) {
  for (const AttentionBlock& block : blocks) {
    const BlockTiles tiles(q, k, block, attention);
    tiles.for_each([&](const Tile& tile) {
      const Tensor scores = tiles.scores(tiles.queries(q, tile), tiles.keys(k, tile), tile);
      const Tensor before = tiles.lse(sums.lse, tile);
      const Tensor lse = at::logaddexp(before, scores.logsumexp(-1));
      // Where nothing is seen so far, no probability is a number.
      const Tensor base = lse.masked_fill(lse.isinf(), 0.0).unsqueeze(-1);
      const Tensor probabilities = times((scores - base).exp_(), tiles.kept(tile));
      const Tensor earlier = tiles.queries(sums.output, tile) * (before.unsqueeze(-1) - base).exp();
      tiles.put_queries(sums.output, tile, earlier + at::matmul(probabilities, tiles.keys(v, tile)),
                        false);
      before.copy_(lse);
    });
  }
}

void add_block_gradients(AttentionGradients& gradients, const Tensor& output_gradient,
                         const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
                         const Tensor& lse, const std::vector<AttentionBlock>& blocks,
                         const PartAttention& attention) {
  for (const AttentionBlock& block : blocks) {
    const BlockTiles tiles(q, k, block, attention);
    tiles.for_each([&](const Tile& tile) {
      const Tensor qs = tiles.queries(q, tile), ks = tiles.keys(k, tile);
      const Tensor d_out = tiles.queries(output_gradient, tile);
      const Tensor delta = (d_out * tiles.queries(output, tile)).sum(-1, /*keepdim=*/true);
      const Tensor scores = tiles.scores(qs, ks, tile);
      const Tensor p = (scores - tiles.lse(lse, tile).unsqueeze(-1)).exp_();
      const Tensor kept = tiles.kept(tile);
      const Tensor dp = times(at::matmul(d_out, tiles.keys(v, tile).transpose(-1, -2)), kept);
      const Tensor ds = before_cap(p * (dp - delta) * attention.scale, scores, attention.cap);
      const auto over_group = [](const Tensor& left, const Tensor& right) {
        return at::matmul(left.transpose(-1, -2), right).sum(2, /*keepdim=*/true);
      };
      tiles.put_queries(gradients.q, tile, at::matmul(ds, ks), true);
      tiles.add_keys(gradients.k, tile, over_group(ds, qs));
      tiles.add_keys(gradients.v, tile, over_group(times(p, kept), d_out));
    });
  }
}

}  // namespace

const AttentionImpl kAttentionAten{forward, backward, meet_blocks, add_block_gradients};

}  // namespace sftbench::ops
