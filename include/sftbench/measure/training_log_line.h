// A line of training_logs.jsonl, as fms-hf-tuning's FileLoggingCallback writes it.
#pragma once

#include <cstdint>
#include <string>

namespace sftbench {

// {"data":{"epoch":0.07,"step":10,"timestamp":"...","value":2.33},"name":"training_loss"} and a
// line end. The epoch has two decimals. A value that is not finite is null.
std::string training_log_line(const std::string& name, double epoch, int64_t step, int64_t unix_us,
                              double value);

}  // namespace sftbench
