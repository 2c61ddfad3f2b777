#include "sftbench/results/foreign_results.h"

#include <algorithm>
#include <map>
#include <memory>

#include "results/result_reader.h"
#include "results/text_pool.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

Scalar scalar_of(const Json& value, TextPool& texts) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return Scalar::boolean(value.get<bool>());
  if (value.is_number_integer()) return Scalar::integer(value.get<int64_t>());
  if (value.is_number()) return Scalar::number(value.get<double>());
  return Scalar::text(texts.share(value.is_string() ? value.get<std::string>() : json_text(value)));
}

Record inputs_of(const ForeignMeasurement& measurement, TextPool& texts) {
  std::map<std::string, Json> sorted;
  for (const auto& [name, value] : measurement.inputs.items()) sorted[name] = value;
  sorted["origin"] = measurement.source;
  sorted["stack"] = measurement.stack;
  Record::Names names;
  std::vector<Scalar> values;
  for (const auto& [name, value] : sorted) {
    names.push_back(texts.share(name));
    values.push_back(scalar_of(value, texts));
  }
  return {texts.share(names), texts.store(values)};
}

Record figures_of(const ForeignMeasurement& measurement, TextPool& texts) {
  std::vector<Scalar> figures;
  for (const FigureSpec& spec : figure_specs()) {
    std::optional<double> figure;
    if (spec.name == "padded_tokens_per_second") figure = measurement.padded_tokens_per_second;
    if (spec.name == "device_peak_allocated_bytes")
      figure = measurement.device_peak_allocated_bytes;
    figures.push_back(figure ? Scalar::number(*figure) : Scalar());
  }
  return {figure_names(), texts.store(figures)};
}

}  // namespace

void add_foreign_results(const std::vector<ForeignMeasurement>& measurements, StoreScan& scan) {
  const auto texts = std::make_shared<TextPool>();
  for (const ForeignMeasurement& measurement : measurements) {
    StoredResult result;
    result.file = result.key = result.entity_id = texts->store(measurement.source);
    result.experiment = result.experiment_id = texts->share(measurement.experiment);
    result.status = measurement.status;
    result.reason = measurement.reason;
    result.inputs = inputs_of(measurement, *texts);
    result.figures = figures_of(measurement, *texts);
    result.has_checksum = true;  // none was ever written, so none is missing
    scan.results.push_back(std::move(result));
  }
  scan.texts.push_back(texts);
}

}  // namespace sftbench
