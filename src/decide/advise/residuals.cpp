#include "sftbench/advise/residuals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/variants/tuning_method.h"

namespace sftbench {
namespace {

// Of logarithms, nine of ten. Of a program that nothing was compared with: what holds nine of ten
// rows of the four sources of bench/truth/published.csv that are not held out, each source alike,
// times what Student's t has for four of them over a normal distribution. Of a property that no
// compared row has, and of a doubling beyond all: chosen with it.
constexpr double kOtherProgram = 0.285, kOtherKind = 0.12, kDoubling = 0.06;
constexpr size_t kLeastModels = 3;
constexpr size_t kLeastRows = 19;

// What is far from the rows that an interval rests on, as a half-width of logarithms.
constexpr double kFarLength = 0.08;   // of each doubling or halving of the rows' length
constexpr double kFarNodes = 0.5;     // a network that nobody measured
constexpr double kFarFloat8 = 0.25;   // no row of residuals.json computes in it
constexpr double kFarFourBits = 0.2;  // quantizers and their kernels differ
constexpr double kFarOnBoth = 0.3;    // beside an unknown GPU an unknown stack

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

// The least value that a share of (n + 1) / n of kIntervalLevel is not above; beyond the largest
// one, that.
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

double doublings_beyond(int64_t number, const std::pair<int64_t, int64_t>& range) {
  const auto value = static_cast<double>(std::max<int64_t>(1, number));
  return std::max(std::log2(static_cast<double>(range.first) / value),
                  std::log2(value / static_cast<double>(range.second)));
}

std::string range_text(const std::pair<int64_t, int64_t>& range) {
  const std::string least = std::to_string(range.first);
  return range.first == range.second ? least : least + " to " + std::to_string(range.second);
}

struct Level {
  const char* words;
  const char* words_of_memory;
  bool (*matches)(const Residual&, const PredictedCase&);
};

// Memory does not depend on how fast a GPU is.
bool is_same_machine(const Residual& row, const PredictedCase& at) {
  return row.figure == Figure::kMemory || row.at.machine == at.machine;
}

const std::vector<Level>& levels() {
  static const std::vector<Level> kAll = {
      {"of this method on this GPU with this stack", "of this method with this stack on an A100",
       [](const Residual& row, const PredictedCase& at) {
         return is_same_machine(row, at) && row.at.stack == at.stack && row.at.method == at.method;
       }},
      {"on this GPU with this stack", "with this stack on an A100",
       [](const Residual& row, const PredictedCase& at) {
         return is_same_machine(row, at) && row.at.stack == at.stack;
       }}};
  return kAll;
}

bool is_large_enough(const std::vector<const Residual*>& rows) {
  std::set<std::string> models;
  for (const Residual* row : rows) models.insert(row->at.model);
  return rows.size() >= kLeastRows && models.size() >= kLeastModels;
}

void put_range(const std::vector<const Residual*>& rows, int64_t PredictedCase::*number,
               std::pair<int64_t, int64_t>& range) {
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(),
      [number](const Residual* a, const Residual* b) { return a->at.*number < b->at.*number; });
  range = {(*least)->at.*number, (*most)->at.*number};
}

[[noreturn]] void refuse_table(const std::string& origin, const std::string& key) {
  throw InputError({{origin,
                     0,
                     key,
                     "is missing or of the wrong type",
                     "what bench/truth/residuals.sh writes",
                     {}}});
}

Residual row_of(const Json& json) {
  Residual row;
  row.figure = json.at(0).get<std::string>() == "memory" ? Figure::kMemory : Figure::kTime;
  row.at = {json.at(1), json.at(2), json.at(3), json.at(4),
            json.at(5), json.at(6), json.at(7), json.at(8)};
  row.fitted = json.at(9);
  row.assumed = json.at(10);
  row.log_ratio = json.at(11);
  row.at.nodes = json.at(12);
  return row;
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

void ResidualTable::put_reach(const std::vector<const Residual*>& rows, const PredictedCase& at,
                              Group& group) const {
  put_range(rows, &PredictedCase::length, group.lengths);
  put_range(rows, &PredictedCase::ranks, group.ranks);
  for (const Residual* row : rows) {
    group.methods.insert(row->at.method);
    group.checkpointing.insert(row->at.checkpointing);
    // Another machine's network tells nothing of this one's.
    group.several_nodes |= row->at.nodes > 1 && row->at.machine == at.machine;
  }
  for (const Residual& row : rows_) {
    if (row.figure != Figure::kTime || row.assumed) continue;
    group.machine |= at.machine.starts_with(row.at.machine);  // with given constants, too
    group.stack |= row.at.stack == at.stack;
  }
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
    group.interval.basis = figure == Figure::kTime ? level.words : level.words_of_memory;
    if (is_large_enough(rows)) break;
    group.other_method = true;
    rows.clear();
  }
  if (rows.empty()) {
    group.interval.assumed = true;
    group.other_method = false;
    const bool of_time = figure == Figure::kTime;
    group.interval.basis = of_time
                               ? "predicted with the constants of another GPU, since nothing like "
                                 "this was compared"
                               : "of other stacks, since nothing of this one was compared";
    collect(of_time, [](const Residual&) { return true; });
  }
  if (rows.empty()) return group;
  put_reach(rows, at, group);
  group.interval.residuals = static_cast<int64_t>(rows.size());
  group.half_width = conformal_quantile(weighted(rows, [](double x) { return std::abs(x); }));
  // This program's own arithmetic is held to rehearsals (bench/exact).
  if (group.interval.assumed && figure == Figure::kMemory && at.stack != "sftbench" &&
      group.half_width < kOtherProgram) {
    if (group.half_width > 0) group.widened = kOtherProgram / group.half_width;
    group.half_width = kOtherProgram;
  }
  group.signed_weights = weighted(rows, [](double x) { return x; });
  group.interval.low = std::exp(-group.half_width);
  group.interval.high = std::exp(group.half_width);
  return group;
}

void ResidualTable::Distance::add(double half_width, const std::string& what) {
  if (half_width <= 0) return;
  squared += half_width * half_width;
  far.push_back(what);
}

ResidualTable::Distance ResidualTable::distance(Figure figure, const PredictedCase& at,
                                                const Group& group) {
  Distance distance;
  if (group.methods.empty()) return distance;
  const bool of_time = figure == Figure::kTime;
  if (at.of_other_family) distance.add(kOtherKind, "a family that is not trained");
  const double of_length = doublings_beyond(at.length, group.lengths);
  distance.add((of_time ? kFarLength : kDoubling) * of_length,
               "rows of " + counted(at.length, "token") + ", where " + range_text(group.lengths) +
                   " were measured");
  if (!of_time) {
    distance.add(kDoubling * doublings_beyond(at.ranks, group.ranks), counted(at.ranks, "rank"));
    if (!group.methods.contains(at.method)) distance.add(kOtherKind, at.method);
    if (!group.checkpointing.contains(at.checkpointing))
      distance.add(kOtherKind,
                   at.checkpointing ? "gradient checkpointing" : "no gradient checkpointing");
    if (at.eager_attention) distance.add(kOtherKind, "attention without flash kernels");
    return distance;
  }
  if (at.nodes > 1 && !group.several_nodes)
    distance.add(kFarNodes, counted(at.nodes, "node") + ", where one was measured");
  if (group.other_method && at.method == name_of(TuningMethod::kGptqLora))
    distance.add(kFarFourBits, "4-bit weights, of which few rows were measured");
  if (at.float8) distance.add(kFarFloat8, "float8, which was never measured");
  if (!group.machine && !group.stack)
    distance.add(kFarOnBoth, "a GPU and a stack neither of which was measured");
  return distance;
}

Interval ResidualTable::interval(Figure figure, const PredictedCase& at,
                                 const std::string& without_model) const {
  const Group& nearest = group(figure, at, without_model);
  Interval interval = nearest.interval;
  const Distance far = distance(figure, at, nearest);
  if (far.far.empty()) return interval;
  interval.far = true;
  interval.high = std::exp(std::hypot(nearest.half_width, std::sqrt(far.squared)));
  interval.low = 1 / interval.high;
  interval.basis += "; wider for " + join(far.far);
  return interval;
}

double ResidualTable::chance_above(Figure figure, const PredictedCase& at, double factor) const {
  const Group& all = group(figure, at, {});
  if (all.signed_weights.empty()) return factor < 1 ? 1 : 0;
  if (factor <= 0) return 1;
  // As if all errors were as much larger as the interval is.
  const double far = distance(figure, at, all).squared;
  const double wider =
      far > 0 && all.half_width > 0 ? std::hypot(1, std::sqrt(far) / all.half_width) : 1;
  const double limit = std::log(factor) / (wider * all.widened);
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
