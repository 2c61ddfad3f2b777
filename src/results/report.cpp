#include "sftbench/results/report.h"

#include <algorithm>
#include <map>
#include <set>

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
  std::vector<Picker> pick;
  for (const std::string_view name : builder.rows().input_names()) {
    if (builder.has(name)) continue;
    names.emplace_back(name);
    pick.emplace_back(name);
  }
  builder.columns(names, [&](const Repeats& row, size_t k) { return pick[k](row.first().inputs); });
}

void wide_columns(TableBuilder& builder) {
  outcome_columns(builder);
  builder.count_column();
  builder.spread_column();
  figure_columns(builder);
  input_columns(builder);
  builder.column("started_at",
                 [](const Repeats& row) { return text_or_null(row.first().started_at); });
  builder.column("finished_at",
                 [](const Repeats& row) { return text_or_null(row.samples.back()->finished_at); });
  builder.column("key", [](const Repeats& row) { return text_or_null(row.first().key); });
  builder.column("command", [](const Repeats& row) { return text_or_null(row.first().command); });
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
  for (const std::string_view name : builder.rows().measured_names()) {
    names.push_back(column_name(name, layout.method));
    samples.emplace_back(name, &StoredResult::measured);
  }
  builder.columns(names, [&](const Repeats& row, size_t k) {
    return one_cell(samples[k](row), layout.method, builder);
  });
  if (layout.wide) wide_columns(builder);
  return builder.table();
}

// "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.8" without the actuator, which ends at the
// first dot.
std::string_view without_actuator(std::string_view experiment_id) {
  return experiment_id.substr(experiment_id.find('.') + 1);
}

// A column of integers of which some are missing is one of floats in pandas: 1.0.
void float_like_pandas(ReportColumn& column) {
  bool missing = false;
  for (const Scalar& cell : column.cells) {
    missing = missing || cell.is_null();
    if (!cell.is_null() && !cell.as_number()) return;  // objects stay what they are
  }
  if (!missing) return;
  for (Scalar& cell : column.cells) {
    if (const std::optional<double> number = cell.as_number()) cell = Scalar::number(*number);
  }
}

// One row per entity: the rows of `sorted` that belong to it are all its experiments' samples.
ReportTable observed_table(const SortedRows& sorted, std::optional<Aggregate> method) {
  std::set<std::string_view> experiments;
  std::map<std::string_view, size_t> row_of;  // by entity
  std::vector<size_t> first;                  // of each entity, a row of `sorted`
  for (size_t i = 0; i < sorted.size(); ++i) {
    const StoredResult& result = sorted.row(i).first();
    experiments.insert(result.experiment_id);
    if (row_of.emplace(result.entity_id, first.size()).second) first.push_back(i);
  }

  ReportTable table;
  table.rows = first.size();
  for (const std::string_view experiment : experiments) {
    for (const std::string_view name : sorted.measured_names()) {
      std::vector<std::vector<Scalar>> values(table.rows);
      Samples samples(name, &StoredResult::measured);
      for (size_t i = 0; i < sorted.size(); ++i) {
        const Repeats& row = sorted.row(i);
        if (row.first().experiment_id != experiment) continue;
        std::vector<Scalar>& cell = values[row_of.at(row.first().entity_id)];
        const std::vector<Scalar>& more = samples(row);
        cell.insert(cell.end(), more.begin(), more.end());
      }
      ReportColumn& column = table.columns.emplace_back();
      column.name = std::string(without_actuator(experiment)) + "-" + column_name(name, method);
      for (const std::vector<Scalar>& cell : values) {
        column.cells.push_back(one_cell(cell, method, table));
      }
      float_like_pandas(column);
    }
  }
  const auto entity_column = [&](std::string_view name, const auto& cell) {
    ReportColumn& column = table.columns.emplace_back();
    column.name = name;
    for (const size_t i : first) column.cells.push_back(cell(i));
  };
  const std::vector<std::string_view>& names = sorted.entity_names();
  for (size_t k = 0; k < names.size(); ++k) {
    entity_column(names[k], [&](size_t i) { return sorted.entity_cell(i, k); });
  }
  entity_column("identifier",
                [&](size_t i) { return Scalar::text(sorted.row(i).first().entity_id); });
  entity_column("generatorid", [](size_t) { return Scalar::text(kGenerator); });
  table.drop_empty_columns();
  return table;
}

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
  std::vector<Repeats> rows = group_repeats(scan.results);
  if (!layout.wide) {
    const auto failed = [](const Repeats& row) { return row.first().status == Status::kFailed; };
    rows.erase(std::remove_if(rows.begin(), rows.end(), failed), rows.end());
  }
  SortedRows sorted(std::move(rows));
  if (layout.observed) return observed_table(sorted, layout.method);
  return target_table(std::move(sorted), layout);
}

}  // namespace sftbench
