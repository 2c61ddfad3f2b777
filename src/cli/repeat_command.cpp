#include "cli/repeat_command.h"

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {

std::string kept_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    command += (command.empty() ? "" : " ") + shell_quoted(without_secrets(word));
  }
  return command;
}

std::string repeat_command() {
  const std::string line = read_file("/proc/self/cmdline");  // each word ends with a zero byte
  std::vector<std::string> words = {"sftbench"};
  for (size_t begin = line.find('\0') + 1; begin < line.size();) {
    const size_t end = line.find('\0', begin);
    words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return kept_command(words);
}

}  // namespace sftbench
