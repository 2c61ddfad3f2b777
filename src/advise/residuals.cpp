#include "sftbench/advise/residuals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr const char* kResidualSchema = "sftbench.residuals/1";
constexpr size_t kLeastModels = 3;
constexpr size_t kLeastRows = 19;

using Weighted = std::vector<std::pair<double, double>>;  // value and weight

// Values with weights that add up to 1, each model's together as much as another's.
Weighted weighted(const std::vector<const Residual*>& rows,
                  const std::function<double(double)>& of) {
  std::map<std::string, double> of_model;
  for (const Residual* row : rows) ++of_model[row->at.model];
  Weighted values;
  const auto models = static_cast<double>(of_model.size());
  for (const Residual* row : rows) {
    values.emplace_back(of(row->log_ratio), 1 / (models * of_model[row->at.model]));
  }
  std::sort(values.begin(), values.end());
  return values;
}

// The least value that a share of (n + 1) / n of kIntervalLevel is not above; beyond the largest one, that.
double conformal_quantile(const Weighted& values) {
  const auto n = static_cast<double>(values.size());
  const double wanted = std::min(1.0, kIntervalLevel * (n + 1) / n);
  double sum = 0;
  for (const auto& [value, weight] : values) {
    sum += weight;
    if (sum >= wanted - 1e-12) return value;
  }
  return values.back().first;
}

struct Level {
  const char* words;
  bool (*matches)(const Residual&, const PredictedCase&);
};

// Memory does not depend on how fast a GPU is.
bool is_same_machine(const Residual& row, const PredictedCase& at) {
  return row.figure == Figure::kMemory || row.at.machine == at.machine;
}

const std::vector<Level>& levels() {
  static const std::vector<Level> kAll = {
      {"of this method on this GPU with this stack",
       [](const Residual& row, const PredictedCase& at) {
         return is_same_machine(row, at) && row.at.stack == at.stack && row.at.method == at.method;
       }},
      {"on this GPU with this stack", [](const Residual& row, const PredictedCase& at) {
         return is_same_machine(row, at) && row.at.stack == at.stack;
       }}};
  return kAll;
}

bool is_large_enough(const std::vector<const Residual*>& rows) {
  std::set<std::string> models;
  for (const Residual* row : rows) models.insert(row->at.model);
  return rows.size() >= kLeastRows && models.size() >= kLeastModels;
}

[[noreturn]] void refuse_table(const std::string& origin, const std::string& key) {
  throw InputError({{origin,
                     0,
                     key,
                     "is missing or of the wrong type",
                     "what bench/truth/residuals.sh writes",
                     {}}});
}

Json row_json(const Residual& row) {
  return {name_of(row.figure), row.at.machine, row.at.stack,
          row.at.method,       row.at.model,   row.at.ranks,
          row.at.batch,        row.at.length,  row.at.checkpointing,
          row.fitted,          row.assumed,    std::round(row.log_ratio * 1e4) / 1e4};
}

Residual row_of(const Json& json) {
  Residual row;
  row.figure = json.at(0).get<std::string>() == "memory" ? Figure::kMemory : Figure::kTime;
  row.at = {json.at(1), json.at(2), json.at(3), json.at(4),
            json.at(5), json.at(6), json.at(7), json.at(8)};
  row.fitted = json.at(9);
  row.assumed = json.at(10);
  row.log_ratio = json.at(11);
  return row;
}

Json spread_json(const Spread& s) {
  return {{"offset", s.offset},     {"model", s.model}, {"near", s.near},
          {"distance", s.distance}, {"noise", s.noise}, {"widening", s.widening}};
}

Spread spread_of(const Json& json) {
  return {json.at("offset"),   json.at("model"), json.at("near"),
          json.at("distance"), json.at("noise"), json.at("widening")};
}

}  // namespace

const char* name_of(Figure figure) {
  return figure == Figure::kTime ? "time" : "memory";
}

const ResidualTable& ResidualTable::shipped() {
  static const ResidualTable kTable = [] {
    const std::string path = (resource_directory() / "config" / "residuals.json").string();
    return from_json(parse_json(read_file(path), path), path);
  }();
  return kTable;
}

ResidualTable::ResidualTable(std::vector<Residual> rows, std::map<Figure, Spread> spreads)
    : rows_(std::move(rows)), spreads_(std::move(spreads)) {}

ResidualTable ResidualTable::from_json(const Json& json, const std::string& origin) {
  if (!json.is_object() || json.value("schema", std::string()) != kResidualSchema)
    refuse_table(origin, "schema");
  ResidualTable table;
  try {
    for (const Figure figure : {Figure::kTime, Figure::kMemory})
      table.spreads_[figure] = spread_of(json.at("spread").at(name_of(figure)));
    for (const Json& row : json.at("rows")) table.rows_.push_back(row_of(row));
  } catch (const Json::exception&) {
    refuse_table(origin, "rows, spread");
  }
  return table;
}

std::string ResidualTable::text() const {
  const Json columns = {"figure", "machine", "stack",         "method", "model",   "ranks",
                        "batch",  "length",  "checkpointing", "fitted", "assumed", "log_ratio"};
  const Json spreads = {{"time", spread_json(spread(Figure::kTime))},
                        {"memory", spread_json(spread(Figure::kMemory))}};
  std::string text =
      std::string("{\"schema\": \"") + kResidualSchema +
      "\", \"made_by\": \"bench/truth/residuals.sh\",\n\"spread\": " + json_text(spreads) +
      ",\n\"columns\": " + json_text(columns) + ",\n\"rows\": [";
  const char* separator = "\n";
  for (const Residual& row : rows_) {
    text += separator + json_text(row_json(row));
    separator = ",\n";
  }
  return text + "]}\n";
}

const Spread& ResidualTable::spread(Figure figure) const {
  static const Spread kNone;
  const auto found = spreads_.find(figure);
  return found == spreads_.end() ? kNone : found->second;
}

const ResidualTable::Group& ResidualTable::group(Figure figure, const PredictedCase& at,
                                                 const std::string& without) const {
  const Key key = {figure, at.machine, at.stack, at.method, without};
  const std::lock_guard lock(cache_.mutex);
  const auto found = cache_.groups.find(key);
  if (found != cache_.groups.end()) return found->second;
  return cache_.groups.emplace(key, make_group(figure, at, without)).first->second;
}

ResidualTable::Group ResidualTable::make_group(Figure figure, const PredictedCase& at,
                                               const std::string& without) const {
  std::vector<const Residual*> rows;
  const auto collect = [&](bool assumed, auto matches) {
    rows.clear();
    for (const Residual& row : rows_) {
      if (row.figure != figure || row.at.model == without || row.assumed != assumed) continue;
      const bool counts = !row.fitted || figure == Figure::kMemory;
      if (counts && matches(row)) rows.push_back(&row);
    }
  };
  Group group;
  for (const Level& level : levels()) {
    collect(false, [&](const Residual& row) { return level.matches(row, at); });
    group.interval.basis = level.words;
    if (is_large_enough(rows)) break;
    rows.clear();
  }
  if (rows.empty()) {
    group.interval.assumed = true;
    const bool of_time = figure == Figure::kTime;
    group.interval.basis = of_time
                               ? "predicted with the constants of another GPU, since nothing like "
                                 "this was compared"
                               : "of other stacks, since nothing of this one was compared";
    collect(of_time, [](const Residual&) { return true; });
  }
  if (rows.empty()) return group;
  group.interval.residuals = static_cast<int64_t>(rows.size());
  group.half_width = conformal_quantile(weighted(rows, [](double x) { return std::abs(x); }));
  group.signed_weights = weighted(rows, [](double x) { return x; });
  group.interval.low = std::exp(-group.half_width);
  group.interval.high = std::exp(group.half_width);
  return group;
}

Interval ResidualTable::interval(Figure figure, const PredictedCase& at,
                                 const std::string& without_model) const {
  return group(figure, at, without_model).interval;
}

double ResidualTable::chance_above(Figure figure, const PredictedCase& at, double factor) const {
  const Group& all = group(figure, at, {});
  if (all.signed_weights.empty()) return factor < 1 ? 1 : 0;
  if (factor <= 0) return 1;
  const double limit = std::log(factor);
  const auto n = static_cast<double>(all.signed_weights.size());
  double above = 0, spread = 0;
  for (const auto& [value, weight] : all.signed_weights) {
    if (value > limit) above += weight;
    spread += weight * std::abs(value);
  }
  // The next measurement is one more, which may be beyond all others: less probable the further.
  const double chance = (above * n + 1) / (n + 1);
  const double beyond = limit - all.signed_weights.back().first;
  const double below = all.signed_weights.front().first - limit;
  if (beyond > 0) return chance * std::exp(-beyond / std::max(spread, 1e-9));
  if (below > 0) return 1 - std::exp(-below / std::max(spread, 1e-9)) / (n + 1);
  return std::min(chance, n / (n + 1));
}

}  // namespace sftbench
