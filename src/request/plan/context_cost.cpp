#include "sftbench/plan/context_cost.h"

#include <algorithm>

#include "sftbench/plan/known_model.h"

namespace sftbench {
namespace {

constexpr double kWideBytes = 4;  // of gradients that travel, of states and of sums

// Chunks that a rank hands on, on average: each goes as far as somebody needs it.
double handed_on(const ContextLayout& layout, int64_t window) {
  int64_t hops = 0;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (int64_t half = 0; half < ContextLayout::kHalves; ++half)
      hops += layout.hops(rank, half, window);
  }
  return static_cast<double>(hops) / static_cast<double>(layout.ranks());
}

struct RowCost {
  ContextLayout layout;
  double batch;
  double computed_bytes;

  double others() const { return static_cast<double>(layout.ranks() - 1); }

  void add_attention(const ModelConfig& config, const LayerShape& layer, ContextCost& sum) const {
    const auto key_width = static_cast<double>(config.attention.key_value_width());
    const auto query_width = static_cast<double>(layer.query_width);
    // Keys and values.
    const double chunk = 2 * batch * static_cast<double>(layout.chunk_length()) * key_width;
    const double block = ContextLayout::kHalves * chunk;
    const double sent = handed_on(layout, layer.window) * chunk;
    sum.forward_bytes += sent * computed_bytes;
    sum.backward_bytes += sent * (computed_bytes + kWideBytes);
    const double queries = batch * static_cast<double>(layout.own_length()) * query_width;
    // Gradients of keys: this rank's, those at hand, and those that leave and come.
    constexpr double kBlocks = 2, kGradients = 5;
    const double forward = kBlocks * block * computed_bytes + queries * kWideBytes;
    sum.forward_buffers = std::max(sum.forward_buffers, forward);
    sum.backward_buffers =
        std::max(sum.backward_buffers, forward + kGradients * block * kWideBytes);
    const auto length = static_cast<double>(layout.row_length());
    const auto window = static_cast<double>(layer.window);
    const double seen =
        window > 0 && window < length ? window * (1 - window / (2 * length)) : length / 2;
    sum.attention_flops += 4 * queries * seen;
  }

  // The last positions of chunks, and what chunks add to the state.
  void add_mamba(const MambaConfig& mamba, ContextCost& sum) const {
    const int64_t ends = std::min(mamba.kernel - 1, layout.chunk_length()) * mamba.convolved();
    const int64_t states = mamba.inner() * mamba.state + mamba.heads;
    const double chunks = batch * ContextLayout::kHalves;
    const double sent =
        others() * chunks *
        (static_cast<double>(ends) * computed_bytes + static_cast<double>(states) * kWideBytes);
    sum.forward_bytes += sent;
    sum.backward_bytes += sent;
  }
};

}  // namespace

std::string divided_rows_refusal(int64_t ranks, int64_t context_ranks) {
  if (ranks % context_ranks == 0) return {};
  const std::string of = std::to_string(context_ranks);
  return "context_parallel " + of + " divides rows among ranks, and " + std::to_string(ranks) +
         " of them cannot be divided evenly into groups of " + of + "; number_gpus or --ranks " +
         of + ", or context_parallel 1, works";
}

int64_t own_length(int64_t row_length, const TrainingJob& job) {
  const int64_t ranks = job.parallel.context_ranks;
  return ranks == 1 ? row_length : ContextLayout::padded_length(row_length, ranks) / ranks;
}

ContextCost context_cost(const TrainingJob& job, double computed_bytes) {
  ContextCost cost;
  cost.ranks = job.parallel.context_ranks;
  if (cost.ranks == 1) return cost;
  const KnownModel& model = known_model(job.model);
  const RowCost rows{ContextLayout(cost.ranks, ContextLayout::padded_length(
                                                   job.data.model_max_length, cost.ranks)),
                     static_cast<double>(job.batches.per_device_batch_size), computed_bytes};
  for (const LayerShape& layer : model.shape.layers) {
    if (layer.query_width > 0) {
      rows.add_attention(model.config, layer, cost);
    } else if (model.config.mamba) {
      rows.add_mamba(*model.config.mamba, cost);
    }
  }
  const auto layers = static_cast<double>(model.shape.layers.size());
  for (double ContextCost::*figure :
       {&ContextCost::forward_bytes, &ContextCost::backward_bytes, &ContextCost::attention_flops})
    cost.*figure /= layers;
  return cost;
}

}  // namespace sftbench
