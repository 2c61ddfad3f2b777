#include "results/table_builder.h"

#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

#include "sftbench/catalog/catalog.h"
#include "sftbench/measure/measured_properties.h"

namespace sftbench {
namespace {

// Negative, zero, positive: nothing before numbers before texts.
int compare(const Scalar& a, const Scalar& b) {
  const auto rank = [](const Scalar& value) {
    return value.is_null() ? 0 : value.is_text() ? 2 : 1;
  };
  if (rank(a) != rank(b)) return rank(a) - rank(b);
  if (a.is_text()) return a.as_text().compare(b.as_text());
  const double difference = a.as_number().value_or(0) - b.as_number().value_or(0);
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

// Calls `use` with each list of names that `record` has in any row.
template <typename Function>
void for_each_list(const std::vector<Repeats>& rows, Record StoredResult::*record,
                   const Function& use) {
  std::set<const Record::Names*> seen;
  for (const Repeats& row : rows) {
    const Record::Names* names = (row.first().*record).names();
    if (names != nullptr && seen.insert(names).second) use(*names);
  }
}

// The catalog keeps the text.
Scalar scalar_of(const Json& value) {
  if (value.is_boolean()) return Scalar::boolean(value.get<bool>());
  if (value.is_number_integer()) return Scalar::integer(value.get<int64_t>());
  if (value.is_number()) return Scalar::number(value.get<double>());
  return value.is_string() ? Scalar::text(value.get_ref<const std::string&>()) : Scalar();
}

}  // namespace

SortedRows::SortedRows(std::vector<Repeats> rows, RowOrder order)
    : rows_(std::move(rows)), entities_(rows_), order_(rows_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  number_entities();
  if (order == RowOrder::kMeasured) {
    sort_as_measured();
    return;
  }
  std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) { return before(a, b); });
}

bool SortedRows::before(size_t a, size_t b) const {
  for (size_t i = 0; i < entities_.names().size(); ++i) {
    const int sign = compare(entities_.row(a)[i], entities_.row(b)[i]);
    if (sign != 0) return sign < 0;
  }
  const int sign = rows_[a].first().experiment_id.compare(rows_[b].first().experiment_id);
  return sign != 0 ? sign < 0 : a < b;  // the scan's order: by key
}

// Entities are equal when their properties are: 1 and 1.0 are the same, and so are None and
// nothing.
void SortedRows::number_entities() {
  std::unordered_map<std::string, size_t> numbers;
  entity_of_.reserve(rows_.size());
  std::string text;
  for (size_t row = 0; row < rows_.size(); ++row) {
    text.clear();
    for (const Scalar& cell : entities_.row(row)) {
      const std::optional<double> number = cell.as_number();
      append_python_str(text, number ? Scalar::number(*number) : cell);
      text += '\0';
    }
    entity_of_.push_back(numbers.emplace(text, numbers.size()).first->second);
  }
}

void SortedRows::sort_as_measured() {
  const auto began = [this](size_t row) {
    std::string_view first = rows_[row].first().started_at;
    for (const StoredResult* sample : rows_[row].samples)
      first = std::min(first, sample->started_at);
    return first;
  };
  std::vector<std::string_view> times;
  for (size_t row = 0; row < rows_.size(); ++row) times.push_back(began(row));
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return times[a] < times[b]; });
  std::unordered_map<size_t, size_t> entities;
  std::unordered_map<std::string_view, size_t> experiments;
  std::vector<std::pair<size_t, size_t>> ranks(rows_.size());
  for (const size_t row : order_) {
    const size_t entity = entities.emplace(entity_of_[row], entities.size()).first->second;
    const size_t experiment =
        experiments.emplace(rows_[row].first().experiment_id, experiments.size()).first->second;
    ranks[row] = {entity, experiment};
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return ranks[a] < ranks[b]; });
}

std::vector<std::string_view> SortedRows::input_names() const {
  std::set<std::string_view> all;
  for_each_list(rows_, &StoredResult::inputs,
                [&](const Record::Names& names) { all.insert(names.begin(), names.end()); });
  return {all.begin(), all.end()};
}

std::vector<std::string_view> SortedRows::measured_names() const {
  std::vector<std::string_view> all;
  const std::string_view last = kMeasuredProperties.back();
  const auto add = [&](std::string_view name) {
    const bool known = std::find(all.begin(), all.end(), name) != all.end();
    if (!known && name != last) all.push_back(name);
  };
  std::set<std::string_view> experiments;
  for (const Repeats& row : rows_) experiments.insert(row.first().experiment);
  for (const std::string_view experiment : experiments) {
    const Experiment* known = Catalog::shipped().experiment(std::string(experiment));
    if (known == nullptr) continue;
    for (const MeasuredProperty& property : known->measured) add(property.identifier);
  }
  if (all.empty()) all.assign(kMeasuredProperties.begin(), kMeasuredProperties.end() - 1);
  for_each_list(rows_, &StoredResult::measured, [&](const Record::Names& names) {
    for (const std::string_view name : names) add(name);
  });
  all.push_back(last);
  return all;
}

const std::vector<Scalar>& Samples::operator()(const Repeats& row) {
  values_.clear();
  for (const StoredResult* sample : row.samples) {
    const Scalar& value = pick_(sample->*record_);
    if (!value.is_null()) values_.push_back(value);
  }
  return values_;
}

bool TableBuilder::has(std::string_view name) const {
  return std::any_of(table_.columns.begin(), table_.columns.end(),
                     [&](const ReportColumn& column) { return column.name == name; });
}

void TableBuilder::entity_columns() {
  for (size_t k = 0; k < rows_.entity_names().size(); ++k) {
    ReportColumn& column = table_.columns.emplace_back();
    column.name = rows_.entity_names()[k];
    column.cells.reserve(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) column.cells.push_back(rows_.entity_cell(i, k));
  }
}

std::optional<Scalar> InputValues::operator()(const StoredResult& result) {
  const Scalar* given = given_.find(result.inputs);
  return given == nullptr ? usual(result.experiment) : *given;
}

std::optional<Scalar> InputValues::usual(std::string_view experiment) {
  if (experiment == experiment_) return usual_;
  experiment_ = experiment;
  const Experiment* known = Catalog::shipped().experiment(std::string(experiment));
  const PropertySpec* spec = known == nullptr ? nullptr : known->find(input_);
  usual_.reset();
  if (spec != nullptr && spec->argument) usual_ = scalar_of(spec->default_value);
  return usual_;
}

void TableBuilder::telling_inputs(std::string_view without) {
  std::vector<std::string_view> names = rows_.entity_names();  // the space's order first
  for (const std::string_view name : rows_.input_names()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  names.erase(std::remove(names.begin(), names.end(), without), names.end());
  const size_t columns_before = table_.columns.size();
  for (const std::string_view name : names) {
    InputValues value(name);
    const auto input = [&](const Repeats& row) { return value(row.first()).value_or(Scalar()); };
    bool differs = false;
    for (size_t i = 1; i < rows_.size() && !differs; ++i) {
      const Scalar first = input(rows_.row(0));
      differs = !(input(rows_.row(i)) == first);
    }
    if (differs) column(std::string(name), input);
  }
  if (table_.columns.size() == columns_before) entity_columns();
}

void TableBuilder::count_column() {
  column("n", [](const Repeats& row) {
    return Scalar::integer(static_cast<int64_t>(row.samples.size()));
  });
}

void TableBuilder::spread_column() {
  Samples tokens("dataset_tokens_per_second", &StoredResult::measured);
  Samples entries("train_samples_per_second", &StoredResult::measured);
  column("spread_percent", [&](const Repeats& row) {
    const std::vector<Scalar>& rates = tokens(row).empty() ? entries(row) : tokens(row);
    const std::optional<double> spread = spread_percent(rates);
    return spread ? Scalar::number(*spread) : Scalar();
  });
}

void TableBuilder::machine_column() {
  Samples waits("run_queue_wait_share", &StoredResult::figures);
  column("machine", [&](const Repeats& row) {
    if (row.first().simulated()) return Scalar::text("simulated");
    const std::optional<double> share = aggregate(waits(row), Aggregate::kMax).as_number();
    if (!share || *share < kBusyShare) return Scalar();
    return text("busy, " + std::to_string(std::llround(100 * *share)) + " % waited");
  });
}

void TableBuilder::numbers_like_pandas() {
  for (ReportColumn& column : table_.columns) sftbench::numbers_like_pandas(column);
}

void numbers_like_pandas(ReportColumn& column) {
  bool floats = false;
  for (const Scalar& cell : column.cells) {
    if (!cell.is_null() && !cell.as_number()) return;  // objects stay what they are
    floats = floats || cell.is_null() || cell.kind() == Scalar::Kind::kNumber;
  }
  if (!floats) return;
  for (Scalar& cell : column.cells) {
    if (const std::optional<double> number = cell.as_number()) cell = Scalar::number(*number);
  }
}

Scalar text_or_null(std::string_view text) {
  return text.empty() ? Scalar() : Scalar::text(text);
}

}  // namespace sftbench
