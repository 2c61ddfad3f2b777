// What the layouts of a report are made from: rows in their order, and columns filled row by row.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/entity_columns.h"
#include "sftbench/results/repeats.h"
#include "sftbench/results/report_table.h"

namespace sftbench {

enum class RowOrder {
  kEntity,    // by the entities' properties, then by experiment
  kMeasured,  // entities, and within each of them experiments, as they were first measured
};

// Rows with their entities' properties.
class SortedRows {
 public:
  explicit SortedRows(std::vector<Repeats> rows, RowOrder order = RowOrder::kEntity);

  // Leaves these rows out of an order that they have helped to make.
  template <typename Function>
  void leave_out(const Function& unwanted) {
    order_.erase(std::remove_if(order_.begin(), order_.end(),
                                [&](size_t row) { return unwanted(rows_[row]); }),
                 order_.end());
  }

  size_t size() const { return order_.size(); }
  const Repeats& row(size_t index) const { return rows_[order_[index]]; }
  const std::vector<std::string_view>& entity_names() const { return entities_.names(); }
  const Scalar& entity_cell(size_t index, size_t column) const {
    return entities_.row(order_[index])[column];
  }
  // The same for rows of one entity, in whichever generation of ado's ids it is named.
  size_t entity(size_t index) const { return entity_of_[order_[index]]; }

  // The names that any row has among its inputs, sorted.
  std::vector<std::string_view> input_names() const;
  // What any row measured: ado's properties in ado's order whether measured or not, others behind
  // them (the stability experiment's), is_valid last.
  std::vector<std::string_view> measured_names() const;

 private:
  bool before(size_t a, size_t b) const;
  void number_entities();
  void sort_as_measured();

  std::vector<Repeats> rows_;
  EntityColumns entities_;
  std::vector<size_t> entity_of_;  // of each row
  std::vector<size_t> order_;
};

// The values that a row's samples have for a name; absent ones are left out.
class Samples {
 public:
  Samples(std::string_view name, Record StoredResult::*record) : pick_(name), record_(record) {}
  const std::vector<Scalar>& operator()(const Repeats& row);

 private:
  Picker pick_;
  Record StoredResult::*record_;
  std::vector<Scalar> values_;
};

// The values of an input: as stored, None included, else what the experiment takes.
class InputValues {
 public:
  // `input` outlives this.
  explicit InputValues(std::string_view input) : input_(input), given_(input) {}
  // A null is None. Nothing where a result does not say and its experiment is not known.
  std::optional<Scalar> operator()(const StoredResult& result);

 private:
  std::optional<Scalar> usual(std::string_view experiment);

  std::string_view input_, experiment_;
  Picker given_;
  std::optional<Scalar> usual_;
};

// Builds columns row by row.
class TableBuilder {
 public:
  explicit TableBuilder(SortedRows rows) : rows_(std::move(rows)) { table_.rows = rows_.size(); }

  const SortedRows& rows() const { return rows_; }
  bool has(std::string_view name) const;

  // `cell` is called for each row: Scalar(const Repeats&).
  template <typename Function>
  void column(std::string name, const Function& cell) {
    ReportColumn& column = table_.columns.emplace_back();
    column.name = std::move(name);
    column.cells.reserve(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) column.cells.push_back(cell(rows_.row(i)));
  }

  // Several columns in one pass over the rows: `cell(row, k)` is called for the k-th name. Many
  // times faster than one pass each once the results exceed the cache.
  template <typename Function>
  void columns(const std::vector<std::string>& names, const Function& cell) {
    const size_t first = table_.columns.size();
    for (const std::string& name : names) {
      table_.columns.push_back({name, std::vector<Scalar>(rows_.size())});
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (size_t k = 0; k < names.size(); ++k) {
        table_.columns[first + k].cells[i] = cell(rows_.row(i), k);
      }
    }
  }

  void entity_columns();
  // The inputs that tell rows apart; where none does (there is but one row), the entity's
  // properties. Without one that has a column of its own.
  void telling_inputs(std::string_view without = {});
  void count_column();   // n: how many samples a row has
  void spread_column();  // spread_percent: how far their rates lie apart
  // machine: "simulated", or "busy, 38 % waited" of a machine whose speed is too low; else empty.
  void machine_column();

  // Keeps a text for cells.
  Scalar text(std::string text) { return table_.text(std::move(text)); }
  size_t column_count() const { return table_.columns.size(); }
  // Integers among other numbers, or with gaps between them, are floats to pandas: 1.0.
  void numbers_like_pandas();
  // The first `kept` columns, and of the others those that hold something.
  ReportTable table(size_t kept = 0) {
    table_.drop_empty_columns(kept);
    return std::move(table_);
  }

 private:
  SortedRows rows_;
  ReportTable table_;
};

Scalar text_or_null(std::string_view text);
void numbers_like_pandas(ReportColumn& column);

}  // namespace sftbench
