#include "translate/argument_values.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_layers.h"

namespace sftbench {

namespace {

const PropertySpec* spec_of(const std::string& property) {
  for (const Experiment& experiment : Catalog::shipped().experiments) {
    if (const PropertySpec* spec = experiment.find(property)) return spec;
  }
  return nullptr;
}

// 1 and FULL_SHARD are one strategy, 2e-5 and 0.00002 one rate.
bool is_same(const std::string& property, const YamlNode& one, const YamlNode& other) {
  if (one.is_scalar() && other.is_scalar() && one.value == other.value) return true;
  const PropertySpec* spec = spec_of(property);
  if (spec == nullptr) return false;
  const std::optional<Json> mine = spec->accept(one), its = spec->accept(other);
  return mine && its && spec->canonical(*mine) == spec->canonical(*its);
}

// Packed rows have no padding, so that a file of trl may say both.
bool is_packed_without_padding(const std::string& one, const std::string& other) {
  return (one == "none" && other == "packed") || (one == "packed" && other == "none");
}

}  // namespace

void ArgumentValues::begin_file(Diagnostics& diagnostics) {
  diagnostics_ = &diagnostics;
  of_earlier_files_ = file_.values.size();
}

void ArgumentValues::begin_beside(Diagnostics& diagnostics) {
  diagnostics_ = &diagnostics;
  of_earlier_files_ = 0;
  line_ = 0;
}

void ArgumentValues::collect(const Diagnostics& diagnostics) {
  try {
    diagnostics.throw_if_failed();
  } catch (const InputError& error) {
    problems_.insert(problems_.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
}

void ArgumentValues::put(const std::string& property, YamlNode value, const std::string& path) {
  const int own_line = std::exchange(value.line, 0);
  const int line = own_line > 0 ? own_line : line_;
  std::string source = place_of(diagnostics_->file(), line, path);
  for (YamlNode& item : value.items) item.line = 0;
  // Booleans that are texts, as Python writes them.
  if (value.is_scalar() && value.value.is_string() &&
      (value.text == "True" || value.text == "False")) {
    value.value = value.text == "True";
  }
  const auto other =
      std::find_if(file_.values.begin(), file_.values.end(),
                   [&property](const GivenValue& given) { return given.property == property; });
  if (other != file_.values.end()) {
    if (is_same(property, other->value, value)) return;
    if (property == "padding" && is_packed_without_padding(other->value.text, value.text)) {
      other->value = text_node("packed");
      return;
    }
    if (static_cast<size_t>(other - file_.values.begin()) >= of_earlier_files_) {
      return diagnostics_->error(line, path,
                                 "says " + describe(value) + ", where " + other->source + " says " +
                                     describe(other->value),
                                 "one of them");
    }
    note(other->source + " gives way to " + source);
    file_.values.erase(other);
    --of_earlier_files_;
  }
  check_domain(property, value, line, path);
  file_.values.push_back({std::move(source), property, std::move(value)});
}

// What no experiment takes is named with all else that is wrong with the file. Whether the chosen
// one takes it is known when the experiment is.
void ArgumentValues::check_domain(const std::string& property, const YamlNode& value, int line,
                                  const std::string& path) {
  const PropertySpec* known = nullptr;
  for (const Experiment& experiment : Catalog::shipped().experiments) {
    const PropertySpec* spec = experiment.find(property);
    if (spec == nullptr) continue;
    if (spec->escaped || spec->values_from == "models" || spec->accept(value)) return;
    known = spec;
  }
  const bool several = value.is_sequence() || value.text.find(',') != std::string::npos;
  if (known == nullptr || several) return;
  diagnostics_->error(line, path, describe(value) + " is no value of " + property,
                      known->expectation(), nearest_spelling(value.text, known->values));
}

void ArgumentValues::put_text(const std::string& property, const std::string& value,
                              const std::string& path) {
  put(property, scalar_node(value), path);
}

TakeValue ArgumentValues::taker() {
  return [this](const std::string& property, YamlNode value, const std::string& path) {
    put(property, std::move(value), path);
  };
}

const GivenValue* ArgumentValues::find(const std::string& property) const {
  for (const GivenValue& value : file_.values) {
    if (value.property == property) return &value;
  }
  return nullptr;
}

std::string ArgumentValues::taken(const std::string& name) {
  const GivenValue* given = find(name);
  if (given == nullptr) return {};
  std::string text = given->value.text;
  std::erase_if(file_.values, [&name](const GivenValue& value) { return value.property == name; });
  return text;
}

std::string ArgumentValues::text(const YamlNode& node, const std::string& path) {
  if (node.is_scalar() && !node.text.empty()) return node.text;
  error(node, path, "found " + describe(node), "a text");
  return {};
}

std::optional<int64_t> ArgumentValues::count(const YamlNode& node, const std::string& path) {
  constexpr int64_t kMost = 1 << 20;
  const Json& value = node.value;
  if (node.is_scalar() && value.is_number_integer() && value.get<int64_t>() > 0 &&
      value.get<int64_t>() <= kMost) {
    return value.get<int64_t>();
  }
  error(node, path, "found " + describe(node), "an integer of at least 1");
  return std::nullopt;
}

void ArgumentValues::error(const YamlNode& node, const std::string& path,
                           const std::string& message, std::string expected, std::string nearest) {
  diagnostics_->error(node, path, message, std::move(expected), std::move(nearest));
}

std::string ArgumentValues::place(const YamlNode& node, const std::string& path) const {
  return place_of(diagnostics_->file(), node.line, path);
}

}  // namespace sftbench
