#include "sftbench/measure/rank_metrics.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

using Figures = std::vector<double>;

// The middle one; of two in the middle the smaller one.
double lower_median(Figures values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median(const Figures& values) {
  Figures negated;
  for (const double value : values) negated.push_back(-value);
  return (lower_median(values) - lower_median(negated)) / 2;
}

double sum(const Figures& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

template <typename Number>
Figures measured(const RankReport& rank, int64_t warmup_steps, Number number) {
  check(static_cast<size_t>(warmup_steps) < rank.steps.size(), "a step is left to be measured");
  Figures values;
  for (size_t i = static_cast<size_t>(warmup_steps); i < rank.steps.size(); ++i) {
    values.push_back(number(rank.steps[i]));
  }
  return values;
}

double step_seconds(const RankStep& step) {
  return step.end_s - step.begin_s;
}
double wait_seconds(const RankStep& step) {
  return step.communication_wait_s;
}
double busy_seconds(const RankStep& step) {
  return step_seconds(step) - wait_seconds(step);
}

double wait_fraction(const RankReport& rank, int64_t warmup_steps) {
  return sum(measured(rank, warmup_steps, wait_seconds)) /
         sum(measured(rank, warmup_steps, step_seconds));
}

Json device_bytes(int64_t bytes) {
  return bytes < 0 ? Json() : Json(bytes);
}

Json memory_json(const RankReport& rank) {
  return {{"parameters", rank.parameter_bytes},
          {"gradients", rank.gradient_bytes},
          {"optimizer_state", rank.optimizer_state_bytes},
          {"gathered_peak", rank.gathered_peak_bytes},
          {"device_peak_allocated", device_bytes(rank.device_peak_allocated_bytes)},
          {"device_peak_reserved", device_bytes(rank.device_peak_reserved_bytes)},
          {"host_peak_rss", rank.host_peak_rss_bytes}};
}

// One collective of one group, over the ranks that took part in it.
struct CollectiveOfRanks {
  Figures calls;
  Figures sent_bytes;
  Figures seconds;
};

Json collectives_json(const std::vector<RankReport>& ranks) {
  std::map<std::pair<std::string, std::string>, CollectiveOfRanks> all;
  for (const RankReport& rank : ranks) {
    const auto steps = static_cast<double>(rank.steps.size());
    for (const CollectiveReport& report : rank.collectives) {
      if (report.calls == 0) continue;
      CollectiveOfRanks& collective = all[{report.group, report.operation}];
      collective.calls.push_back(static_cast<double>(report.calls) / steps);
      collective.sent_bytes.push_back(static_cast<double>(report.sent_bytes) / steps);
      collective.seconds.push_back(report.seconds / steps);
    }
  }
  Json list = Json::array();
  for (const auto& [name, collective] : all) {
    const auto [least, most] =
        std::minmax_element(collective.sent_bytes.begin(), collective.sent_bytes.end());
    list.push_back(
        {{"group", name.first},
         {"operation", name.second},
         {"calls_per_step", *std::max_element(collective.calls.begin(), collective.calls.end())},
         {"sent_bytes_per_step", {{"min", *least}, {"max", *most}}},
         {"seconds_per_step",
          *std::max_element(collective.seconds.begin(), collective.seconds.end())}});
  }
  return list;
}

double sent_bytes_per_step(const RankReport& rank) {
  int64_t bytes = 0;
  for (const CollectiveReport& report : rank.collectives) bytes += report.sent_bytes;
  return static_cast<double>(bytes) / static_cast<double>(rank.steps.size());
}

}  // namespace

std::vector<int> stragglers(const std::vector<RankReport>& ranks, int64_t warmup_steps) {
  std::vector<Figures> busy;
  for (const RankReport& rank : ranks) {
    busy.push_back(measured(rank, warmup_steps, busy_seconds));
    check(busy.back().size() == busy.front().size(), "all ranks took the same steps");
  }
  std::vector<int> slow;
  if (ranks.size() < 2) return slow;
  std::vector<Figures> ratios(ranks.size());
  for (size_t step = 0; step < busy.front().size(); ++step) {
    Figures of_step;
    for (const Figures& rank : busy) of_step.push_back(rank[step]);
    const double usual = lower_median(of_step);
    if (usual <= 0) continue;  // all but waiting: nothing to compare
    for (size_t i = 0; i < ranks.size(); ++i) ratios[i].push_back(busy[i][step] / usual);
  }
  if (ratios.front().size() < kLeastStepsToJudge) return slow;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (median(ratios[i]) > kStragglerRatio) slow.push_back(ranks[i].rank);
  }
  return slow;
}

Json ranks_json(const std::vector<RankReport>& ranks, int64_t warmup_steps) {
  Json list = Json::array();
  for (const RankReport& rank : ranks) {
    const Figures steps = measured(rank, warmup_steps, step_seconds);
    const RankSpan span = span_of(rank, warmup_steps);
    list.push_back(
        {{"rank", rank.rank},
         {"node", rank.node},
         {"host", rank.host},
         {"step_seconds",
          {{"min", *std::min_element(steps.begin(), steps.end())},
           {"median", median(steps)},
           {"max", *std::max_element(steps.begin(), steps.end())}}},
         {"busy_seconds", median(measured(rank, warmup_steps, busy_seconds))},
         {"wait_fraction", wait_fraction(rank, warmup_steps)},
         {"samples", span.samples},
         {"tokens",
          {{"padded", span.tokens.padded},
           {"dataset", span.tokens.dataset},
           {"loss_bearing", span.tokens.loss_bearing}}},
         {"padded_tokens_per_second", static_cast<double>(span.tokens.padded) / span.seconds},
         {"memory_bytes", memory_json(rank)}});
  }
  return list;
}

Json communication_json(const std::vector<RankReport>& ranks, int64_t warmup_steps) {
  check(!ranks.empty(), "there are ranks");
  Figures fractions;
  Figures sent;
  for (const RankReport& rank : ranks) {
    fractions.push_back(wait_fraction(rank, warmup_steps));
    sent.push_back(sent_bytes_per_step(rank));
  }
  const auto [least, most] = std::minmax_element(fractions.begin(), fractions.end());
  return {{"wait_fraction",
           {{"min", *least},
            {"mean", sum(fractions) / static_cast<double>(fractions.size())},
            {"max", *most}}},
          {"sent_bytes_per_step", *std::max_element(sent.begin(), sent.end())},
          {"stragglers", stragglers(ranks, warmup_steps)},
          {"collectives", collectives_json(ranks)}};
}

}  // namespace sftbench
