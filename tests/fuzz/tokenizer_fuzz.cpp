// tokenizer.json and a text from one input, divided by the first NUL byte: whatever stands in the
// file, reading it ends in a tokenizer or an InputError, and encoding ends.
#include <cstdint>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string_view input(reinterpret_cast<const char*>(data), size_bytes);
  const size_t divider = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(divider + 1, input.size()));
  try {
    sftbench::Tokenizer tokenizer =
        sftbench::Tokenizer::from_json(input.substr(0, divider), "fuzz");
    const auto ids = tokenizer.encode(text);
    sftbench::complete_special_tokens(tokenizer);
    if (tokenizer.clone().encode(text, false).size() > ids.size() + text.size() * 64 + 64)
      __builtin_trap();
  } catch (const sftbench::InputError&) {
    // What an unusable file must end in.
  }
  return 0;
}
