#include "sftbench/space/entity.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/sha256.h"

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

constexpr std::string_view kHash = "hash-";
constexpr size_t kHashDigits = 64;

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

PropertyValues sorted_by_property(PropertyValues values) {
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return values;
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

std::optional<AdoIds> ado_ids_named(std::string_view name) {
  if (name == "1.7") return AdoIds::k17;
  if (name == "1.8") return AdoIds::k18;
  return std::nullopt;
}

std::string shortened_id(std::string id) {
  return characters(id) <= kLongestEntityId ? id : std::string(kHash) + sha256(id);
}

bool is_shortened_id(std::string_view id) {
  return id.substr(0, kHash.size()) == kHash && id.size() == kHash.size() + kHashDigits;
}

std::string entity_id(const Entity& entity) {
  if (entity.ids == AdoIds::k17) return values_id(entity.values, {});
  return shortened_id(values_id(sorted_by_property(entity.values), {}));
}

std::string experiment_id(const ExperimentReference& reference) {
  const PropertyValues& values = reference.parameterization;
  return values_id(reference.ids == AdoIds::k17 ? values : sorted_by_property(values),
                   reference.experiment->actuator + "." + reference.experiment->identifier);
}

bool is_experiment_id(const ExperimentReference& reference, std::string_view id) {
  ExperimentReference other = reference;
  other.ids = reference.ids == AdoIds::k17 ? AdoIds::k18 : AdoIds::k17;
  return experiment_id(reference) == id || experiment_id(other) == id;
}

MeasurementRequest make_request(const Entity& entity, const ExperimentReference& reference) {
  MeasurementRequest request;
  request.experiment = reference.experiment->identifier;
  request.experiment_id = experiment_id(reference);
  request.entity_id = entity_id(entity);
  request.entity_index = entity.index;
  request.entity = Json::object();
  for (const auto& [property, value] : entity.values) {
    request.entity[property] = value.is_boolean() ? Json(value.get<bool>() ? 1 : 0) : value;
  }
  request.inputs = Json::object();
  for (const PropertySpec& spec : reference.experiment->properties) {
    if (!spec.without_effect) request.inputs[spec.identifier] = spec.default_value;
  }
  for (const PropertyValues* values : {&reference.parameterization, &entity.values}) {
    for (const auto& [property, value] : *values) {
      const PropertySpec* spec = reference.experiment->find(property);
      if (spec == nullptr || spec->without_effect) continue;
      Json input = spec->canonical(value);
      if (spec->argument && input == spec->default_value) {
        request.inputs.erase(property);
      } else {
        request.inputs[property] = std::move(input);
      }
    }
  }
  return request;
}

}  // namespace sftbench
