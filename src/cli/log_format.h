// How lines of a log look: a pattern of spdlog whose %v, the message, is fit for a terminal. A
// message may repeat what a file, a server or another rank said.
#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>

namespace sftbench {

// `columns`: of the terminal that it goes to; 0: long lines stay as they are.
std::unique_ptr<spdlog::formatter> log_format(const std::string& pattern, size_t columns = 0);

}  // namespace sftbench
