// A table by columns: every value is kept once per column and rows refer to it by a code, so that a
// hundred thousand rows that mostly repeat each other stay small. Code 0: the row has no value
// there. Texts are not copied: they must live as long as the columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/results/scalar.h"

namespace sftbench::html {

// A column with more different numbers is not worth codes: from then on every number is a new
// value, equal or not, and the page gets them as 32-bit floats.
inline constexpr size_t kMostExactNumbers = 4096;

class Column {
 public:
  Column(std::string_view group, std::string_view name) : group_(group), name_(name) {}

  void set_text(size_t row, std::string_view text);
  // A number that is not finite is no value.
  void set_number(size_t row, double number);

  const std::string& group() const { return group_; }
  const std::string& name() const { return name_; }
  // No text among the values.
  bool numeric() const { return code_of_text_.empty(); }
  // How many different values there are; beyond kMostExactNumbers at least as many.
  size_t distinct() const { return values_.size(); }

  // The value of code `i + 1` at place i; in a column with texts, numbers are texts, too.
  Json values() const;
  // One code per row.
  std::vector<uint32_t> codes(size_t rows) const;
  // One number per row, NaN where there is none. REQUIRES: numeric().
  std::vector<float> numbers(size_t rows) const;

 private:
  struct Value {
    bool is_text = false;
    double number = 0;
    std::string_view text = {};
  };
  void append(size_t row, uint32_t code);

  std::string group_, name_;
  std::vector<Value> values_;
  std::vector<uint32_t> codes_;  // up to the last row that has a value
  std::unordered_map<std::string_view, uint32_t> code_of_text_;
  std::unordered_map<uint64_t, uint32_t> code_of_number_;  // by the number's bits
};

// Columns are made when a row first names them. Rows name them mostly in the same order, which is
// what makes finding them cheap.
class ColumnSet {
 public:
  void begin_row();

  void text(std::string_view group, std::string_view name, std::string_view value);
  void number(std::string_view group, std::string_view name, double value);
  // Numbers as numbers, nothing as no value, texts and booleans as text.
  void scalar(std::string_view group, std::string_view name, const Scalar& value);

  size_t rows() const { return rows_; }
  const std::deque<Column>& columns() const { return columns_; }

 private:
  Column& column(std::string_view group, std::string_view name);

  size_t rows_ = 0;
  size_t next_ = 0;  // the column after the one that was named last
  std::deque<Column> columns_;
  std::unordered_map<std::string, size_t> index_;  // by "group name"
};

}  // namespace sftbench::html
