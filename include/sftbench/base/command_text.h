// Command lines that others can see: results keep them and reports show them, ps shows those of
// processes to all users of a machine, and Slurm's accounting keeps those of srun. They have "***"
// in place of the secrets of addresses (base/text.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sftbench {

// Where the word of a shell that begins at `at` ends, at a space or the end. `word` gets it without
// its quotes. What a shell expands stays as it is.
size_t end_of_word(std::string_view line, size_t at, std::string& word);

// The words as a shell would take them again.
std::string kept_command(const std::vector<std::string>& words);
// The same of a line that may have been kept as it was, as by versions before 2026-11-28.
std::string masked_command(std::string_view line);

// Masks words that are to stand behind a program's name. Variables for its process, added to
// `environment`, tell it what they were.
void hide_secrets(std::vector<std::string>& words,
                  std::vector<std::pair<std::string, std::string>>& environment);
// In that process: puts them back, and removes the variables.
void reveal_secrets(std::vector<std::string>& words);

}  // namespace sftbench
