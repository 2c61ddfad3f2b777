#include "cli/repeat_command.h"

#include "sftbench/base/file.h"

namespace sftbench {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

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
