#include "sftbench/measure/expert_load.h"

#include <algorithm>
#include <numeric>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// The most over the mean.
double imbalance(const std::vector<int64_t>& tokens) {
  const int64_t all = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  if (all == 0) return 1;
  const auto most = static_cast<double>(*std::max_element(tokens.begin(), tokens.end()));
  return most * static_cast<double>(tokens.size()) / static_cast<double>(all);
}

std::vector<int64_t> by_rank(const std::vector<int64_t>& of_experts, int64_t ranks) {
  std::vector<int64_t> tokens(static_cast<size_t>(ranks));
  const size_t own = of_experts.size() / tokens.size();
  for (size_t e = 0; e < of_experts.size(); ++e) tokens[e / own] += of_experts[e];
  return tokens;
}

}  // namespace

ExpertLoad expert_load(const ExpertCounts& counts) {
  ExpertLoad load;
  load.count = counts.experts;
  load.per_token = counts.per_token;
  load.ranks = counts.ranks;
  if (counts.experts == 0 || counts.steps == 0) return load;
  check(counts.experts % counts.ranks == 0, "each rank has as many experts");
  const auto all = static_cast<int64_t>(counts.tokens.size());
  const int64_t layers = all / (counts.steps * counts.experts);
  check(layers > 0 && all == layers * counts.steps * counts.experts,
        "each step counts the experts of each layer");
  load.tokens_by_layer.assign(static_cast<size_t>(layers),
                              std::vector<int64_t>(static_cast<size_t>(counts.experts)));
  auto at = counts.tokens.begin();
  for (int64_t step = 0; step < counts.steps; ++step) {
    double sum = 0, worst = 0, sum_of_ranks = 0;
    int64_t routed = 0;
    for (std::vector<int64_t>& of_layer : load.tokens_by_layer) {
      const std::vector<int64_t> tokens(at, at + counts.experts);
      at += counts.experts;
      const double of_experts = imbalance(tokens);
      sum += of_experts;
      worst = std::max(worst, of_experts);
      sum_of_ranks += imbalance(by_rank(tokens, counts.ranks));
      for (size_t e = 0; e < tokens.size(); ++e) {
        of_layer[e] += tokens[e];
        routed += tokens[e];
      }
    }
    const auto experts = static_cast<double>(counts.experts);
    load.tokens_per_expert.push_back(static_cast<double>(routed) /
                                     (static_cast<double>(layers) * experts));
    load.imbalance.push_back(sum / static_cast<double>(layers));
    load.worst_imbalance.push_back(worst);
    load.busiest_share.push_back(worst / experts);
    load.rank_imbalance.push_back(sum_of_ranks / static_cast<double>(layers));
  }
  return load;
}

}  // namespace sftbench
