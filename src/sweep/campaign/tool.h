// A program of the system that is given a text and answers with another: sbatch, scontrol.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

struct ToolResult {
  bool found = true;  // false: there is no such program
  int status = -1;    // exit status; 128 + signal
  std::string out;
  std::string err;
};

// Runs it to its end with `input` on its standard input. std::system_error when the system has no
// room for a process.
ToolResult run_tool(const std::vector<std::string>& words, const std::string& input = {});

}  // namespace sftbench
