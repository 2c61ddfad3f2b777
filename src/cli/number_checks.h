// Bounds of an option's number, in words: CLI11's own name the largest number that a machine can hold,
// 309 digits of it, and let NaN pass.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

CLI::Validator at_least_zero();
CLI::Validator above_zero();

}  // namespace sftbench
