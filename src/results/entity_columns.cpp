#include "results/entity_columns.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace sftbench {
namespace {

using Names = std::vector<std::string_view>;

// How an entity's id spells a value: as Python's str(), booleans as numbers.
void append_id_value(std::string& text, const Scalar& value) {
  append_python_str(text, value.kind() == Scalar::Kind::kBoolean
                              ? Scalar::integer(value.as_boolean() ? 1 : 0)
                              : value);
}

bool is_id_value(std::string_view text, const Scalar& value, std::string& scratch) {
  scratch.clear();
  append_id_value(scratch, value);
  return text == scratch;
}

// The number that a text spells exactly as Python would, else the text.
Scalar typed(std::string_view text, std::string& scratch) {
  if (text == "None") return {};
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [stopped, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && stopped == end &&
      is_id_value(text, Scalar::integer(integer), scratch)) {
    return Scalar::integer(integer);
  }
  double number = 0;
  if (const auto [stopped, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && stopped == end &&
      is_id_value(text, Scalar::number(number), scratch)) {
    return Scalar::number(number);
  }
  return Scalar::text(text);
}

// The index of the input whose name and a dot begin `text`.
std::optional<size_t> leading_name(std::string_view text, const Record& inputs) {
  const std::string_view name = text.substr(0, text.find('.'));
  if (name.size() == text.size()) return std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs.name(i) == name) return i;
  }
  return std::nullopt;
}

// How much of `text`, which begins with the value of `inputs.value(index)`, is that value.
size_t value_length(std::string_view text, const Record& inputs, size_t index,
                    std::string& scratch) {
  scratch.clear();
  append_id_value(scratch, inputs.value(index));
  const bool as_in_inputs = text.substr(0, scratch.size()) == scratch &&
                            (text.size() == scratch.size() || text[scratch.size()] == '-');
  if (as_in_inputs) return scratch.size();
  for (size_t dash = text.find('-'); dash != std::string_view::npos;
       dash = text.find('-', dash + 1)) {
    if (leading_name(text.substr(dash + 1), inputs)) return dash;
  }
  return text.size();
}

// All names, each after the one that it follows in the longest lists that know it.
Names merged(const std::map<Names, size_t>& lists) {
  std::vector<std::pair<size_t, const Names*>> by_count;
  for (const auto& [names, count] : lists) by_count.emplace_back(count, &names);
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Names all;
  for (const auto& [count, names] : by_count) {
    auto after = all.begin();
    for (const std::string_view name : *names) {
      const auto known = std::find(all.begin(), all.end(), name);
      after = (known != all.end() ? known : all.insert(after, name)) + 1;
    }
  }
  return all;
}

EntityProperties properties_of(const StoredResult& result) {
  const Record& entity = result.entity;
  if (entity.size() == 0) return entity_properties(result.entity_id, result.inputs);
  EntityProperties properties;
  for (size_t i = 0; i < entity.size(); ++i) {
    properties.emplace_back(entity.name(i), entity.value(i));
  }
  return properties;
}

}  // namespace

EntityProperties entity_properties(std::string_view entity_id, const Record& inputs) {
  EntityProperties properties;
  std::string scratch;
  while (const std::optional<size_t> index = leading_name(entity_id, inputs)) {
    entity_id.remove_prefix(inputs.name(*index).size() + 1);
    const size_t length = value_length(entity_id, inputs, *index, scratch);
    const std::string_view value = entity_id.substr(0, length);
    properties.emplace_back(inputs.name(*index), typed(value, scratch));
    entity_id.remove_prefix(std::min(length + 1, entity_id.size()));
  }
  return properties;
}

EntityColumns::EntityColumns(const std::vector<Repeats>& rows) {
  std::vector<EntityProperties> properties;
  properties.reserve(rows.size());
  std::map<Names, size_t> lists;
  Names names;
  for (const Repeats& row : rows) {
    properties.push_back(properties_of(row.first()));
    names.clear();
    for (const auto& [name, value] : properties.back()) names.push_back(name);
    ++lists[names];
  }
  names_ = merged(lists);

  cells_.resize(rows.size(), std::vector<Scalar>(names_.size()));
  for (size_t row = 0; row < rows.size(); ++row) {
    size_t column = 0;
    for (const auto& [name, value] : properties[row]) {
      if (column >= names_.size() || names_[column] != name) {
        column =
            static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
      }
      cells_[row][column++] = value;
    }
  }
}

}  // namespace sftbench
