#include "cli/repeat_command.h"

#include <string_view>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {

std::string repeat_command() {
  const std::string words = read_file("/proc/self/cmdline");  // each ends with a zero byte
  std::string command = "sftbench";
  for (size_t begin = words.find('\0') + 1; begin < words.size();) {
    const size_t end = words.find('\0', begin);
    command += " " + shell_quoted(std::string_view(words).substr(begin, end - begin));
    begin = end + 1;
  }
  return command;
}

}  // namespace sftbench
