// Enums whose values have names in the files that people write ("FULL_SHARD"). Beside such an enum
// stands one table of rows that begin with the value and its name:
//
//   enum class Padding { kLongest, kMaxLength };
//   struct PaddingRow { Padding kind; const char* name; ... };
//   inline constexpr std::array kPaddings = {PaddingRow{Padding::kLongest, "longest"}, ...};
//   static_assert(is_in_order(kPaddings));
//   constexpr const auto& rows_of(Padding) { return kPaddings; }
//   constexpr const char* noun_of(Padding) { return "padding"; }
//
// Names, near spellings, refusals and JSON follow from the table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

template <typename Kind>
concept Named = std::is_enum_v<Kind> && requires(Kind kind) {
  rows_of(kind);
  noun_of(kind);
};

// Whether the rows stand in the order of their values, so that a value is the index of its row.
template <typename Rows>
constexpr bool is_in_order(const Rows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<size_t>(rows[i].kind) != i) return false;
  }
  return true;
}

template <Named Kind>
constexpr const auto& row_of(Kind kind) {
  return rows_of(kind)[static_cast<size_t>(kind)];
}

template <Named Kind>
constexpr const char* name_of(Kind kind) {
  return row_of(kind).name;
}

template <Named Kind>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& row : rows_of(Kind{})) names.emplace_back(row.name);
  return names;
}

template <Named Kind>
constexpr std::optional<Kind> find_named(std::string_view name) {
  for (const auto& row : rows_of(Kind{})) {
    if (name == row.name) return row.kind;
  }
  return {};
}

// RunError(kUnsupported) with all names and the nearest spelling.
template <Named Kind>
Kind named(const std::string& name) {
  if (const std::optional<Kind> kind = find_named<Kind>(name)) return *kind;
  throw unsupported_choice(noun_of(Kind{}), name, names_of<Kind>());
}

// In JSON a value is its name. Found by nlohmann's library.
template <Named Kind>
void to_json(Json& json, Kind kind) {
  json = name_of(kind);
}
template <Named Kind>
void from_json(const Json& json, Kind& kind) {
  kind = named<Kind>(json.get_ref<const std::string&>());
}

}  // namespace sftbench
