#include "results/html/column_set.h"

#include <bit>
#include <cmath>
#include <limits>

#include "sftbench/base/json_text.h"

namespace sftbench::html {

void Column::append(size_t row, uint32_t code) {
  codes_.resize(row, 0);
  codes_.push_back(code);
}

void Column::set_text(size_t row, std::string_view text) {
  if (!codes_.empty() && codes_.back() != 0) {
    const Value& last = values_[codes_.back() - 1];
    if (last.is_text && last.text == text) return append(row, codes_.back());
  }
  const auto [found, is_new] =
      code_of_text_.try_emplace(text, static_cast<uint32_t>(values_.size() + 1));
  if (is_new) values_.push_back({.is_text = true, .text = text});
  append(row, found->second);
}

void Column::set_number(size_t row, double number) {
  if (!std::isfinite(number)) return;
  if (code_of_number_.size() > kMostExactNumbers) {
    values_.push_back({.number = number});
    return append(row, static_cast<uint32_t>(values_.size()));
  }
  const uint64_t bits = std::bit_cast<uint64_t>(number == 0 ? 0.0 : number);
  const auto [found, is_new] =
      code_of_number_.try_emplace(bits, static_cast<uint32_t>(values_.size() + 1));
  if (is_new) values_.push_back({.number = number});
  append(row, found->second);
}

Json Column::values() const {
  Json values = Json::array();
  for (const Value& value : values_) {
    // 512.0 and 512 are one value, and the shorter spelling is the one to read.
    const bool whole = std::abs(value.number) < 1e15 && std::trunc(value.number) == value.number;
    Json number = whole ? Json(static_cast<int64_t>(value.number)) : Json(value.number);
    if (value.is_text) {
      values.push_back(value.text);
    } else {
      values.push_back(numeric() ? std::move(number) : Json(json_text(number)));
    }
  }
  return values;
}

std::vector<uint32_t> Column::codes(size_t rows) const {
  std::vector<uint32_t> codes = codes_;
  codes.resize(rows, 0);
  return codes;
}

std::vector<float> Column::numbers(size_t rows) const {
  check(numeric(), "a column with texts has no numbers");
  std::vector<float> numbers(rows, std::numeric_limits<float>::quiet_NaN());
  for (size_t row = 0; row < codes_.size(); ++row) {
    if (codes_[row] != 0) numbers[row] = static_cast<float>(values_[codes_[row] - 1].number);
  }
  return numbers;
}

void ColumnSet::begin_row() {
  ++rows_;
  next_ = 0;
}

Column& ColumnSet::column(std::string_view group, std::string_view name) {
  if (next_ < columns_.size() && columns_[next_].name() == name &&
      columns_[next_].group() == group) {
    return columns_[next_++];
  }
  const auto [found, is_new] =
      index_.try_emplace(std::string(group) + ' ' + std::string(name), columns_.size());
  if (is_new) columns_.emplace_back(group, name);
  next_ = found->second + 1;
  return columns_[found->second];
}

void ColumnSet::text(std::string_view group, std::string_view name, std::string_view value) {
  column(group, name).set_text(rows_ - 1, value);
}

void ColumnSet::number(std::string_view group, std::string_view name, double value) {
  column(group, name).set_number(rows_ - 1, value);
}

void ColumnSet::scalar(std::string_view group, std::string_view name, const Scalar& value) {
  Column& target = column(group, name);
  const size_t row = rows_ - 1;
  if (const std::optional<double> number = value.as_number()) {
    target.set_number(row, *number);
  } else if (value.is_text()) {
    target.set_text(row, value.as_text());
  } else if (value.kind() == Scalar::Kind::kBoolean) {
    target.set_text(row, value.as_boolean() ? "true" : "false");
  }
}

}  // namespace sftbench::html
