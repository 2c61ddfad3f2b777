#include "sftbench/base/json_text.h"

#include "sftbench/base/error.h"

namespace sftbench {

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> ascii_json(const Json& value) {
  try {
    return value.dump(-1, ' ', true, Json::error_handler_t::strict);
  } catch (const Json::type_error&) {
    return std::nullopt;
  }
}

// CBOR: the library writes and reads its texts as they are.
std::string packed_json(const Json& value) {
  std::string packed;
  Json::to_cbor(value, packed);
  return packed;
}

Json unpacked_json(std::string_view packed, const std::string& origin) {
  try {
    return Json::from_cbor(packed.begin(), packed.end());
  } catch (const Json::exception& error) {
    throw InputError({{.file = origin,
                       .line = 0,
                       .key = {},
                       .message = "not what this program hands over: " + json_problem(error),
                       .expected = {},
                       .nearest = {}}});
  }
}

}  // namespace sftbench
