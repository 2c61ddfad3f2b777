#include "sftbench/results/best.h"

#include <algorithm>
#include <map>
#include <set>

#include "results/cost_columns.h"
#include "results/noise.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr std::string_view kTokenRate = "dataset_tokens_per_second";

std::string text_of(const Scalar& value) {
  std::string text;
  append_python_str(text, value);
  return text;
}

std::string title_of(const StoredResult& result) {
  return text_of(result.inputs["model_name"]) + ", " + std::string(result.experiment) + ", " +
         text_of(result.inputs["model_max_length"]) + " tokens";
}

double devices_of(const StoredResult& result) {
  return std::max(1.0, result.inputs["number_gpus"].as_number().value_or(0));
}

std::vector<double> rates_per_device(const Repeats& repeats) {
  std::vector<double> rates;
  for (const StoredResult* sample : repeats.samples) {
    const double rate = sample->measured[kTokenRate].as_number().value_or(0);
    if (rate > 0) rates.push_back(rate / devices_of(*sample));
  }
  return rates;
}

bool better(const Contender& a, const Contender& b) {
  return a.cost ? *a.cost < *b.cost : a.rate > b.rate;
}

bool has(const Record& inputs, const std::string& name) {
  const Record::Names* names = inputs.names();
  return names != nullptr && std::find(names->begin(), names->end(), name) != names->end();
}

// Names of inputs that are not the same in all contenders. Arguments are inputs only where they
// differ from what the experiment fixes.
std::vector<std::string> telling_inputs(const std::vector<Contender>& contenders) {
  std::map<std::string, std::multiset<std::string>> values;
  for (const Contender& contender : contenders) {
    const Record& inputs = contender.repeats.first().inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      values[std::string(inputs.name(i))].insert(text_of(inputs.value(i)));
  }
  std::vector<std::string> names;
  for (const auto& [name, found] : values) {
    if (found.count(*found.begin()) < contenders.size()) names.push_back(name);
  }
  return names;
}

std::string configuration_of(const Contender& contender, const std::vector<std::string>& names) {
  std::string text;
  const Record& inputs = contender.repeats.first().inputs;
  for (const std::string& name : names) {
    const std::string value = has(inputs, name) ? text_of(inputs[name]) : "default";
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text.empty() ? std::string(contender.repeats.first().entity_id) : text;
}

// The price of a device does not vary: costs have the noise of the rates.
void judge(Contest& contest, const std::optional<RunSpread>& others) {
  const Contender &best = contest.best, &other = *contest.runner_up;
  contest.ratio = best.cost ? *other.cost / *best.cost : best.rate / other.rate;
  const auto interval =
      ratio_interval({rates_per_device(best.repeats), best.repeats.first().steps},
                     {rates_per_device(other.repeats), other.repeats.first().steps}, 0.95, others);
  if (!interval) return;
  const double to_objective = contest.ratio / interval->ratio;  // devices of two prices
  contest.low = interval->low * to_objective;
  contest.high = interval->high * to_objective;
}

Contest contest_of(const std::string& title, std::vector<Contender> contenders,
                   const std::optional<RunSpread>& others) {
  std::stable_sort(contenders.begin(), contenders.end(), better);
  const std::vector<std::string> names = telling_inputs(contenders);
  for (Contender& contender : contenders)
    contender.configuration = configuration_of(contender, names);
  Contest contest;
  contest.title = title;
  contest.configurations = contenders.size();
  contest.best = contenders.front();
  if (contenders.size() > 1) {
    contest.runner_up = contenders[1];
    judge(contest, others);
  }
  return contest;
}

}  // namespace

std::vector<Contest> best_configurations(const StoreScan& scan, const DevicePrices& prices,
                                         const std::function<bool(const StoredResult&)>& takes) {
  // By title, and whether there is a price: a rate is no cost.
  std::map<std::pair<std::string, bool>, std::vector<Contender>> groups;
  RunSpreads spreads;
  for (const Repeats& repeats : group_repeats(scan.results)) {
    const StoredResult& first = repeats.first();
    if (first.status != Status::kValid || !takes(first)) continue;
    const std::vector<double> rates = rates_per_device(repeats);
    if (rates.empty()) continue;
    spreads.add(rates);
    Contender contender;
    contender.repeats = repeats;
    contender.rate = median(rates);
    const Scalar gpu = first.inputs["gpu_model"];
    const auto cost = token_cost(prices, gpu.is_text() ? gpu.as_text() : std::string_view(),
                                 first.inputs["number_gpus"].as_number().value_or(0),
                                 contender.rate * devices_of(first));
    if (cost) contender.cost = cost->per_million;
    groups[{title_of(first), cost.has_value()}].push_back(std::move(contender));
  }
  std::vector<Contest> contests;
  for (auto& [key, contenders] : groups)
    contests.push_back(contest_of(key.first, std::move(contenders), spreads.pooled()));
  return contests;
}

}  // namespace sftbench
