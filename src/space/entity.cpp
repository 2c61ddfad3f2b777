#include "sftbench/space/entity.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// repr() of a float: the shortest digits that read back, plain from 1e-4 up to 1e16, else with an
// exponent of at least two digits.
std::string float_repr(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  const size_t e = scientific.find('e');
  if (e == std::string::npos) return scientific;  // inf, nan
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed_end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  const std::string fixed(buffer, fixed_end);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string string_repr(const std::string& text) {
  const bool double_quotes =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string repr(1, quote);
  for (char c : text) {
    if (c == '\\' || c == quote) repr += '\\';
    repr += c;
  }
  return repr + quote;
}

std::string repr(const Json& value) {
  if (value.is_string()) return string_repr(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return python_str(value);
}

std::string values_id(const PropertyValues& values, std::string id) {
  for (const auto& [property, value] : values) {
    if (!id.empty()) id += '-';
    id += property;
    id += '.';
    id += python_str(value);
  }
  return id;
}

}  // namespace

std::string python_str(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "None";
    case Json::value_t::boolean:
      return value.get<bool>() ? "1" : "0";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return std::to_string(value.get<int64_t>());
    case Json::value_t::number_float:
      return float_repr(value.get<double>());
    case Json::value_t::string:
      return value.get<std::string>();
    case Json::value_t::array: {
      std::string list = "[";
      for (const Json& item : value) {
        if (list.size() > 1) list += ", ";
        list += repr(item);
      }
      return list + "]";
    }
    default:
      return json_text(value);
  }
}

std::string entity_id(const Entity& entity) {
  return values_id(entity.values, {});
}

std::string experiment_id(const ExperimentReference& reference) {
  return values_id(reference.parameterization,
                   reference.experiment->actuator + "." + reference.experiment->identifier);
}

MeasurementRequest make_request(const Entity& entity, const ExperimentReference& reference) {
  MeasurementRequest request;
  request.experiment = reference.experiment->identifier;
  request.experiment_id = experiment_id(reference);
  request.entity_id = entity_id(entity);
  request.entity_index = entity.index;
  request.inputs = Json::object();
  for (const PropertySpec& spec : reference.experiment->properties) {
    request.inputs[spec.identifier] = spec.default_value;
  }
  for (const PropertyValues* values : {&reference.parameterization, &entity.values}) {
    for (const auto& [property, value] : *values) {
      const PropertySpec* spec = reference.experiment->find(property);
      if (spec != nullptr) request.inputs[property] = spec->canonical(value);
    }
  }
  return request;
}

}  // namespace sftbench
