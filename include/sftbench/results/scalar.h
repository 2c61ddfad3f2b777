// One value of a result file in 16 bytes. A text is a view of bytes that somebody else keeps (the
// scan's text pool); a list is Python's text of it, as identifiers spell it ("['True', 'False']").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sftbench {

class Scalar {
 public:
  enum class Kind : uint8_t { kNull, kBoolean, kInteger, kNumber, kText };

  Scalar() = default;  // null: nothing was known, or nothing was there
  static Scalar boolean(bool value) { return Scalar(Kind::kBoolean, {.integer = value}); }
  static Scalar integer(int64_t value) { return Scalar(Kind::kInteger, {.integer = value}); }
  static Scalar number(double value) { return Scalar(Kind::kNumber, {.number = value}); }
  // REQUIRES: less than 4 GiB.
  static Scalar text(std::string_view value) {
    Scalar scalar(Kind::kText, {.text = value.data()});
    scalar.size_bytes_ = static_cast<uint32_t>(value.size());
    return scalar;
  }

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_text() const { return kind_ == Kind::kText; }

  // Integers and numbers; nothing for the rest.
  std::optional<double> as_number() const;
  // REQUIRES: the kind.
  bool as_boolean() const { return value_.integer != 0; }
  int64_t as_integer() const { return value_.integer; }
  std::string_view as_text() const { return {value_.text, size_bytes_}; }

  // By kind and content.
  friend bool operator==(const Scalar& a, const Scalar& b);

 private:
  union Content {
    int64_t integer;
    double number;
    const char* text;
  };
  Scalar(Kind kind, Content value) : value_(value), kind_(kind) {}

  Content value_ = {.integer = 0};
  uint32_t size_bytes_ = 0;
  Kind kind_ = Kind::kNull;
};

// Appends what Python's str() says: 8, 0.5, 1e-05, True, None. pandas writes the same into CSV
// files, except for None, which is an empty field there.
void append_python_str(std::string& text, const Scalar& value);

}  // namespace sftbench
