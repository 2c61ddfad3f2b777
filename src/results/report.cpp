#include "sftbench/results/report.h"

#include <algorithm>
#include <map>
#include <set>

#include "results/cost_columns.h"
#include "results/table_builder.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr std::string_view kGenerator = "explicit_grid_sample_generator";

// "[2624.0, 2630.5]"
std::string list_text(const std::vector<Scalar>& values) {
  std::string text = "[";
  for (const Scalar& value : values) {
    if (text.size() > 1) text += ", ";
    append_python_str(text, value);
  }
  return text + "]";
}

// `table` keeps the text of a list.
template <typename TextKeeper>
Scalar one_cell(const std::vector<Scalar>& values, std::optional<Aggregate> method,
                TextKeeper& table) {
  if (values.empty()) return {};
  if (!method) return typical_value(values);
  if (*method != Aggregate::kList) return aggregate(values, *method);
  return values.size() == 1 ? values.front() : table.text(list_text(values));
}

std::string column_name(std::string_view property, std::optional<Aggregate> method) {
  std::string name(property);
  if (method && *method != Aggregate::kList) {
    name += "-" + aggregate_names()[static_cast<size_t>(*method)];
  }
  return name;
}

void outcome_columns(TableBuilder& builder) {
  builder.column("status",
                 [](const Repeats& row) { return Scalar::text(to_string(row.first().status)); });
  builder.column("reason_code", [](const Repeats& row) {
    return row.first().reason ? Scalar::text(to_string(row.first().reason->code)) : Scalar();
  });
  const auto reason_text = [&](const char* name, std::string Reason::*member) {
    builder.column(name, [member](const Repeats& row) {
      return row.first().reason ? text_or_null(*row.first().reason.*member) : Scalar();
    });
  };
  reason_text("reason_message", &Reason::message);
  reason_text("evidence", &Reason::evidence);
  reason_text("log", &Reason::log);
}

void figure_columns(TableBuilder& builder) {
  const std::vector<std::string_view> inputs = builder.rows().input_names();
  std::vector<std::string> names;
  std::vector<Samples> samples;
  for (const FigureSpec& spec : figure_specs()) {
    if (std::find(inputs.begin(), inputs.end(), spec.name) != inputs.end()) continue;
    names.emplace_back(spec.name);
    samples.emplace_back(spec.name, &StoredResult::figures);
  }
  builder.columns(names, [&](const Repeats& row, size_t k) {
    const std::vector<Scalar>& values = samples[k](row);
    if (values.empty()) return Scalar();
    return values.front().is_text() ? values.front() : typical_value(values);
  });
}

// Those that are no columns of the entity.
void input_columns(TableBuilder& builder) {
  std::vector<std::string> names;
  std::vector<InputValues> values;
  for (const std::string_view name : builder.rows().input_names()) {
    if (builder.has(name)) continue;
    names.emplace_back(name);
    values.emplace_back(name);
  }
  builder.columns(names, [&](const Repeats& row, size_t k) {
    return values[k](row.first()).value_or(Scalar());
  });
}

void wide_columns(TableBuilder& builder, const DevicePrices& prices) {
  outcome_columns(builder);
  builder.count_column();
  builder.spread_column();
  hour_column(builder);
  cost_column(builder, prices);
  figure_columns(builder);
  input_columns(builder);
  builder.column("started_at",
                 [](const Repeats& row) { return text_or_null(row.first().started_at); });
  builder.column("finished_at",
                 [](const Repeats& row) { return text_or_null(row.samples.back()->finished_at); });
  builder.column("key", [](const Repeats& row) { return text_or_null(row.first().key); });
  builder.column("command", [](const Repeats& row) { return text_or_null(row.first().command); });
}

// The order in which the experiments of ado's actuator list what they measure.
constexpr std::string_view kAdoOrder[] = {"f_gpu_oom",
                                          "f_other_error",
                                          "f_no_error",
                                          "is_valid",
                                          "dataset_tokens_per_second_per_gpu",
                                          "train_runtime",
                                          "dataset_tokens_per_second",
                                          "train_samples_per_second",
                                          "train_steps_per_second",
                                          "train_tokens_per_second",
                                          "train_tokens_per_gpu_per_second",
                                          "cpu_compute_utilization",
                                          "cpu_memory_utilization",
                                          "gpu_compute_utilization_min",
                                          "gpu_compute_utilization_avg",
                                          "gpu_compute_utilization_max",
                                          "gpu_memory_utilization_min",
                                          "gpu_memory_utilization_avg",
                                          "gpu_memory_utilization_max",
                                          "gpu_memory_utilization_peak",
                                          "gpu_power_watts_min",
                                          "gpu_power_watts_avg",
                                          "gpu_power_watts_max",
                                          "gpu_power_percent_min",
                                          "gpu_power_percent_avg",
                                          "gpu_power_percent_max"};

// What a measurement has, as ado lists it; what ado does not know follows.
std::vector<std::string_view> names_as_ado(const StoredResult& result) {
  const auto rank = [](std::string_view name) {
    return std::find(std::begin(kAdoOrder), std::end(kAdoOrder), name) - std::begin(kAdoOrder);
  };
  std::vector<std::string_view> names;
  for (size_t i = 0; i < result.measured.size(); ++i) {
    if (!result.measured.value(i).is_null()) names.push_back(result.measured.name(i));
  }
  std::stable_sort(names.begin(), names.end(),
                   [&](std::string_view a, std::string_view b) { return rank(a) < rank(b); });
  return names;
}

// Columns in the order in which pandas meets them: those of the first row, then what later rows
// add.
std::vector<std::string_view> measured_as_met(const SortedRows& rows) {
  std::vector<std::string_view> all;
  std::set<const Record::Names*> seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const StoredResult* sample : rows.row(i).samples) {
      if (!seen.insert(sample->measured.names()).second) continue;
      for (const std::string_view name : names_as_ado(*sample)) {
        if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
      }
    }
  }
  return all;
}

ReportTable target_table(SortedRows rows, const AdoLayout& layout) {
  TableBuilder builder(std::move(rows));
  builder.column("identifier",
                 [](const Repeats& row) { return Scalar::text(row.first().entity_id); });
  builder.column("generatorid", [](const Repeats&) { return Scalar::text(kGenerator); });
  builder.column("experiment_id",
                 [](const Repeats& row) { return Scalar::text(row.first().experiment_id); });
  builder.entity_columns();
  std::vector<std::string> names;
  std::vector<Samples> samples;
  for (const std::string_view name : measured_as_met(builder.rows())) {
    names.push_back(column_name(name, layout.method));
    samples.emplace_back(name, &StoredResult::measured);
  }
  builder.columns(names, [&](const Repeats& row, size_t k) {
    return one_cell(samples[k](row), layout.method, builder);
  });
  builder.numbers_like_pandas();
  const size_t of_ado = builder.column_count();
  if (layout.wide) wide_columns(builder, layout.prices);
  return builder.table(builder.rows().size() == 0 ? 0 : of_ado);
}

// "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.8" without the actuator, which ends at the
// first dot.
std::string_view without_actuator(std::string_view experiment_id) {
  return experiment_id.substr(experiment_id.find('.') + 1);
}

// One row per entity: the rows of `sorted` that belong to it are all its experiments' samples.
class ObservedTable {
 public:
  ObservedTable(const SortedRows& sorted, std::optional<Aggregate> method)
      : sorted_(sorted), method_(method) {}

  ReportTable make() {
    for (size_t i = 0; i < sorted_.size(); ++i) {
      const auto [row, is_new] = row_of_.emplace(sorted_.entity(i), first_.size());
      if (is_new && !first_.empty()) end_of_entity();
      if (is_new) first_.push_back(i);
      add(sorted_.row(i), row->second);
    }
    if (!first_.empty()) end_of_entity();
    table_.rows = first_.size();
    for (Observed& observed : observed_) fill(observed);
    fill_entities();
    return std::move(table_);
  }

 private:
  struct Observed {
    size_t column;
    std::map<size_t, std::vector<Scalar>> values;  // by row
  };

  void add(const Repeats& row, size_t number) {
    for (const StoredResult* sample : row.samples) {
      for (const std::string_view name : names_as_ado(*sample)) {
        const auto [known, is_new] =
            index_of_.emplace(std::pair(sample->experiment_id, name), observed_.size());
        if (is_new) {
          observed_.push_back({table_.columns.size(), {}});
          table_.columns.push_back({std::string(without_actuator(sample->experiment_id)) + "-" +
                                        column_name(name, method_),
                                    {}});
        }
        observed_[known->second].values[number].push_back(sample->measured[name]);
      }
    }
  }

  // The columns that every row has follow the first row's observations.
  void end_of_entity() {
    if (entity_columns_) return;
    entity_columns_ = table_.columns.size();
    for (const std::string_view name : sorted_.entity_names()) {
      table_.columns.push_back({std::string(name), {}});
    }
    table_.columns.push_back({"identifier", {}});
    table_.columns.push_back({"generatorid", {}});
  }

  void fill(Observed& observed) {
    ReportColumn& column = table_.columns[observed.column];
    column.cells.resize(table_.rows);
    for (const auto& [row, values] : observed.values) {
      column.cells[row] = one_cell(values, method_, table_);
    }
    numbers_like_pandas(column);
  }

  void fill_entities() {
    if (!entity_columns_) return;
    size_t at = *entity_columns_;
    const auto fill_column = [&](const auto& cell) {
      ReportColumn& column = table_.columns[at++];
      for (const size_t i : first_) column.cells.push_back(cell(i));
      numbers_like_pandas(column);
    };
    for (size_t k = 0; k < sorted_.entity_names().size(); ++k) {
      fill_column([&](size_t i) { return sorted_.entity_cell(i, k); });
    }
    fill_column([&](size_t i) { return Scalar::text(sorted_.row(i).first().entity_id); });
    fill_column([](size_t) { return Scalar::text(kGenerator); });
  }

  const SortedRows& sorted_;
  const std::optional<Aggregate> method_;
  ReportTable table_;
  std::map<size_t, size_t> row_of_;  // by entity
  std::vector<size_t> first_;        // of each entity, a row of `sorted_`
  std::map<std::pair<std::string_view, std::string_view>, size_t> index_of_;
  std::vector<Observed> observed_;
  std::optional<size_t> entity_columns_;
};

bool chosen(const StoredResult& result, const ReportFilter& filter) {
  const auto among = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  return among(filter.statuses, result.status) && (among(filter.experiments, result.experiment) ||
                                                   among(filter.experiments, result.experiment_id));
}

void refuse_unknown(const StoreScan& scan, const std::vector<std::string>& experiments) {
  std::set<std::string_view> known;
  for (const StoredResult& result : scan.results) {
    known.insert(result.experiment);
    known.insert(result.experiment_id);
  }
  std::vector<Diagnostic> unknown;
  const std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& name : experiments) {
    if (known.count(name) > 0) continue;
    unknown.push_back({.file = {},
                       .line = 0,
                       .key = "--experiment",
                       .message = "no result of '" + name + "'",
                       .expected = names.empty() ? "" : "one of " + join(names),
                       .nearest = nearest_spelling(name, names)});
  }
  if (!unknown.empty()) throw InputError(std::move(unknown));
}

}  // namespace

size_t select_results(StoreScan& scan, const ReportFilter& filter) {
  refuse_unknown(scan, filter.experiments);
  size_t simulated = 0;
  const auto unwanted = [&](const StoredResult& result) {
    if (!chosen(result, filter)) return true;
    if (filter.simulated || !result.simulated()) return false;
    ++simulated;
    return true;
  };
  scan.results.erase(std::remove_if(scan.results.begin(), scan.results.end(), unwanted),
                     scan.results.end());
  return simulated;
}

ReportTable ado_table(const StoreScan& scan, const AdoLayout& layout) {
  check(!(layout.wide && layout.observed), "a wide table has ado's target layout");
  SortedRows sorted(group_repeats(scan.results), RowOrder::kMeasured);
  if (!layout.wide) {
    sorted.leave_out([](const Repeats& row) { return row.first().status == Status::kFailed; });
  }
  if (layout.observed) return ObservedTable(sorted, layout.method).make();
  return target_table(std::move(sorted), layout);
}

}  // namespace sftbench
