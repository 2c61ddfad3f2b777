#include "cli/deadline.h"

#include <charconv>
#include <ctime>
#include <iomanip>
#include <locale>
#include <sstream>

#include "cli/number_checks.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr const char* kUntilExpected =
    "a duration (90s, 30m, 2h, 1h 30m, 1d) or a time (2026-11-24T12:00Z) in the future";
// What runs is ended before the launcher ends everything.
constexpr double kMarginSeconds = 30;

[[noreturn]] void refuse_time(const std::string& source, const std::string& text,
                              const std::string& problem = {}) {
  throw InputError({{{},
                     0,
                     source,
                     "found '" + text + "'" + (problem.empty() ? "" : ", " + problem),
                     kUntilExpected,
                     {}}});
}

// What stands behind the time of day: "" (this host's zone), "Z", "+01:00", "-0530".
std::optional<double> zone_offset_s(std::string zone) {
  if (zone == "Z" || zone == "z") return 0;
  if (zone.size() == 6 && zone[3] == ':') zone.erase(3, 1);
  if (zone.size() != 5 || (zone[0] != '+' && zone[0] != '-')) return std::nullopt;
  int digits = 0;
  const auto [end, error] = std::from_chars(zone.data() + 1, zone.data() + 5, digits);
  if (error != std::errc() || end != zone.data() + 5 || digits % 100 >= 60) return std::nullopt;
  const double seconds = (digits / 100) * 3600.0 + (digits % 100) * 60.0;
  return zone[0] == '-' ? -seconds : seconds;
}

// Unix time of "2026-11-24T12:00Z" and the like.
std::optional<double> point_in_time(const std::string& text) {
  for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"}) {
    std::tm time = {};
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());
    stream >> std::get_time(&time, format);
    if (stream.fail()) continue;
    std::string zone;
    std::getline(stream, zone);
    if (zone.empty()) {
      time.tm_isdst = -1;
      return static_cast<double>(std::mktime(&time));
    }
    const std::optional<double> offset_s = zone_offset_s(zone);
    if (!offset_s) continue;
    return static_cast<double>(::timegm(&time)) - *offset_s;
  }
  return std::nullopt;
}

Deadline parse_time(const std::string& source, const std::string& text, double now_s) {
  if (const std::optional<double> seconds = seconds_of_duration(text)) {
    if (*seconds <= 0) refuse_time(source, text, "which is no time");
    return {*seconds, source};
  }
  const std::optional<double> time_s = point_in_time(text);
  if (!time_s) refuse_time(source, text);
  if (*time_s <= now_s) refuse_time(source, text, "which is over");
  return {*time_s - now_s, source};
}

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

Deadline parse_until(const std::string& text, double now_s) {
  return parse_time("--until", text, now_s);
}

std::optional<Deadline> launcher_deadline(const Environment& environment, double now_s) {
  if (const std::string text = value_of(environment, "SFTBENCH_UNTIL"); !text.empty()) {
    return parse_time("SFTBENCH_UNTIL", text, now_s);
  }
  const std::string text = value_of(environment, "SLURM_JOB_END_TIME");
  double end_s = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), end_s);
  // Slurm's word for no limit is a year, or nothing.
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || end_s <= 0) {
    return std::nullopt;
  }
  return Deadline{end_s - now_s - kMarginSeconds, "SLURM_JOB_END_TIME"};
}

}  // namespace sftbench
