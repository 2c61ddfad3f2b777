#include "sftbench/results/scalar.h"

#include <charconv>
#include <cstring>

namespace sftbench {
namespace {

// repr() of a float: the shortest digits that read back, plain from 1e-4 up to 1e16, else with an
// exponent of at least two digits. Into a buffer: a report has millions of them.
void append_float(std::string& text, double value) {
  char digits[32];
  char* end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  const void* e = std::memchr(digits, 'e', static_cast<size_t>(end - digits));
  if (e != nullptr) {
    const char* exponent_text = static_cast<const char*>(e) + 1;
    int exponent = 0;
    std::from_chars(exponent_text + (*exponent_text == '+'), end, exponent);
    if (exponent >= -4 && exponent < 16) {
      end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr;
      if (std::memchr(digits, '.', static_cast<size_t>(end - digits)) == nullptr) {
        *end++ = '.';
        *end++ = '0';
      }
    }
  }
  text.append(digits, end);
}

}  // namespace

std::optional<double> Scalar::as_number() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(value_.integer);
  if (kind_ == Kind::kNumber) return value_.number;
  return std::nullopt;
}

bool operator==(const Scalar& a, const Scalar& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.is_text()) return a.as_text() == b.as_text();
  return a.kind_ == Scalar::Kind::kNumber ? a.value_.number == b.value_.number
                                          : a.value_.integer == b.value_.integer;
}

void append_python_str(std::string& text, const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::kNull:
      text += "None";
      return;
    case Scalar::Kind::kBoolean:
      text += value.as_boolean() ? "True" : "False";
      return;
    case Scalar::Kind::kInteger: {
      char digits[24];
      text.append(digits, std::to_chars(digits, digits + sizeof digits, value.as_integer()).ptr);
      return;
    }
    case Scalar::Kind::kNumber:
      append_float(text, *value.as_number());
      return;
    case Scalar::Kind::kText:
      text += value.as_text();
      return;
  }
}

}  // namespace sftbench
