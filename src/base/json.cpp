#include "sftbench/base/json.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {

Json parse_json(std::string_view text, const std::string& origin) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const size_t position = std::min(text.size(), error.byte);
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n') + 1;
    throw InputError({{.file = origin,
                       .line = static_cast<int>(line),
                       .key = {},
                       .message = std::string("not JSON: ") + error.what(),
                       .expected = {},
                       .nearest = {}}});
  } catch (const Json::out_of_range& error) {  // a number such as 1e999; it comes without a position
    throw InputError({{.file = origin,
                       .line = 0,
                       .key = {},
                       .message = std::string("not usable JSON: ") + error.what(),
                       .expected = {},
                       .nearest = {}}});
  }
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

}  // namespace sftbench
