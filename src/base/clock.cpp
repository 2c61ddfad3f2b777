#include "sftbench/base/clock.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>

namespace sftbench {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string utc_now_iso8601() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  char text[40];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(milliseconds));
  return text;
}

std::string local_time_iso8601(int64_t unix_us) {
  const auto seconds = static_cast<std::time_t>(unix_us / 1000000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char date[32];
  char text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%06d", date, static_cast<int>(unix_us % 1000000));
  return text;
}

double process_age_seconds() {
  // Field 22 of /proc/self/stat counts clock ticks since boot; the name in field 2 may hold spaces,
  // so counting starts behind its closing bracket.
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  double uptime_seconds = 0;
  std::ifstream("/proc/uptime") >> uptime_seconds;
  return uptime_seconds - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace sftbench
