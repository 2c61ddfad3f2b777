// The safetensors format: 8 bytes little-endian header length, a JSON header naming each tensor's
// dtype, shape and place, then the tensors' bytes without a gap.
// https://huggingface.co/docs/safetensors#format Reads headers only and knows no libtorch: what is
// read is untrusted and fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// The dtypes that checkpoints of language models are stored in, and those of other tensors beside
// them.
enum class StoredDtype {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// "BF16", as the format spells it.
std::string_view to_string(StoredDtype dtype);
int64_t element_size_bytes(StoredDtype dtype);

struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;
  uint64_t offset_bytes = 0;  // from the start of the file
  uint64_t size_bytes = 0;

  int64_t numel() const { return static_cast<int64_t>(size_bytes) / element_size_bytes(dtype); }
};

// "[64, 32]"
std::string shape_text(const std::vector<int64_t>& shape);

// The tensors of a whole safetensors file, in the order of their bytes. Every byte of `file` behind
// the header belongs to exactly one of them. InputError, all findings at once: truncated file,
// absurd header length, header that is not JSON, unknown dtype, duplicate name, size that
// contradicts the shape, overlapping tensors, gaps.
std::vector<StoredTensor> read_safetensors_header(std::string_view file, const std::string& origin);

}  // namespace sftbench
