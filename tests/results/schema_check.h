// Holds files against config/measurement.schema.json with Debian's python3-jsonschema: a validator
// that shares no code with what wrote the files.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace sftbench {

// Empty when `file` is as the schema says; else the validator's words.
inline std::string schema_violation(const std::filesystem::path& file) {
  const std::string command = std::string(SFTBENCH_PYTHON) + " -W ignore -m jsonschema -i '" +
                              file.string() + "' '" +
                              SFTBENCH_SOURCE_DIR "/config/measurement.schema.json' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  std::string words;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) words += buffer.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return words.empty() ? command + " failed" : words;
}

}  // namespace sftbench
