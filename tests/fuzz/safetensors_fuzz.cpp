// Safetensors header: whatever the bytes, either an InputError or tensors that cover the file
// exactly once.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    uint64_t covered_to = 0;
    std::set<std::string> names;
    for (const auto& tensor : sftbench::read_safetensors_header(file, "fuzz.safetensors")) {
      if (!names.insert(tensor.name).second) std::abort();
      if (covered_to != 0 && tensor.offset_bytes != covered_to) std::abort();
      covered_to = tensor.offset_bytes + tensor.size_bytes;
      if (covered_to > size) std::abort();
      uint64_t size_bytes = static_cast<uint64_t>(sftbench::element_size_bytes(tensor.dtype));
      for (const int64_t extent : tensor.shape) size_bytes *= static_cast<uint64_t>(extent);
      if (size_bytes != tensor.size_bytes) std::abort();
    }
    if (!names.empty() && covered_to != size) std::abort();
  } catch (const sftbench::InputError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
