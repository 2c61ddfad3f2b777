// Arithmetic as Python does it.
#include <cmath>
#include <cstdio>

#include "jinja/runtime.h"
#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

[[noreturn]] void raise_operands(std::string_view operation, const Value& a, const Value& b) {
  throw TemplateError("unsupported operand type(s) for " + std::string(operation) + ": '" +
                      a.type_name() + "' and '" + b.type_name() + "'");
}

[[noreturn]] void raise_overflow() {
  throw TemplateError("an integer above 64 bits");
}

// Toward minus infinity.
int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) throw TemplateError("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) raise_overflow();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) raise_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) raise_overflow();
  }
  return result;
}

Value of_integers(std::string_view operation, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (operation == "+") {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (operation == "-") {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (operation == "*") {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else if (operation == "//") {
    result = floor_quotient(a, b);
  } else if (operation == "%") {
    result = b == -1 ? 0 : a - floor_quotient(a, b) * b;
  } else {
    result = power(a, b);
  }
  if (overflows) raise_overflow();
  return result;
}

Value of_floats(std::string_view operation, double a, double b) {
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "*") return a * b;
  if (operation == "**") {
    if (a == 0 && b < 0) throw TemplateError("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) throw TemplateError("a complex number");
    return std::pow(a, b);
  }
  if (b == 0) throw TemplateError("float division by zero");
  if (operation == "/") return a / b;
  // As float_divmod of CPython: 1.0 // 0.1 is 9, although 1.0 / 0.1 is rounded to 10.
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (operation == "%") return rest;
  const double quotient = std::round((a - rest) / b);
  return quotient == 0 ? std::copysign(0.0, a / b) : quotient;
}

bool has_length(const Value& value) {
  return value.is_text() ||
         (value.sequence() && value.sequence()->kind != Sequence::Kind::kGenerator);
}

Value repeated(Runtime& runtime, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size =
      value.is_text() ? value.text().size() : value.sequence()->items.size() * sizeof(Value);
  if (size > 0 && static_cast<uint64_t>(times) > (uint64_t{1} << 40) / size)
    runtime.charge(SIZE_MAX);
  runtime.charge(size * static_cast<size_t>(times));
  if (value.is_text()) {
    std::string text;
    for (int64_t i = 0; i < times && size > 0; ++i) text += value.text();
    return text;
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  }
  return Value::list(std::move(items), value.sequence()->kind);
}

Value sum_of(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    runtime.charge(a.text().size() + b.text().size());
    return a.text() + b.text();
  }
  if (!a.sequence() || !b.sequence() || a.sequence()->kind != b.sequence()->kind ||
      !has_length(a)) {
    if (a.is_text())
      throw TemplateError("can only concatenate str (not \"" + b.type_name() + "\") to str");
    raise_operands("+", a, b);
  }
  std::vector<Value> items = a.sequence()->items;
  items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  runtime.charge(items.size() * sizeof(Value));
  return Value::list(std::move(items), a.sequence()->kind);
}

}  // namespace

Value calculate(Runtime& runtime, std::string_view operation, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  if (operation == "%" && a.is_text()) {
    const bool several = b.sequence() && b.sequence()->kind == Sequence::Kind::kTuple;
    return formatted(runtime, a.text(), several ? b.sequence()->items : std::vector<Value>{b});
  }
  if (a.is_number() && b.is_number()) {
    const bool whole = a.is_integer() && b.is_integer() && operation != "/" &&
                       (operation != "**" || b.integer() >= 0);
    if (whole) return of_integers(operation, a.integer(), b.integer());
    if (operation == "/" && b.number() == 0) throw TemplateError("division by zero");
    return of_floats(operation, a.number(), b.number());
  }
  if (operation == "+") return sum_of(runtime, a, b);
  if (operation == "*" && has_length(a) && b.is_integer()) return repeated(runtime, a, b.integer());
  if (operation == "*" && has_length(b) && a.is_integer()) return repeated(runtime, b, a.integer());
  raise_operands(operation == "**" ? "** or pow()" : operation, a, b);
}

Value negative(const Value& value) {
  require_defined(value);
  if (value.is_integer()) {
    if (value.integer() == INT64_MIN) raise_overflow();
    return -value.integer();
  }
  if (value.is<double>()) return -value.number();
  throw TemplateError("bad operand type for unary -: '" + value.type_name() + "'");
}

Value concatenated(Runtime& runtime, const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += to_text(value);
  runtime.charge(text.size());
  return text;
}

namespace {

struct Directive {
  std::string flags;  // with width and precision, as printf takes them
  char kind = 0;
};

Directive directive_at(const std::string& format, size_t& at) {
  const size_t end = format.find_first_not_of("-+ #0123456789.", at);
  Directive directive;
  if (end == std::string::npos) throw TemplateError("incomplete format");
  directive.flags = format.substr(at, end - at);
  // A width of more digits would take more memory than any text has.
  if (directive.flags.size() > 6)
    throw TemplateError("a format with " + std::to_string(directive.flags.size()) + " flags");
  directive.kind = format[end];
  at = end + 1;
  return directive;
}

template <class T>
std::string printed(Runtime& runtime, const std::string& format, T value) {
  const int size = std::snprintf(nullptr, 0, format.c_str(), value);
  runtime.charge(static_cast<size_t>(std::max(size, 0)));
  std::string text(static_cast<size_t>(std::max(size, 0)) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), value);
  text.pop_back();
  return text;
}

std::string formatted_value(Runtime& runtime, const Directive& directive, const Value& value) {
  const std::string begin = "%" + directive.flags;
  switch (directive.kind) {
    case 's':
      return printed(runtime, begin + "s", to_text(value).c_str());
    case 'r':
      return printed(runtime, begin + "s", representation(value).c_str());
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o':
      if (!value.is_number()) {
        throw TemplateError(std::string("%") + directive.kind +
                            " format: a real number is required, not " + value.type_name());
      }
      return printed(
          runtime, begin + "ll" + directive.kind,
          static_cast<long long>(value.is_integer() ? value.integer()
                                                    : static_cast<int64_t>(value.number())));
    case 'e':
    case 'f':
    case 'g':
    case 'E':
    case 'F':
    case 'G':
      if (!value.is_number()) throw TemplateError("must be real number, not " + value.type_name());
      return printed(runtime, begin + directive.kind, value.number());
    default:
      throw TemplateError(std::string("unsupported format character '") + directive.kind + "'");
  }
}

}  // namespace

std::string formatted(Runtime& runtime, const std::string& format,
                      const std::vector<Value>& values) {
  std::string text;
  size_t used = 0;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const Directive directive = directive_at(format, ++at);
    if (directive.kind == '%') {
      text += '%';
      continue;
    }
    if (used == values.size()) throw TemplateError("not enough arguments for format string");
    text += formatted_value(runtime, directive, values[used++]);
  }
  if (used < values.size() && !values[0].mapping()) {
    throw TemplateError("not all arguments converted during string formatting");
  }
  runtime.charge(text.size());
  return text;
}

}  // namespace sftbench::jinja
