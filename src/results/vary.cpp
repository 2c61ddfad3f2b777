#include "sftbench/results/vary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "results/pairs.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr const char* kExperiment = "experiment";

std::string text_of(const Scalar& value) {
  std::string text;
  append_python_str(text, value);
  return text;
}

// The value of an input; what is not among the inputs has the experiment's default.
class Values {
 public:
  explicit Values(const std::string& input) : input_(input), value_(input_) {}
  Values(const Values&) = delete;  // value_ looks at input_
  Values& operator=(const Values&) = delete;

  Scalar operator()(const StoredResult& result) {
    if (input_ == kExperiment) return Scalar::text(result.experiment);
    return value_(result).value_or(Scalar::text("default"));
  }

 private:
  std::string input_;
  InputValues value_;
};

// Configurations that are alike but for the input: its value -> what was measured with it.
using Group = std::map<std::string, Repeats>;

struct Grouped {
  std::map<std::string, Group> groups;
  std::map<std::string, size_t> configurations;  // by value
};

Grouped grouped(const StoreScan& scan, const std::string& input) {
  Grouped result;
  Values value(input);
  for (const StoredResult& stored : scan.results) {
    add_sample(result.groups[identity(stored, {input})][text_of(value(stored))], stored);
  }
  for (const auto& [key, group] : result.groups) {
    for (const auto& [name, repeats] : group) ++result.configurations[name];
  }
  return result;
}

[[noreturn]] void refuse(const std::string& option, const std::string& message,
                         const std::vector<std::string>& known, const std::string& word) {
  throw InputError({{.file = {},
                     .line = 0,
                     .key = option,
                     .message = message,
                     .expected = known.empty() ? "" : "one of " + join(known),
                     .nearest = word.size() > 2 ? nearest_spelling(word, known) : std::string()}});
}

void require_known(const StoreScan& scan, const std::string& input) {
  std::set<std::string> names = {kExperiment};
  for (const StoredResult& result : scan.results) {
    for (size_t i = 0; i < result.inputs.size(); ++i) names.emplace(result.inputs.name(i));
  }
  if (names.count(input) > 0) return;
  refuse("--vary", "no result has the input '" + input + "'", {names.begin(), names.end()}, input);
}

std::string baseline_of(const Grouped& grouped, const VaryOptions& options) {
  const auto& counts = grouped.configurations;
  std::vector<std::string> known;
  for (const auto& [value, count] : counts) known.push_back(value);
  if (known.size() == 1) {
    refuse("--vary",
           counted(counts.begin()->second, "configuration has ", "configurations all have ") +
               options.input + " " + known.front(),
           {}, {});
  }
  if (!options.baseline.empty()) {
    for (const std::string& value : known) {
      if (lower_case(value) == lower_case(options.baseline)) return value;
    }
    refuse("--baseline", "no result has " + options.input + " " + options.baseline, known,
           options.baseline);
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<std::string> differing_inputs(const StoredResult& a, const StoredResult& b,
                                          const std::string& without) {
  std::set<std::string_view> names;
  for (const StoredResult* result : {&a, &b}) {
    for (size_t i = 0; i < result->inputs.size(); ++i) names.insert(result->inputs.name(i));
  }
  std::vector<std::string> differing;
  if (a.experiment != b.experiment && without != kExperiment) differing.emplace_back(kExperiment);
  for (const std::string_view name : names) {
    const std::string of_a = input_text(a, name), of_b = input_text(b, name);
    if (name == without || of_a == of_b) continue;
    differing.push_back(std::string(name) + " (" + of_a + ", " + of_b + ")");
  }
  return differing;
}

// The two configurations of different values that are most alike.
std::string why_empty(const Grouped& grouped, const std::string& baseline,
                      const std::string& input) {
  constexpr size_t kLookedAt = 500;  // of each side: enough to say what is the matter
  std::vector<const StoredResult*> base, others;
  for (const auto& [key, group] : grouped.groups) {
    for (const auto& [value, repeats] : group) {
      std::vector<const StoredResult*>& side = value == baseline ? base : others;
      if (side.size() < kLookedAt) side.push_back(&repeats.first());
    }
  }
  std::vector<std::string> fewest;
  for (const StoredResult* a : others) {
    for (const StoredResult* b : base) {
      std::vector<std::string> differing = differing_inputs(*a, *b, input);
      if (fewest.empty() || differing.size() < fewest.size()) fewest = std::move(differing);
    }
  }
  return "no two configurations differ in " + input + " alone; the closest ones also differ in " +
         join(fewest);
}

MainEffect effect_of(const std::string& value, const std::vector<const Judgement*>& judgements) {
  MainEffect effect;
  effect.value = value;
  effect.pairs = judgements.size();
  std::vector<double> ratios;
  double least_sure = 0, most_sure = std::numeric_limits<double>::infinity();
  for (const Judgement* judgement : judgements) {
    const auto& interval = judgement->interval;
    if (!interval) continue;
    ratios.push_back(interval->ratio);
    least_sure = std::max(least_sure, interval->low);
    most_sure = std::min(most_sure, interval->high);
    effect.higher += interval->low > 1 ? 1 : 0;
    effect.lower += interval->high < 1 ? 1 : 0;
    effect.low = interval->low;
    effect.high = interval->high;
  }
  effect.judged = ratios.size();
  if (effect.judged == 0) return effect;
  double sum = 0, squares = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  const double count = static_cast<double>(effect.judged), mean = sum / count;
  effect.ratio = std::exp(mean);
  if (effect.judged == 1) return effect;
  for (const double ratio : ratios) squares += (std::log(ratio) - mean) * (std::log(ratio) - mean);
  const double half = student_t(0.95, count - 1) * std::sqrt(squares / (count - 1) / count);
  // Ratios that agree by chance claim nothing that none of their pairs shows.
  effect.low = std::exp(mean - half);
  effect.high = std::exp(mean + half);
  if (effect.higher == 0) effect.low = std::min(*effect.low, least_sure);
  if (effect.lower == 0) effect.high = std::max(*effect.high, most_sure);
  return effect;
}

}  // namespace

Variation vary(const StoreScan& scan, const VaryOptions& options) {
  require_known(scan, options.input);
  const Grouped all = grouped(scan, options.input);
  Variation variation;
  variation.baseline = baseline_of(all, options);
  std::vector<Pair> pairs;
  std::vector<std::string> values;
  for (const auto& [key, group] : all.groups) {
    const auto base = group.find(variation.baseline);
    if (base == group.end()) continue;
    for (const auto& [value, repeats] : group) {
      if (value == variation.baseline) continue;
      pairs.push_back({repeats, base->second});
      values.push_back(value);
    }
  }
  if (pairs.empty()) {
    variation.why_empty = why_empty(all, variation.baseline, options.input);
    return variation;
  }
  const JudgedPairs judged(pairs, options.compare);
  std::map<std::string, std::vector<const Judgement*>> by_value;
  std::vector<Repeats> rows;
  for (size_t i = 0; i < pairs.size(); ++i) {
    by_value[values[i]].push_back(&judged[pairs[i].row]);
    rows.push_back(pairs[i].row);
  }
  for (const auto& [value, judgements] : by_value)
    variation.effects.push_back(effect_of(value, judgements));

  TableBuilder builder(SortedRows(std::move(rows)));
  builder.telling_inputs(options.input);
  Values value(options.input);
  if (!builder.has(
          options.input)) {  // among an entity's properties, where nothing else tells rows apart
    builder.column(options.input, [&](const Repeats& row) { return value(row.first()); });
  }
  const Scalar baseline = builder.text(variation.baseline);
  builder.column("beside", [&](const Repeats&) { return baseline; });
  builder.column("status", [&](const Repeats& row) { return judged.status(builder, row); });
  builder.machine_column();
  judged.columns(builder);
  variation.table = builder.table();
  return variation;
}

}  // namespace sftbench
