#include "sftbench/base/json.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_builder.h"

namespace sftbench {
namespace {

constexpr size_t kLongestProblem = 400;

}  // namespace

std::string json_problem(const Json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 7: <problem>", some without the
  // place.
  const std::string_view text = error.what();
  const size_t place = text.find("] parse error at ");
  const size_t end = place == std::string_view::npos ? text.find("] ") : text.find(": ", place);
  const std::string problem(end == std::string_view::npos ? text : text.substr(end + 2));
  // It quotes the number or the text that it stumbles over, whole.
  return problem.size() <= kLongestProblem ? problem : problem.substr(0, kLongestProblem) + "...";
}

Diagnostic json_diagnostic(const std::string& origin, std::string_view text, size_t position,
                           const Json::exception& error) {
  const std::string_view before = text.substr(0, position == 0 ? 0 : position - 1);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {.file = origin,
          .line = static_cast<int>(line),
          .key = {},
          .message = "not JSON at column " + std::to_string(before.size() - line_begin + 1) + ": " +
                     json_problem(error),
          .expected = {},
          .nearest = {}};
}

Json parse_json(std::string_view text, const std::string& origin) {
  try {
    return build_json(text);
  } catch (const Json::parse_error& error) {
    throw InputError({json_diagnostic(origin, text, error.byte, error)});
  } catch (
      const Json::out_of_range& error) {  // 1e999, or nested too deep; it comes without a position
    throw InputError({{.file = origin,
                       .line = 0,
                       .key = {},
                       .message = "not usable JSON: " + json_problem(error),
                       .expected = {},
                       .nearest = {}}});
  }
}

Json read_json_file(const std::string& path) {
  constexpr size_t kMostBytes = size_t{256} << 20;  // no longer than a measurement's file may be
  return parse_json(read_file(path, kMostBytes), path);
}

int64_t whole_number_at(const Json& object, const std::string& key, int64_t least, int64_t most,
                        const std::string& origin) {
  const auto found = object.find(key);
  const bool there = found != object.end();
  const bool whole = there && found->is_number_integer() &&
                     (!found->is_number_unsigned() || found->get<uint64_t>() <= INT64_MAX);
  if (whole && found->get<int64_t>() >= least && found->get<int64_t>() <= most) {
    return found->get<int64_t>();
  }
  throw InputError({finding(
      origin, key,
      there ? "found " + found->dump(-1, ' ', true, Json::error_handler_t::replace) : "is missing",
      "a whole number from " + std::to_string(least) + " to " + std::to_string(most))});
}

}  // namespace sftbench
