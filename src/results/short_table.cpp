#include "results/cost_columns.h"
#include "results/table_builder.h"
#include "sftbench/results/report.h"
#include "sftbench/results/report_notes.h"

namespace sftbench {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

void median_column(TableBuilder& builder, std::string_view name, Record StoredResult::*record) {
  Samples samples(name, record);
  builder.column(std::string(name), [&](const Repeats& row) {
    const std::vector<Scalar>& values = samples(row);
    return values.empty() ? Scalar() : typical_value(values);
  });
}

// The most that any of the samples had.
void concurrent_cells_column(TableBuilder& builder) {
  Samples samples("concurrent_cells", &StoredResult::figures);
  builder.column("concurrent_cells",
                 [&](const Repeats& row) { return aggregate(samples(row), Aggregate::kMax); });
}

// The memory that decides whether a configuration fits: the device's where there is one.
void memory_column(TableBuilder& builder) {
  Samples device("device_peak_allocated_bytes", &StoredResult::figures);
  Samples host("host_peak_rss_bytes", &StoredResult::figures);
  builder.column("peak_memory_gib", [&](const Repeats& row) {
    const std::vector<Scalar>& bytes = device(row).empty() ? host(row) : device(row);
    if (bytes.empty()) return Scalar();
    return Scalar::number(typical_value(bytes).as_number().value_or(0) / kGiB);
  });
}

}  // namespace

ReportTable short_table(const StoreScan& scan, const DevicePrices& prices) {
  TableBuilder builder(SortedRows(group_repeats(scan.results)));
  const SortedRows& rows = builder.rows();
  bool several_experiments = false;
  bool repeated = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    several_experiments |= rows.row(i).first().experiment != rows.row(0).first().experiment;
    repeated |= rows.row(i).samples.size() > 1;
  }
  if (several_experiments) {
    builder.column("experiment",
                   [](const Repeats& row) { return Scalar::text(row.first().experiment); });
  }
  builder.telling_inputs();
  builder.column("status",
                 [](const Repeats& row) { return Scalar::text(to_string(row.first().status)); });
  builder.column("reason", [](const Repeats& row) {
    return row.first().reason ? Scalar::text(to_string(row.first().reason->code)) : Scalar();
  });
  builder.machine_column();
  if (repeated) {
    builder.count_column();
    builder.spread_column();
  }
  if (concurrent_cell_counts({&scan}).size() > 1) concurrent_cells_column(builder);
  for (const std::string_view name : rows.measured_names()) {
    const bool short_list = name == "train_runtime" || name == "train_samples_per_second" ||
                            name == "dataset_tokens_per_second" || name.substr(0, 2) == "f_";
    if (short_list) median_column(builder, name, &StoredResult::measured);
  }
  cost_column(builder, prices);
  median_column(builder, "padded_tokens_per_second", &StoredResult::figures);
  median_column(builder, "mfu", &StoredResult::figures);
  memory_column(builder);
  median_column(builder, "loss_last", &StoredResult::figures);
  median_column(builder, "eval_loss", &StoredResult::figures);
  return builder.table();
}

}  // namespace sftbench
