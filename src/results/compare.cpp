#include "sftbench/results/compare.h"

#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "results/noise.h"
#include "results/table_builder.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Everything that makes two results measurements of the same thing.
std::string identity(const StoredResult& result) {
  std::vector<size_t> order(result.inputs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return result.inputs.name(a) < result.inputs.name(b); });
  std::string text(result.experiment);
  for (const size_t i : order) {
    const Scalar& value = result.inputs.value(i);
    text += '\n';
    text += result.inputs.name(i);
    text += value.is_text() ? '=' : ':';
    append_python_str(text, value);
  }
  return text;
}

using Configurations = std::map<std::string, Repeats>;

// Where samples of one configuration ended differently, the valid ones speak for it.
Configurations configurations(const StoreScan& scan) {
  Configurations all;
  for (const StoredResult& result : scan.results) {
    Repeats& repeats = all[identity(result)];
    if (!repeats.samples.empty() && repeats.first().status != result.status) {
      if (result.status != Status::kValid) continue;
      repeats.samples.clear();
    }
    repeats.samples.push_back(&result);
  }
  return all;
}

// Steps say how far a value may lie off only if it is a count over their time, or that time.
bool follows_step_times(std::string_view property) {
  const auto ends_with = [&](std::string_view end) {
    return property.size() >= end.size() && property.substr(property.size() - end.size()) == end;
  };
  return property == "train_runtime" || property.find("_per_second") != std::string_view::npos ||
         ends_with("mfu");
}

struct Judgement {
  Scalar value, other;  // medians
  std::optional<RatioInterval> interval;
  std::string_view verdict;
};

class Comparer {
 public:
  Comparer(const StoreScan& here, const StoreScan& other, const CompareOptions& options)
      : options_(options),
        here_(configurations(here)),
        other_(configurations(other)),
        measured_(options.property, &StoredResult::measured),
        figures_(options.property, &StoredResult::figures) {}

  Comparison compare() {
    std::vector<Repeats> rows;
    for (const auto& [key, repeats] : here_) {
      const auto partner = other_.find(key);
      if (partner == other_.end()) continue;
      partners_[&repeats.first()] = &partner->second;
      rows.push_back(repeats);
    }
    result_.both = rows.size();
    result_.only_here = here_.size() - rows.size();
    result_.only_other = other_.size() - rows.size();
    for (const Repeats& row : rows) judgements_[&row.first()] = judge(row, partner(row));
    refuse_unknown_property(rows);
    if (result_.judged > 0) {
      result_.mean_ratio = std::exp(sum_of_logs_ / static_cast<double>(result_.judged));
    }
    result_.table = table(std::move(rows));
    return std::move(result_);
  }

 private:
  const Repeats& partner(const Repeats& row) const { return *partners_.at(&row.first()); }
  const Judgement& judgement(const Repeats& row) const { return judgements_.at(&row.first()); }

  std::vector<Scalar> values(const Repeats& repeats) {
    const std::vector<Scalar>& measured = measured_(repeats);
    return measured.empty() ? figures_(repeats) : measured;
  }

  static Sampled sampled(const Repeats& repeats, const std::vector<Scalar>& values) {
    Sampled sampled;
    for (const Scalar& value : values) {
      if (const std::optional<double> number = value.as_number()) sampled.values.push_back(*number);
    }
    sampled.steps = repeats.first().steps;
    return sampled;
  }

  Judgement judge(const Repeats& a, const Repeats& b) {
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
                        ratio_interval(sampled_a, sampled_b, options_.confidence),
                        {}};
    judgement.verdict = verdict(judgement.interval);
    return judgement;
  }

  std::string_view verdict(const std::optional<RatioInterval>& interval) {
    if (!interval) return "noise unknown";
    ++result_.judged;
    sum_of_logs_ += std::log(interval->ratio);
    if (interval->low > 1) return ++result_.higher, "higher";
    if (interval->high < 1) return ++result_.lower, "lower";
    return "no difference";
  }

  void refuse_unknown_property(const std::vector<Repeats>& rows) const {
    bool valid = false;  // without a valid row nothing is known about names
    for (const Repeats& row : rows) {
      if (!judgement(row).value.is_null()) return;
      valid = valid || judgement(row).verdict == "not measured";
    }
    if (!valid) return;
    std::set<std::string> names;
    for (const Repeats& row : rows) {
      for (const Record* record : {&row.first().measured, &row.first().figures}) {
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

  ReportTable table(std::vector<Repeats> rows) {
    TableBuilder builder(SortedRows(std::move(rows)));
    if (options_.with_ids) {
      builder.column("experiment_id",
                     [](const Repeats& row) { return Scalar::text(row.first().experiment_id); });
      builder.column("identifier",
                     [](const Repeats& row) { return Scalar::text(row.first().entity_id); });
    }
    builder.telling_inputs();
    builder.column("status", [&](const Repeats& row) { return status(builder, row); });
    builder.column(options_.property, [&](const Repeats& row) { return judgement(row).value; });
    builder.column("other", [&](const Repeats& row) { return judgement(row).other; });
    const auto of_interval = [&](const char* name, double RatioInterval::*member) {
      builder.column(name, [&](const Repeats& row) {
        const std::optional<RatioInterval>& interval = judgement(row).interval;
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
      const std::optional<RatioInterval>& interval = judgement(row).interval;
      return interval ? Scalar::text(to_string(interval->source)) : Scalar();
    });
    builder.column("verdict",
                   [&](const Repeats& row) { return Scalar::text(judgement(row).verdict); });
    return builder.table();
  }

  // "valid", or both: "valid, other OOM_GPU".
  Scalar status(TableBuilder& builder, const Repeats& row) const {
    const auto word = [](const Repeats& repeats) {
      const StoredResult& result = repeats.first();
      return result.reason ? to_string(result.reason->code) : to_string(result.status);
    };
    const std::string_view here = word(row);
    const std::string_view other = word(partner(row));
    if (here == other) return Scalar::text(here);
    return builder.text(std::string(here) + ", other " + std::string(other));
  }

  CompareOptions options_;
  Configurations here_, other_;
  Samples measured_, figures_;
  std::unordered_map<const StoredResult*, const Repeats*> partners_;
  std::unordered_map<const StoredResult*, Judgement> judgements_;
  double sum_of_logs_ = 0;
  Comparison result_;
};

}  // namespace

Comparison compare_results(const StoreScan& here, const StoreScan& other,
                           const CompareOptions& options) {
  return Comparer(here, other, options).compare();
}

}  // namespace sftbench
