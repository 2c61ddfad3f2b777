#include "space/domain.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

// Doubles count whole steps exactly up to here; a longer dimension is a mistake anyway.
constexpr double kMaxCount = 1e15;

const std::string kDiscrete = "DISCRETE_VARIABLE_TYPE";
const std::string kCategorical = "CATEGORICAL_VARIABLE_TYPE";
const std::string kBinary = "BINARY_VARIABLE_TYPE";
const std::string kUnknown = "UNKNOWN_VARIABLE_TYPE";

const std::vector<std::string> kVariableTypes = {
    "CONTINUOUS_VARIABLE_TYPE",       "DISCRETE_VARIABLE_TYPE", "CATEGORICAL_VARIABLE_TYPE",
    "OPEN_CATEGORICAL_VARIABLE_TYPE", "BINARY_VARIABLE_TYPE",   "UNKNOWN_VARIABLE_TYPE",
    "IDENTIFIER_VARIABLE_TYPE"};

YamlNode scalar(Json value, int line) {
  YamlNode node;
  node.line = line;
  node.text = json_text(value);
  node.value = std::move(value);
  return node;
}

using Steps = Dimension::Steps;

// What the experiments of ado's SFTTrainer know (2.3): None where it is the default or a name of
// its own, of the kernels all or none, whole numbers alone, and names by their name.
bool is_known_to_ado(const PropertySpec& spec, const Json& value) {
  if (spec.argument) return true;  // that the property is none of ado's, its name says
  if (value.is_number_float() && spec.kind == PropertyKind::kNumber) {
    const auto number = value.get<double>();
    return number == std::floor(number);
  }
  if (value.is_number() && spec.kind == PropertyKind::kString) return false;
  if (spec.kind == PropertyKind::kStringList && value.is_array()) {
    return std::all_of(value.begin(), value.end(), [](const Json& item) { return item == "True"; });
  }
  if (value.is_null())
    return spec.kind == PropertyKind::kStringList || spec.default_value.is_null();
  if (spec.kind != PropertyKind::kString || !value.is_string()) return true;
  if (spec.nullable && value == "None") return !spec.open && !spec.default_value.is_null();
  return value != "" && std::find(spec.values.begin(), spec.values.end(),
                                  value.get_ref<const std::string&>()) != spec.values.end();
}

// Reads one propertyDomain; the members say what is given, expand() decides what it means.
class DomainReader {
 public:
  DomainReader(const YamlNode& node, const std::string& path, const PropertySpec& accepts,
               const PropertySpec* property, AdoIds ids, Diagnostics& diagnostics)
      : node_(node),
        path_(path),
        accepts_(accepts),
        property_(property),
        ids_(ids),
        diagnostics_(diagnostics) {}

  std::optional<Dimension> read() {
    const size_t errors_before = diagnostics_.errors().size();
    Fields fields(node_, path_, diagnostics_);
    values_ = fields.sequence("values", Presence::kOptional);
    interval_ = fields.any("interval", Presence::kOptional);
    range_ = fields.sequence("domainRange", Presence::kOptional);
    type_ = fields.text("variableType", Presence::kOptional);
    probability_function(fields);
    fields.reject_unknown();
    if (interval_ != nullptr && interval_->is_null()) interval_ = nullptr;
    if (type_.empty()) type_ = kUnknown;
    if (std::find(kVariableTypes.begin(), kVariableTypes.end(), type_) == kVariableTypes.end()) {
      error("variableType", "unknown type '" + type_ + "'", "one of " + join(kVariableTypes),
            nearest_spelling(type_, kVariableTypes));
    }
    check_numbers();
    if (diagnostics_.errors().size() != errors_before) return std::nullopt;
    std::optional<Dimension> dimension = expand();
    if (dimension) {
      note_what_ado_refuses();
      note_zeros(*dimension);
    }
    return dimension;
  }

 private:
  void error(const std::string& key, const std::string& message, const std::string& expected = {},
             const std::string& nearest = {}) {
    const YamlNode* member = node_.find(key);
    diagnostics_.error(member != nullptr ? *member : node_, key.empty() ? path_ : path_ + "." + key,
                       message, expected, nearest);
  }

  void probability_function(Fields& fields) {
    const YamlNode* function = fields.mapping("probabilityFunction", Presence::kOptional);
    if (function == nullptr) return;
    Fields members(*function, fields.path("probabilityFunction"), diagnostics_);
    const std::string identifier = members.text("identifier", Presence::kOptional);
    const YamlNode* parameters = members.mapping("parameters", Presence::kOptional);
    members.reject_unknown();
    if (identifier == "normal" || parameters != nullptr) {  // uniform is what ado writes unasked
      diagnostics_.warning(function->line, fields.path("probabilityFunction"),
                           "not used: a grid has no probabilities (as in ado)");
    }
    if (!identifier.empty() && identifier != "uniform" && identifier != "normal") {
      error("probabilityFunction", "unknown function '" + identifier + "'", "uniform or normal",
            nearest_spelling(identifier, {"uniform", "normal"}));
    }
  }

  // ado 2.3 compares the variable types of the two domains before their values.
  void note_what_ado_refuses() {
    if (accepts_.argument) return;  // ado does not know it at all
    const std::string found = inferred_type();
    const bool numbers = found == kDiscrete || found == kBinary;
    std::string expected;
    bool taken = false;
    switch (accepts_.kind) {
      case PropertyKind::kInteger:
      case PropertyKind::kNumber:
        expected = kDiscrete;
        taken = numbers;
        break;
      case PropertyKind::kBoolean:
        expected = kBinary;
        taken = found == kBinary || ((found == kDiscrete || found == kCategorical) && !many());
        break;
      case PropertyKind::kString:
      case PropertyKind::kStringList:
      case PropertyKind::kModuleNames:
      case PropertyKind::kObject:
        expected = kCategorical;
        taken = found == kCategorical || found == kDiscrete;
        break;
    }
    if (taken) return;
    const std::string what =
        found == expected || many() ? "has more than two values" : "is of " + found;
    diagnostics_.warning(node_.line, path_, what + " to ado, which would refuse this", expected);
  }

  // The documents have rules 3 and 4 for them, which ado's own domains do not let a space reach.
  void note_zeros(const Dimension& dimension) {
    if (!accepts_.zero_is_invalid) return;
    for (int64_t i = 0; i < dimension.size(); ++i) {
      if (accepts_.canonical(dimension.value(i)) != 0) continue;
      diagnostics_.warning(node_.line, path_, "0 is invalid here, and ado would refuse the space",
                           "values above 0");
      return;
    }
  }

  // More values than a truth value has, repeated ones counted as ado counts them.
  bool many() const { return values_ != nullptr && values_->items.size() > 2; }

  // As ado infers it; truth values are numbers there.
  std::string inferred_type() const {
    if (type_ == "OPEN_CATEGORICAL_VARIABLE_TYPE") return kCategorical;
    if (type_ != kUnknown) return type_;
    const bool numbers =
        values_ == nullptr ||
        std::all_of(values_->items.begin(), values_->items.end(), [](const YamlNode& item) {
          return item.value.is_number() || item.value.is_boolean();
        });
    return numbers ? kDiscrete : kCategorical;
  }

  // YAML takes 1e-1 for a text, and ado takes it for the number that it is meant to be.
  static std::optional<double> number_in(const YamlNode& node) {
    double number = 0;
    if (node.value.is_number()) {
      number = node.value.get<double>();
    } else {
      const char* end = node.text.data() + node.text.size();
      const auto [at, error] = std::from_chars(node.text.data(), end, number);
      if (!node.value.is_string() || error != std::errc() || at != end) return std::nullopt;
    }
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }

  static bool is_integer(const YamlNode& node) {
    return node.value.is_number_integer() ||
           (node.value.is_string() &&
            node.text.find_first_not_of("-0123456789") == std::string::npos);
  }

  void check_numbers() {
    if (interval_ != nullptr && (!interval_->is_scalar() || number_in(*interval_).value_or(0) <= 0))
      error("interval", "found " + describe(*interval_), "a number above 0");
    if (range_ == nullptr) return;
    const bool numbers =
        range_->items.size() == 2 &&
        std::all_of(range_->items.begin(), range_->items.end(),
                    [](const YamlNode& item) { return number_in(item).has_value(); });
    if (!numbers)
      error("domainRange", "found " + describe(*range_),
            "two numbers: [lower, upper), upper excluded");
  }

  std::optional<Dimension> expand() {
    if (type_ == kBinary) return binary();
    if (type_ == "CONTINUOUS_VARIABLE_TYPE" && (values_ != nullptr || interval_ != nullptr)) {
      error("variableType", "a continuous domain has neither values nor an interval",
            "DISCRETE_VARIABLE_TYPE");
      return std::nullopt;
    }
    if (type_ == "OPEN_CATEGORICAL_VARIABLE_TYPE" &&
        (values_ == nullptr || interval_ != nullptr || range_ != nullptr)) {
      error("variableType", "an open categorical domain has values in a space, and nothing else",
            "values");
      return std::nullopt;
    }
    if (type_ == kCategorical && (values_ == nullptr || interval_ != nullptr)) {
      error("variableType", "a categorical domain has values and no interval", "values");
      return std::nullopt;
    }
    if (values_ != nullptr) return listed();
    if (range_ != nullptr && interval_ != nullptr) return counted();
    const std::string has = range_ != nullptr ? "a range without interval has no list of values"
                            : interval_ != nullptr ? "an interval without range never ends"
                                                   : "no values";
    error({}, has, "values, or domainRange and interval");
    return std::nullopt;
  }

  // ado expands it to [false, true] and does not look at `values`.
  std::optional<Dimension> binary() {
    for (const char* key : {"values", "domainRange", "interval"}) {
      const YamlNode* member = node_.find(key);
      if (member == nullptr || member->is_null()) continue;
      diagnostics_.warning(member->line, path_ + "." + key,
                           "a binary domain is always [false, true]; not used");
    }
    const bool number =
        accepts_.kind == PropertyKind::kInteger || accepts_.kind == PropertyKind::kNumber;
    const auto truth = [&](bool value) {
      return scalar(number ? Json(value ? 1 : 0) : Json(value), node_.line);
    };
    return read_values({truth(false), truth(true)}, node_.line, path_, accepts_, property_,
                       diagnostics_);
  }

  std::optional<Dimension> listed() {
    if (interval_ != nullptr) {
      error("interval", "stands beside values", "either values or domainRange and interval");
      return std::nullopt;
    }
    if (range_ != nullptr && !range_holds_values()) {
      error("domainRange", "does not hold all values",
            "a lower bound <= and an upper bound > each of them");
      return std::nullopt;
    }
    return read_values(values_->items, values_->line, path_ + ".values", accepts_, property_,
                       diagnostics_);
  }

  bool range_holds_values() const {
    const auto [lower, upper] = bounds();
    const double low = lower;
    const double high = upper;
    return std::all_of(values_->items.begin(), values_->items.end(),
                       [low, high](const YamlNode& item) {
                         return item.value.is_number() && item.value.get<double>() >= low &&
                                item.value.get<double>() < high;
                       });
  }

  // Reversed ranges are ado's, too.
  std::pair<double, double> bounds() const {
    return std::minmax({*number_in(range_->items[0]), *number_in(range_->items[1])});
  }

  // lower, lower + interval, ... below upper. ado compares before it rounds and so lets `upper` in
  // where the quotient is inexact ([0.0, 1.7] by 0.1); here such a value counts as the upper bound
  // that it is.
  std::optional<Dimension> counted() {
    const auto [lower, upper] = bounds();
    const double step = *number_in(*interval_);
    const double count =
        std::ceil((upper - lower) / step - (steps() == Steps::kFloats ? 1e-9 : 0.0));
    if (count > kMaxCount) {
      error("domainRange", "holds more than 10^15 values");
      return std::nullopt;
    }
    const Dimension dimension(property_, lower, step, static_cast<int64_t>(count), steps());
    if (dimension.size() == 0) {
      diagnostics_.warning(range_->line, path_ + ".domainRange",
                           "holds no value, so that the space has no entity (as in ado)",
                           "lower < upper");
      return dimension;
    }
    // The property's own domain is a grid: the first, second and last value lie on it only if all
    // do.
    for (const int64_t index :
         {int64_t{0}, std::min<int64_t>(1, dimension.size() - 1), dimension.size() - 1}) {
      const std::string path = path_ + ".domainRange";
      if (!read_value(scalar(dimension.value(index), range_->line), path, accepts_, diagnostics_))
        return std::nullopt;
    }
    return dimension;
  }

  // A whole lower bound and a whole interval give integers to ado, whatever the upper bound is.
  Steps steps() const {
    const YamlNode& first = range_->items[0];
    const YamlNode& second = range_->items[1];
    const bool first_is_lower = *number_in(first) <= *number_in(second);
    const bool whole = is_integer(*interval_) && is_integer(first_is_lower ? first : second);
    if (!whole) return Steps::kFloats;
    return ids_ == AdoIds::k17 ? Steps::kIntegersAsFloats : Steps::kIntegers;
  }

  const YamlNode& node_;
  const std::string& path_;
  const PropertySpec& accepts_;
  const PropertySpec* property_;
  const AdoIds ids_;
  Diagnostics& diagnostics_;
  const YamlNode* values_ = nullptr;
  const YamlNode* interval_ = nullptr;
  const YamlNode* range_ = nullptr;
  std::string type_;
};

// The default, where it is what was begun: "adam" is adamw_torch sooner than adamw_hf.
std::string nearest_value(const std::string& text, const PropertySpec& property) {
  const Json& otherwise = property.default_value;
  if (!text.empty() && otherwise.is_string() &&
      otherwise.get_ref<const std::string&>().starts_with(text)) {
    return otherwise;
  }
  return nearest_spelling(text, property.values);
}

// What was written is none; the names of models are hints.
void refuse_model(const YamlNode& found, const std::string& path, const PropertySpec& accepts,
                  Diagnostics& diagnostics) {
  const NearModel near = Catalog::shipped().models.near(found.text);
  std::string expected = accepts.expectation();
  if (near.same_shapes) expected += "; " + near.name + " has the same shapes";
  diagnostics.error(
      found, path, describe(found) + " is no value of " + accepts.identifier, std::move(expected),
      near.same_one || near.same_shapes ? near.name : nearest_value(found.text, accepts));
}

}  // namespace

std::optional<Json> read_value(const YamlNode& found, const std::string& path,
                               const PropertySpec& accepts, Diagnostics& diagnostics) {
  std::optional<Json> value = accepts.accept(found);
  if (!value && accepts.values_from == "models" && found.is_scalar() && !diagnostics.full()) {
    refuse_model(found, path, accepts, diagnostics);
  } else if (!value) {
    const std::string nearest = found.is_scalar() && found.value.is_string() && !diagnostics.full()
                                    ? nearest_value(found.text, accepts)
                                    : std::string();
    diagnostics.error(found, path, describe(found) + " is no value of " + accepts.identifier,
                      accepts.expectation(), nearest);
  } else if (found.is_scalar() && *value != found.value && !accepts.argument) {
    diagnostics.warning(found.line, path,
                        "ado reads " + found.text + " as " +
                            (found.value.is_string() ? "text" : json_text(found.value)) +
                            "; taken as " + value->dump());
  } else if (!is_known_to_ado(accepts, *value)) {
    diagnostics.warning(found.line, path,
                        "ado would refuse " + (value->is_null() ? "None" : python_str(*value)));
  }
  return value;
}

std::optional<Dimension> read_values(const std::vector<YamlNode>& values, int line,
                                     const std::string& path, const PropertySpec& accepts,
                                     const PropertySpec* property, Diagnostics& diagnostics) {
  if (values.empty()) {
    diagnostics.error(line, path, "an empty list has no value", accepts.expectation());
    return std::nullopt;
  }
  std::vector<Json> accepted;
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    const std::optional<Json> value = read_value(values[i], item, accepts, diagnostics);
    if (!value) continue;
    if (!seen.insert(json_text(accepts.canonical(*value))).second) {
      diagnostics.warning(values[i].line, item,
                          describe(values[i]) + " stands in the list before; taken once");
      continue;
    }
    accepted.push_back(*value);
  }
  if (accepted.empty()) return std::nullopt;
  return Dimension(property, std::move(accepted));
}

std::optional<Dimension> read_domain(const YamlNode& node, const std::string& path,
                                     const PropertySpec& accepts, const PropertySpec* property,
                                     AdoIds ids, Diagnostics& diagnostics) {
  return DomainReader(node, path, accepts, property, ids, diagnostics).read();
}

}  // namespace sftbench
