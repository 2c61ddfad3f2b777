#include "cli/given_arguments.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/yaml.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {
namespace {

bool assigns(const std::string& assignment, const std::string& property) {
  return assignment.starts_with(property + "=");
}

}  // namespace

void refuse_given(std::string key, std::string message, std::string expected) {
  throw InputError({{{}, 0, std::move(key), std::move(message), std::move(expected), {}}});
}

const GivenValue* GivenArguments::find(const std::string& property) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const GivenValue& value) {
    return value.property == property;
  });
  return found == values.end() ? nullptr : &*found;
}

bool GivenArguments::is_set(const std::string& property) const {
  return std::any_of(assignments.begin(), assignments.end(),
                     [&](const std::string& text) { return assigns(text, property); });
}

bool GivenArguments::says(const std::string& property) const {
  return find(property) != nullptr || is_set(property);
}

bool GivenArguments::says_any(const std::vector<std::string>& properties) const {
  return std::any_of(properties.begin(), properties.end(),
                     [this](const std::string& property) { return says(property); });
}

int64_t GivenArguments::number_set(const std::string& property) const {
  const auto found = std::find_if(assignments.begin(), assignments.end(),
                                  [&](const std::string& text) { return assigns(text, property); });
  if (found == assignments.end()) return 0;
  const Json value = resolve_yaml_scalar(found->substr(property.size() + 1));
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

int64_t GivenArguments::number_of(const std::string& property) const {
  const GivenValue* given = find(property);
  if (given == nullptr || !given->value.value.is_number_integer()) return number_set(property);
  return given->value.value.get<int64_t>();
}

void GivenArguments::add(const std::string& source, const std::string& property, int64_t value) {
  values.push_back({source, property, scalar_node(std::to_string(value))});
}

void GivenArguments::forget(std::initializer_list<const char*> properties) {
  std::erase_if(values, [&](const GivenValue& value) {
    return std::find(properties.begin(), properties.end(), value.property) != properties.end();
  });
}

}  // namespace sftbench
