#include "published_tables.h"

#include <algorithm>
#include <cmath>

#include "sftbench/advise/own_evidence.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/actuator.h"

namespace sftbench {
namespace {

std::optional<double> rate_of(const Evidence& row) {
  if (row.outcome != EvidenceOutcome::kValid || !row.tokens_per_second) return std::nullopt;
  return *row.tokens_per_second / std::max(1.0, row.inputs.value("number_gpus", 1.0));
}

void predict(TableRow& row, Oracle& oracle, bool& fitted) {
  const Evidence& evidence = row.evidence;
  const auto experiment = Catalog::shipped().experiment(evidence.experiment);
  try {
    const Prediction prediction =
        oracle.predict(request_of(*experiment, evidence.inputs), evidence.stack);
    row.at = prediction.at;
    row.step_s = prediction.cost.step_s;
    row.predicted_rate = prediction.cost.positions_per_second() /
                         std::max(1.0, evidence.inputs.value("number_gpus", 1.0));
    row.tensor_bytes = prediction.cost.memory.total();
    const double beside =
        needed_bytes(prediction.cost, prediction.job, prediction.machine) - row.tensor_bytes;
    row.room_bytes = kUsableMemory * prediction.machine.memory_bytes - beside;
    row.comfortable_bytes = kComfortableMemory * prediction.machine.memory_bytes - beside;
    fitted = fitted || prediction.fitted;
  } catch (const RunError&) {  // a row that the cost model does not know, for one of two reasons
  } catch (const InputError&) {
  }
}

}  // namespace

ResidualTable without_model(const std::string& model) {
  const ResidualTable& shipped = ResidualTable::shipped();
  std::vector<Residual> rows;
  for (const Residual& row : shipped.rows()) {
    if (row.at.model != model) rows.push_back(row);
  }
  return {std::move(rows),
          {{Figure::kTime, shipped.spread(Figure::kTime)},
           {Figure::kMemory, shipped.spread(Figure::kMemory)}}};
}

std::vector<Residual> residuals_of(const PublishedTable& table,
                                   const std::vector<size_t>& measured) {
  std::vector<Residual> residuals;
  const auto add = [&](const TableRow& row, Figure figure, double ratio) {
    residuals.push_back({row.at, figure, false, false, std::log(ratio)});
  };
  for (const size_t i : measured) {
    const TableRow& row = table.rows[i];
    if (!row.rate || row.predicted_rate <= 0) continue;
    add(row, Figure::kTime, row.predicted_rate / *row.rate);
    if (row.evidence.allocated_bytes)
      add(row, Figure::kMemory, *row.evidence.allocated_bytes / row.tensor_bytes);
  }
  return residuals;
}

Json point_of(const Evidence& row) {
  Json point = row.inputs;
  point["experiment"] = row.experiment;
  return point;
}

TableSpace::TableSpace(const std::vector<TableRow>& rows) {
  std::map<std::string, std::set<Json>> values;
  for (const TableRow& row : rows) {
    const Json point = point_of(row.evidence);
    for (const auto& [name, value] : point.items()) values[name].insert(value);
  }
  for (const TableRow& row : rows) points_.push_back(features_of(point_of(row.evidence), values));
}

int64_t TableSpace::at(const std::vector<double>& place) const {
  int64_t nearest = 0;
  double least = HUGE_VAL;
  for (int64_t row = 0; row < size(); ++row) {
    double distance = 0;
    for (size_t i = 0; i < of_feature_.size(); ++i) {
      const double off = points_[static_cast<size_t>(row)][i] - place[of_feature_[i]];
      distance += off * off;
    }
    if (distance >= least) continue;
    least = distance;
    nearest = row;
  }
  return nearest;
}

std::vector<double> TableSpace::features_of(const Json& point,
                                            const std::map<std::string, std::set<Json>>& values) {
  std::vector<double> features;
  std::vector<size_t> of;
  dimensions_ = 0;
  for (const auto& [name, all] : values) {
    const Json value = point.contains(name) ? point.at(name) : Json();
    const bool numeric =
        std::all_of(all.begin(), all.end(), [](const Json& v) { return v.is_number(); });
    if (numeric && value.is_number()) {
      const double low = std::log(std::max(1e-9, all.begin()->get<double>()));
      const double high = std::log(std::max(1e-9, all.rbegin()->get<double>()));
      const double at = std::log(std::max(1e-9, value.get<double>()));
      features.push_back(high > low ? (at - low) / (high - low) : 0.5);
      of.push_back(dimensions_);
    } else {
      for (const Json& one : all) {
        features.push_back(one == value ? std::sqrt(0.5) : 0);
        of.push_back(dimensions_);
      }
    }
    ++dimensions_;
  }
  of_feature_ = std::move(of);
  return features;
}

size_t PublishedTable::died() const {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const TableRow& row) { return !row.rate; }));
}

std::vector<PublishedTable> published_tables(const std::string& folder, size_t fewest) {
  std::vector<Diagnostic> warnings;
  const ActuatorSettings settings =
      read_actuator_settings(folder + "/models.yaml", nullptr, {}, warnings);
  const MachineOverrides overrides;
  Oracle oracle(settings, {}, overrides, Catalog::shipped());
  std::map<std::string, PublishedTable> tables;
  std::set<std::string> seen;
  for (const std::string& file : evidence_files(folder)) {
    for (Evidence& row : read_evidence(file)) {
      const std::optional<double> rate = rate_of(row);
      if (row.outcome == EvidenceOutcome::kFailed ||
          (row.outcome == EvidenceOutcome::kValid && !rate))
        continue;
      const std::string model = row.inputs.value("model_name", std::string());
      const std::string name = row.source.substr(0, row.source.rfind(':')) + " " + model;
      if (!seen.insert(name + row.experiment + row.inputs.dump()).second) continue;
      PublishedTable& table = tables[name];
      table.name = name;
      table.model = model;
      table.best = std::max(table.best, rate.value_or(0));
      TableRow one;
      one.evidence = std::move(row);
      one.rate = rate;
      predict(one, oracle, table.fitted);
      table.rows.push_back(std::move(one));
    }
  }
  std::vector<PublishedTable> all;
  for (auto& [name, table] : tables) {
    if (table.rows.size() >= fewest) all.push_back(std::move(table));
  }
  return all;
}

}  // namespace sftbench
