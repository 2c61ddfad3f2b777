#include "cli/repeat_command.h"

#include <vector>

#include "sftbench/base/command_text.h"
#include "sftbench/base/file.h"

namespace sftbench {

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
