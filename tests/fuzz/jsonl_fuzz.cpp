// JSONL reader: never reads outside the file, and says of every line what a full JSON parse of it
// says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sftbench/base/json.h"
#include "sftbench/data/jsonl.h"

namespace {

using sftbench::Json;

void compare_with_full_parse(std::string_view line, bool found, const std::string& text) {
  const Json json = Json::parse(line, nullptr, false);
  const bool expected = json.is_object() && json.contains("output") && json["output"].is_string();
  if (found != expected) std::abort();
  if (found && text != json["output"].get_ref<const std::string&>()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  try {
    const sftbench::JsonlFile file(content, "fuzz.jsonl");
    for (int64_t entry = 0; entry < file.size(); ++entry) {
      std::string text;
      sftbench::Diagnostic error;
      const bool found = file.read_text(entry, "output", text, error);
      if (!found && (error.message.empty() || error.line < 1)) std::abort();
      compare_with_full_parse(file.line(entry), found, text);
    }
  } catch (const sftbench::InputError&) {
    // No entry at all.
  }
  return 0;
}
