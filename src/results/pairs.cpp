#include "results/pairs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sftbench/base/text.h"
#include "sftbench/plan/content_names.h"

namespace sftbench {
namespace {

// Steps say how far a value may lie off only if it is a count over their time, or that time.
bool follows_step_times(std::string_view property) {
  return property == "train_runtime" || property.find("_per_second") != std::string_view::npos ||
         property.ends_with("mfu");
}

Sampled sampled(const Repeats& repeats, const std::vector<Scalar>& values) {
  Sampled sampled;
  for (const Scalar& value : values) {
    if (const std::optional<double> number = value.as_number()) sampled.values.push_back(*number);
  }
  sampled.steps = repeats.first().steps;
  return sampled;
}

std::string_view verdict(const std::optional<RatioInterval>& interval) {
  if (!interval) return "noise unknown";
  if (interval->low > 1) return "higher";
  return interval->high < 1 ? "lower" : "no difference";
}

}  // namespace

std::string identity(const StoredResult& result, const std::set<std::string_view>& without) {
  std::vector<size_t> order(result.inputs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return result.inputs.name(a) < result.inputs.name(b); });
  const auto has = [&result](std::string_view name) {
    for (size_t i = 0; i < result.inputs.size(); ++i) {
      if (result.inputs.name(i) == name) return true;
    }
    return false;
  };
  std::string text(without.count("experiment") > 0 ? std::string_view() : result.experiment);
  for (const size_t i : order) {
    const std::string_view name = result.inputs.name(i);
    if (without.count(name) > 0 || is_idle_name(name, has)) continue;
    const Scalar& value = result.inputs.value(i);
    text += '\n';
    text += name;
    text += value.is_text() ? '=' : ':';
    append_python_str(text, value);
  }
  return text;
}

std::string input_text(const StoredResult& result, std::string_view input) {
  const Scalar* value = Picker(input).find(result.inputs);
  std::string text;
  if (value != nullptr) append_python_str(text, *value);
  return value == nullptr ? "default" : text;
}

void add_sample(Repeats& repeats, const StoredResult& result) {
  if (!repeats.samples.empty() && repeats.first().status != result.status) {
    if (result.status != Status::kValid) return;
    repeats.samples.clear();
  }
  repeats.samples.push_back(&result);
}

JudgedPairs::JudgedPairs(const std::vector<Pair>& pairs, const CompareOptions& options)
    : pairs_(pairs),
      options_(options),
      measured_(options.property, &StoredResult::measured),
      figures_(options.property, &StoredResult::figures),
      spread_(spreads_of_all().pooled()) {
  for (const Pair& pair : pairs) {
    partners_[&pair.row.first()] = &pair.partner;
    judgements_[&pair.row.first()] = judge(pair.row, pair.partner);
  }
  refuse_unknown_property();
}

std::vector<Scalar> JudgedPairs::values(const Repeats& repeats) {
  const std::vector<Scalar>& measured = measured_(repeats);
  return measured.empty() ? figures_(repeats) : measured;
}

RunSpreads JudgedPairs::spreads_of_all() {
  std::set<const StoredResult*> seen;  // a baseline has many partners
  RunSpreads spreads;
  for (const Pair& pair : pairs_) {
    for (const Repeats* side : {&pair.row, &pair.partner}) {
      if (side->first().status != Status::kValid || !seen.insert(&side->first()).second) continue;
      spreads.add(sampled(*side, values(*side)).values);
    }
  }
  return spreads;
}

Judgement JudgedPairs::judge(const Repeats& a, const Repeats& b) {
  if (a.first().status != b.first().status) return {{}, {}, {}, "status changed"};
  if (a.first().status != Status::kValid) return {{}, {}, {}, "not valid"};
  const std::vector<Scalar> of_a = values(a);
  const std::vector<Scalar> of_b = values(b);
  Sampled sampled_a = sampled(a, of_a);
  Sampled sampled_b = sampled(b, of_b);
  if (sampled_a.values.empty() || sampled_b.values.empty()) return {{}, {}, {}, "not measured"};
  if (!follows_step_times(options_.property)) sampled_a.steps = sampled_b.steps = {};
  Judgement judgement{typical_value(of_a),
                      typical_value(of_b),
                      ratio_interval(sampled_a, sampled_b, options_.confidence, spread_),
                      {}};
  judgement.verdict = verdict(judgement.interval);
  return judgement;
}

void JudgedPairs::refuse_unknown_property() const {
  bool valid = false;  // without a valid row nothing is known about names
  for (const Pair& pair : pairs_) {
    const Judgement& judgement = (*this)[pair.row];
    if (!judgement.value.is_null()) return;
    valid = valid || judgement.verdict == "not measured";
  }
  if (!valid) return;
  std::set<std::string> names;
  for (const Pair& pair : pairs_) {
    const StoredResult& result = pair.row.first();
    for (const Record* record : {&result.measured, &result.figures}) {
      for (size_t i = 0; i < record->size(); ++i) {
        if (record->value(i).as_number()) names.insert(std::string(record->name(i)));
      }
    }
  }
  const std::vector<std::string> known(names.begin(), names.end());
  throw InputError({{.file = {},
                     .line = 0,
                     .key = "--property",
                     .message = "no result has a number under '" + options_.property + "'",
                     .expected = "one of " + join(known),
                     .nearest = nearest_spelling(options_.property, known)}});
}

void JudgedPairs::columns(TableBuilder& builder) const {
  builder.column(options_.property, [&](const Repeats& row) { return (*this)[row].value; });
  builder.column("other", [&](const Repeats& row) { return (*this)[row].other; });
  const auto of_interval = [&](const char* name, double RatioInterval::*member) {
    builder.column(name, [&](const Repeats& row) {
      const std::optional<RatioInterval>& interval = (*this)[row].interval;
      return interval ? Scalar::number(*interval.*member) : Scalar();
    });
  };
  of_interval("ratio", &RatioInterval::ratio);
  of_interval("low", &RatioInterval::low);
  of_interval("high", &RatioInterval::high);
  builder.count_column();
  builder.column("n_other", [&](const Repeats& row) {
    return Scalar::integer(static_cast<int64_t>(partner(row).samples.size()));
  });
  builder.column("noise", [&](const Repeats& row) {
    const std::optional<RatioInterval>& interval = (*this)[row].interval;
    return interval ? Scalar::text(to_string(interval->source)) : Scalar();
  });
  builder.column("verdict", [&](const Repeats& row) { return Scalar::text((*this)[row].verdict); });
}

Scalar JudgedPairs::status(TableBuilder& builder, const Repeats& row) const {
  const auto word = [](const Repeats& repeats) {
    const StoredResult& result = repeats.first();
    return result.reason ? to_string(result.reason->code) : to_string(result.status);
  };
  const std::string_view here = word(row);
  const std::string_view other = word(partner(row));
  if (here == other) return Scalar::text(here);
  return builder.text(std::string(here) + ", other " + std::string(other));
}

void JudgedPairs::count(Comparison& comparison) const {
  double sum_of_logs = 0;
  for (const Pair& pair : pairs_) {
    const Judgement& judgement = (*this)[pair.row];
    if (!judgement.interval) continue;
    ++comparison.judged;
    sum_of_logs += std::log(judgement.interval->ratio);
    if (judgement.interval->low > 1) ++comparison.higher;
    if (judgement.interval->high < 1) ++comparison.lower;
  }
  if (comparison.judged > 0) {
    comparison.mean_ratio = std::exp(sum_of_logs / static_cast<double>(comparison.judged));
  }
}

}  // namespace sftbench
