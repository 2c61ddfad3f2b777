// What mutation.py puts between an operator's operands: `a < b` becomes `a < Mark<7>() < b`, of the
// same precedence, which is `a <= b` while SFTBENCH_FAULT is 7.
#pragma once

#include <cstdlib>

namespace sftbench::fault {

inline bool on(int number) {
  static const char* chosen = std::getenv("SFTBENCH_FAULT");
  static const int value = chosen == nullptr ? -1 : std::atoi(chosen);
  return number == value;
}

template <int N>
struct Mark {};

template <int N, class T>
struct Operand {
  const T& value;
};

#define SFTBENCH_FAULT(OPERATOR, FAULTY)                                \
  template <int N, class A>                                             \
  Operand<N, A> operator OPERATOR(const A& left, Mark<N>) {             \
    return {left};                                                      \
  }                                                                     \
  template <int N, class A, class B>                                    \
  auto operator OPERATOR(Operand<N, A> left, const B& right) {          \
    return on(N) ? left.value FAULTY right : left.value OPERATOR right; \
  }
SFTBENCH_FAULT(<, <=)
SFTBENCH_FAULT(<=, <)
SFTBENCH_FAULT(>, >=)
SFTBENCH_FAULT(>=, >)
SFTBENCH_FAULT(==, !=)
SFTBENCH_FAULT(!=, ==)
SFTBENCH_FAULT(+, -)
SFTBENCH_FAULT(-, +)
SFTBENCH_FAULT(*, /)
#undef SFTBENCH_FAULT

// An assignment takes its right side first.
template <int N, class B>
Operand<N, B> operator+=(Mark<N>, const B& right) {
  return {right};
}

template <int N, class A, class B>
A& operator+=(A& left, Operand<N, B> right) {
  return on(N) ? left -= right.value : left += right.value;
}

}  // namespace sftbench::fault
