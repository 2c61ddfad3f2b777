// A template, and behind a zero byte the JSON of its variables: it is refused or ends.
#include <cstdint>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  try {
    const sftbench::jinja::Template chat(input.substr(0, end), "fuzz.jinja");
    sftbench::Json variables = sftbench::Json::object();
    if (end != std::string_view::npos)
      variables = sftbench::parse_json(input.substr(end + 1), "fuzz.json");
    if (variables.is_object()) (void)chat.render(variables, 0);
  } catch (const sftbench::InputError&) {
  }
  return 0;
}
