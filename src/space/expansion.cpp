#include "sftbench/space/expansion.h"

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// What the rules read of the experiment itself: its defaults, then its parameterization.
RuleInputs inputs_of(const ExperimentReference& reference) {
  RuleInputs inputs;
  for (const PropertySpec& spec : reference.experiment->properties) {
    if (!spec.required) inputs.set(spec.identifier, spec.default_value);
  }
  for (const auto& [property, value] : reference.parameterization) {
    inputs.set(property, reference.experiment->find(property)->canonical(value));
  }
  return inputs;
}

}  // namespace

Expansion::Expansion(const Space& space, const ModelCatalog& models, int64_t first)
    : models_(models), index_(first) {
  check(first >= 0 && first < space.entity_count(), "the index is below the number of entities");
  for (const ExperimentReference& reference : space.experiments)
    inputs_.push_back(inputs_of(reference));
  for (const Dimension& dimension : space.dimensions) {
    Axis& axis = axes_.emplace_back();
    const PropertySpec& property = dimension.property();
    axis.dimension = &dimension;
    axis.prefix = (axes_.size() == 1 ? "" : "-") + property.identifier + ".";
    axis.ruled = RuleInputs().set(property.identifier, nullptr);
    for (const Json& value : dimension.listed()) {
      axis.texts.push_back(axis.prefix + python_str(value));
      if (axis.ruled) axis.values.push_back(property.canonical(value));
    }
  }
  for (size_t i = axes_.size(); i-- > 0;) {
    axes_[i].digit = first % axes_[i].dimension->size();
    first /= axes_[i].dimension->size();
  }
  write_from(0);
}

void Expansion::advance() {
  ++index_;
  size_t turning = axes_.size();
  while (turning > 0) {
    Axis& axis = axes_[--turning];
    if (++axis.digit < axis.dimension->size()) break;
    axis.digit = 0;
    if (turning == 0) index_ = 0;
  }
  write_from(turning);
}

void Expansion::write_from(size_t first_axis) {
  if (first_axis < axes_.size()) id_.resize(axes_[first_axis].id_begin);
  for (size_t i = first_axis; i < axes_.size(); ++i) {
    Axis& axis = axes_[i];
    axis.id_begin = id_.size();
    if (!axis.texts.empty()) {
      const auto digit = static_cast<size_t>(axis.digit);
      id_ += axis.texts[digit];
      if (axis.ruled) set_inputs(axis, axis.values[digit]);
    } else {
      const Json value = axis.dimension->value(axis.digit);
      id_ += axis.prefix;
      id_ += python_str(value);
      if (axis.ruled) set_inputs(axis, axis.dimension->property().canonical(value));
    }
  }
}

void Expansion::set_inputs(const Axis& axis, const Json& canonical) {
  for (RuleInputs& inputs : inputs_) inputs.set(axis.dimension->property().identifier, canonical);
}

}  // namespace sftbench
